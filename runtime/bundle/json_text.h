/* json_text.h: JSON as it is written, into a buffer that grows.
 *
 * Members are written in the order of the calls; with `pretty` each on a line of its own. A member that turns
 * out to be empty is taken back by cutting the text to where it began. Strings must be UTF-8: the first that
 * isn't is remembered in `bad`, by the pointer of its member.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define PIN_JSON_TEXT_DEPTH 16

struct pin_json_step { /* a member of an object, or the item of a list where `key` is NULL */
    const char *key;
    size_t index;
};

struct pin_json_text {
    char *data; /* ends with a zero byte that `size` doesn't count */
    size_t size, room;
    unsigned depth;
    bool pretty;
    struct pin_json_step path[PIN_JSON_TEXT_DEPTH]; /* to the member that is being written */
    size_t steps;
    char bad[128]; /* the pointer of the member that is no UTF-8; "" if there is none */
};

/* A mark to which the text can be cut back. */
struct pin_json_mark {
    size_t size, steps;
    unsigned depth;
};

void pin_json_text_cut(struct pin_json_text *text, const struct pin_json_mark *mark);

/* Starts a member: `key` in an object, NULL in a list, where `index` says which; returns the mark before it,
 * which pin_json_text_end() takes. */
struct pin_json_mark pin_json_text_member(struct pin_json_text *text, const char *key, size_t index);
void pin_json_text_end(struct pin_json_text *text, const struct pin_json_mark *mark);

void pin_json_text_open(struct pin_json_text *text, char bracket);
void pin_json_text_close(struct pin_json_text *text, char bracket);
void pin_json_text_string(struct pin_json_text *text, const char *value);
void pin_json_text_u64(struct pin_json_text *text, uint64_t value);
void pin_json_text_i64(struct pin_json_text *text, int64_t value);
void pin_json_text_flag(struct pin_json_text *text, bool value);
/* A number that is kept as its digits. */
void pin_json_text_digits(struct pin_json_text *text, const char *digits);
void pin_json_text_free(struct pin_json_text *text);
