/* bundle_table.h: the fields of config.json as tables: what the reader and the writer walk.
 *
 * A row is found by its key in its object, and stored at its offset in the struct that the object fills. A
 * field of the specification that pinfold doesn't offer has a row too, which says so: nothing is unknown by
 * accident, and nothing is ignored. Inside of runtime/bundle only. Source: OCI runtime-spec 1.2, config.md,
 * config-linux.md; docs/bundle.md.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "policy/json_source.h"
#include "runtime/bundle/bundle.h"
#include "runtime/bundle/json_text.h"

enum pin_bundle_type {
    PIN_ROW_TEXT,   /* const char * */
    PIN_ROW_FLAG,   /* bool */
    PIN_ROW_NUMBER, /* an integer of `size` bytes, signed where `min` is negative */
    PIN_ROW_LIMIT,  /* uint64_t; -1 is PIN_UNLIMITED, 0 is absent */
    PIN_ROW_DIGITS, /* const char *: an unsigned integer, kept as its digits */
    PIN_ROW_CHAR,   /* char: one of `letters` */
    PIN_ROW_CHOICE, /* an enum: `name` gives its words */
    PIN_ROW_SET, /* an integer of `size` bytes: bit n is word n of `name`; others to `unknown`, with `count`
                  */
    PIN_ROW_DIGEST,  /* uint8_t[PIN_SHA256_SIZE]; all zero is absent */
    PIN_ROW_TEXTS,   /* const char **, with `count` */
    PIN_ROW_IDS,     /* uint32_t *, with `count` */
    PIN_ROW_PAIRS,   /* struct pin_pair *, with `count`: an object of strings */
    PIN_ROW_LIST,    /* an array of structs of `size` bytes that `table` fills, with `count` */
    PIN_ROW_OBJECT,  /* `table` fills the struct at `offset` */
    PIN_ROW_CODEC,   /* what no other type fits */
    PIN_ROW_NOTHING, /* may stand where it asks for nothing: 0, -1, false, empty */
    PIN_ROW_REFUSED, /* of the specification, and not offered: `note` says why */
};

struct pin_bundle_reader {
    struct pin_json_source source;
    struct pin_arena *arena; /* the bundle's */
    struct pin_findings *found;
    struct pin_big_number *bigs; /* above INT64_MAX, by their places: see big_numbers.h */
    size_t big_count;
};

struct pin_bundle_codec {
    void (*read)(struct pin_bundle_reader *reader, const struct pin_json *node, void *base);
    /* writes the value; false: it is absent */
    bool (*write)(struct pin_json_text *text, const void *base);
};

struct pin_bundle_table;

struct pin_bundle_row {
    const char *key;
    enum pin_bundle_type type;
    size_t offset;
    size_t has, count; /* offsets of a bool and of a size_t, plus one; 0 is none */
    size_t unknown;    /* of a const char **, plus one; 0: words that aren't known are findings */
    size_t size;
    bool always;   /* written even where it is zero */
    bool required; /* a finding where it is missing */
    int64_t min;
    uint64_t max;
    int64_t absent; /* of a number of 8 bytes that isn't there, where that doesn't mean 0 */
    const struct pin_bundle_table *table;
    const char *(*name)(unsigned value);
    unsigned names;
    const char *letters;
    const char *alias; /* of a CHOICE: one more word, for the value `alias_of` */
    unsigned alias_of;
    const struct pin_bundle_codec *codec;
    const char *note;
};

struct pin_bundle_table {
    const struct pin_bundle_row *rows;
    size_t count;
};

/* NOLINTBEGIN(bugprone-macro-parentheses): designated initialisers can't stand in parentheses */
#define PIN_ROW(word, kind, ...)                                                                             \
    { .key = (word), .type = PIN_ROW_##kind, __VA_ARGS__ }
#define PIN_AT(type, field) .offset = offsetof(type, field)
#define PIN_HAS(type, field) .has = offsetof(type, field) + 1
#define PIN_N(type, field) .count = offsetof(type, field) + 1
#define PIN_U32(type, field) PIN_AT(type, field), .size = 4, .max = UINT32_MAX
/* of a user or a group; the highest number means "as it is" to setresuid(2), which would be root */
#define PIN_ID(type, field) PIN_AT(type, field), .size = 4, .max = UINT32_MAX - 1
#define PIN_U64(type, field) PIN_AT(type, field), .size = 8, .max = UINT64_MAX
#define PIN_I64(type, field) PIN_AT(type, field), .size = 8, .min = INT64_MIN, .max = INT64_MAX
#define PIN_TABLE(rows)                                                                                      \
    { rows, sizeof(rows) / sizeof((rows)[0]) }
/* NOLINTEND(bugprone-macro-parentheses) */

extern const struct pin_bundle_table pin_bundle_fields;           /* struct pin_bundle */
extern const struct pin_bundle_table pin_bundle_process_fields;   /* struct pin_bundle */
extern const struct pin_bundle_table pin_bundle_linux_fields;     /* struct pin_bundle */
extern const struct pin_bundle_table pin_bundle_resources_fields; /* struct pin_bundle_resources */
extern const struct pin_bundle_table pin_bundle_ext_fields;       /* struct pin_bundle_ext */
extern const struct pin_bundle_table pin_bundle_id_map_fields;    /* struct pin_id_map */

/* For codecs: reads an object by a table; a value by a row. */
void pin_bundle_read_object(struct pin_bundle_reader *reader, const struct pin_json *node,
                            const struct pin_bundle_table *table, void *base);
/* A string of at most PIN_BUNDLE_TEXT_MAX bytes in the arena, or NULL with a finding. */
const char *pin_bundle_read_text(struct pin_bundle_reader *reader, const struct pin_json *node);
/* False with a finding where the node is of another type. */
bool pin_bundle_expect(struct pin_bundle_reader *reader, const struct pin_json *node, json_type type);

void pin_bundle_write_rows(struct pin_json_text *text, const struct pin_bundle_table *table,
                           const void *base);

#define PIN_BUNDLE_TEXT_MAX ((size_t)128 * 1024) /* MAX_ARG_STRLEN: no argument can be longer */
#define PIN_BUNDLE_LIST_MAX 65536
