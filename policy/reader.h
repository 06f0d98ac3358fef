/* reader.h: inside the policy reader: one file's values laid over a policy.
 *
 * The file is known to be JSON. Faults go to `found`; a value with a fault leaves the policy as it was.
 */
#pragma once

#include "policy/fields.h"
#include "policy/json_source.h"

#define PIN_HINT_OBJECT "write {\"key\": ...}"
#define PIN_HINT_LIST "write [...], even around a single item"
#define PIN_HINT_TEXT "write it in double quotes"
#define PIN_HINT_FLAG "write true or false, without quotes"

struct pin_reader {
    struct pin_policy *policy;
    const struct pin_json_source *source; /* its `file` lives in the policy's arena */
    struct pin_findings *found;
    bool site; /* the file is a site's: "*" and "/" may name all there is */
};

/* Lays the whole file over the policy: reader.c. */
void pin_reader_apply(struct pin_reader *reader);

/* One value of a scalar field: reader_values.c. */
void pin_reader_value(struct pin_reader *reader, const struct pin_json *node,
                      const struct pin_field_row *row);

/* A list or a set, with {"add": …, "remove": …}: reader_lists.c. */
void pin_reader_list(struct pin_reader *reader, const struct pin_json *node, const struct pin_field_row *row);

/* environment.set: reader_lists.c. */
void pin_reader_variables(struct pin_reader *reader, const struct pin_json *node,
                          const struct pin_field_row *row);

/* Rules get the budgets that they name, once all files are read: reader_egress.c. */
void pin_reader_give_budgets(struct pin_policy *policy, struct pin_findings *found);

/* A size, a time or a count; false after a fault: reader_values.c. */
bool pin_reader_amount(struct pin_reader *reader, const struct pin_json *node,
                       const struct pin_field_row *row, uint64_t *value);

/* One item of a list; false after a fault: reader_items.c, reader_egress.c. */
bool pin_reader_image(struct pin_reader *reader, const struct pin_json *node, const struct pin_field_row *row,
                      void *item);
bool pin_reader_mount(struct pin_reader *reader, const struct pin_json *node, const struct pin_field_row *row,
                      void *item);
bool pin_reader_egress(struct pin_reader *reader, const struct pin_json *node,
                       const struct pin_field_row *row, void *item);
bool pin_reader_deny(struct pin_reader *reader, const struct pin_json *node, const struct pin_field_row *row,
                     void *item);
bool pin_reader_budget(struct pin_reader *reader, const struct pin_json *node,
                       const struct pin_field_row *row, void *item);
bool pin_reader_syscall(struct pin_reader *reader, const struct pin_json *node,
                        const struct pin_field_row *row, void *item);

/* The text of a string node, or NULL after a fault. */
const char *pin_reader_string(struct pin_reader *reader, const struct pin_json *node);
/* The index of the node's word, or -1 after a fault. */
int pin_reader_word(struct pin_reader *reader, const struct pin_json *node, const char *const *words,
                    size_t count);
/* Says what is wrong with a node's type, and how the right one is written. */
void pin_reader_expected(struct pin_reader *reader, const struct pin_json *node, const char *what,
                         const char *hint);
/* Says that an object lacks a key; returns false. */
bool pin_reader_missing(struct pin_reader *reader, const struct pin_json *node, const char *key);

/* An object with few keys, such as an egress rule: `members[i]` becomes the node of keys[i] or NULL. False
 * after a fault of the object or its keys: what is missing then may stand there under another name, and what
 * is there can still be read, for its own faults. */
bool pin_reader_members(struct pin_reader *reader, const struct pin_json *node, const char *const *keys,
                        size_t count, const struct pin_json **members);
