/* requirement_text.h: what the grammars of requirement.c share: reading a line, and writing its canonical
 * form.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "base/arena.h"
#include "base/error.h"
#include "runtime/tool/requirement.h"

#define PIN_LETTERS "abcdefghijklmnopqrstuvwxyz"
#define PIN_CAPITALS "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
#define PIN_DIGITS "0123456789"

struct pin_requirement_line {
    const char *at;                   /* of the text, which ends with a zero */
    char to[3 * PIN_REQUIREMENT_MAX]; /* canonical; no form is three times as long as what it came from */
    size_t size;
    struct pin_arena *arena;
};

void pin_requirement_put(struct pin_requirement_line *line, const char *text, size_t size);
void pin_requirement_skip(struct pin_requirement_line *line);
/* The length of the run of `allowed` here. */
size_t pin_requirement_span(const struct pin_requirement_line *line, const char *allowed);
/* "'REST' isn't …", at most 40 bytes of it; false. */
bool pin_requirement_bad(const struct pin_requirement_line *line, struct pin_error *err, const char *what);

bool pin_requirement_pip(struct pin_requirement_line *line, const char **name, struct pin_error *err);
bool pin_requirement_npm(struct pin_requirement_line *line, const char **name, struct pin_error *err);
