/* fields.h: the fields of a policy as a table: what the reader, the writer and the order walk.
 *
 * A field is found by its key in its object and stored at its offset in struct pin_policy. Lists have their
 * count at `count_offset`. Limits are inclusive.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "policy/policy.h"

enum pin_field_type {
    PIN_TYPE_OBJECT,
    PIN_TYPE_VERSION,  /* the key "pinfold" */
    PIN_TYPE_EXTENDS,  /* read before the other fields */
    PIN_TYPE_NAME,     /* const char *: a name as pin_is_name() has it */
    PIN_TYPE_TEXT,     /* const char * */
    PIN_TYPE_STRING,   /* const char * that `check` accepts; "": none; NULL: any, in a site's ceiling */
    PIN_TYPE_SIZE,     /* uint64_t, bytes */
    PIN_TYPE_TIME,     /* uint64_t, nanoseconds */
    PIN_TYPE_COUNT,    /* uint64_t */
    PIN_TYPE_ID,       /* uint32_t */
    PIN_TYPE_CPUS,     /* uint32_t, thousandths; 0 is unlimited */
    PIN_TYPE_FLAG,     /* bool */
    PIN_TYPE_CHOICE,   /* an enum whose words are `words` */
    PIN_TYPE_WORD,     /* const char *, one of `words` */
    PIN_TYPE_SET32,    /* uint32_t; bit n is word n */
    PIN_TYPE_SET64,    /* uint64_t; bit n is word n */
    PIN_TYPE_STRINGS,  /* struct pin_string[] that `check` accepts, or of `words` */
    PIN_TYPE_IMAGES,   /* struct pin_image_rule[] */
    PIN_TYPE_MOUNTS,   /* struct pin_mount_rule[] */
    PIN_TYPE_EGRESS,   /* struct pin_egress_rule[] */
    PIN_TYPE_DENY,     /* the same, and ports and protocol may be left out */
    PIN_TYPE_BUDGETS,  /* struct pin_egress_budget[] */
    PIN_TYPE_SYSCALLS, /* struct pin_syscall_entry[] */
    PIN_TYPE_VARIABLES /* struct pin_variable[], written as an object */
};

/* What is wrong with a string of a list, or NULL. `site`: in a site's file "*" may stand for any. */
typedef const char *pin_string_check(const char *text, bool site);

struct pin_field_object;

struct pin_field_row {
    const char *key;
    enum pin_field_type type;
    enum pin_field field; /* the index of `places`; of no meaning for objects, "pinfold" and "extends" */
    size_t offset, count_offset;
    uint64_t min, max;
    bool unlimited; /* the word "unlimited" may stand */
    const char *const *words;
    size_t word_count;
    pin_string_check *check;
    const char *example; /* "such as …": a string that `check` accepts */
    const struct pin_field_object *object;
};

struct pin_field_object {
    const struct pin_field_row *rows;
    size_t count;
};

extern const struct pin_field_object pin_policy_fields;

#define PIN_LIST_MAX 4096 /* items of one list, and members of environment.set */

/* Of network.limits; the first seven are those of a budget, too. */
extern const struct pin_field_object pin_limit_fields;
#define PIN_BUDGET_ROWS 7

/* The row of a field, and its place in a policy. */
const struct pin_field_row *pin_field_row(enum pin_field field);
