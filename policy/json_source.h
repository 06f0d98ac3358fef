/* json_source.h: a JSON text together with the place of each of its values.
 *
 * jansson decides what is JSON and holds the values; json_walk.h walks the same text and notes where each
 * value stands. Text with a byte order mark, a NUL byte, invalid UTF-8, deep nesting or a duplicate key is
 * refused; so is \u0000. Nodes and what they point to live until pin_json_free(). Lines and columns count
 * from 1, columns in characters. Source: RFC 8259.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <jansson.h>

#include "base/arena.h"
#include "base/findings.h"
#include "policy/policy.h"

#define PIN_JSON_DEPTH_MAX 32
#define PIN_JSON_VALUES_MAX 200000

struct pin_json {
    json_t *value;   /* borrowed; NULL under a duplicate key or at a fault, which are findings already */
    const char *key; /* in an object, else NULL */
    struct pin_json *parent, *first, *next;
    size_t count, index;           /* of the children; among the siblings */
    bool cut;                      /* the text ends in it: what it lacks may have stood there */
    uint32_t line, column;         /* of the value */
    uint32_t key_line, key_column; /* of the key, in an object */
};

struct pin_json_source {
    const char *file; /* what findings and places call it; the caller keeps it alive */
    struct pin_arena arena;
    json_t *tree;
    struct pin_json *root;
};

/* Reads the text into a zeroed source. What is good is what adds no finding. True as well where faults of the
 * text and duplicate keys are findings and what stands beside them can still be read, so that all faults are
 * found in one go; false, with findings, where nothing can. */
bool pin_json_read(struct pin_json_source *source, const char *file, const char *text, size_t size,
                   struct pin_findings *found);
void pin_json_free(struct pin_json_source *source);

/* The first member with this key; NULL where there is none, or `object` is none. */
const struct pin_json *pin_json_member(const struct pin_json *object, const char *key);

struct pin_place pin_json_place(const struct pin_json_source *source, const struct pin_json *node);

/* "FILE:LINE:COLUMN /pointer" of a value. */
void pin_json_where_is(char *to, size_t room, const struct pin_json_source *source,
                       const struct pin_json *node);

/* Appends a finding about a value, or about the key in front of it; `hint` may be NULL. */
void pin_json_fault(const struct pin_json_source *source, const struct pin_json *node,
                    struct pin_findings *found, const char *hint, const char *format, ...)
    __attribute__((format(printf, 5, 6)));
void pin_json_fault_key(const struct pin_json_source *source, const struct pin_json *node,
                        struct pin_findings *found, const char *hint, const char *format, ...)
    __attribute__((format(printf, 5, 6)));

/* A fault of the text itself, in or at `node`: PIN_ERROR_SYNTAX. */
void pin_json_fault_text(const struct pin_json_source *source, const struct pin_json *node, uint32_t line,
                         uint32_t column, struct pin_findings *found, const char *hint, const char *message);

/* "object", "string", "integer"… for messages. */
const char *pin_json_type_name(const json_t *value);

/* "FILE:LINE:COLUMN /pointer" in `to`; a file's name that is too long loses its front. */
void pin_json_where(char *to, size_t room, const char *file, uint32_t line, uint32_t column,
                    const char *pointer);
