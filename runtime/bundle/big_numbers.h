/* big_numbers.h: whole numbers above INT64_MAX, which JSON allows and jansson's integers can't hold.
 *
 * Engines write RLIM_INFINITY as 18446744073709551615. Such a number is remembered by its place (line and
 * column, as json_source.h counts them) and a string of the same length takes its place in a copy of the
 * text, so that all places stay true. A reader asks by the place; a string that stood in the text is never
 * taken for a number.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct pin_big_number {
    uint32_t line, column;
    uint64_t value;
};

#define PIN_BIG_NUMBERS_MAX 1024

/* Rewrites `text` in place; fills at most `room` numbers, and leaves the rest of them as they are. */
size_t pin_big_numbers_take(char *text, size_t size, struct pin_big_number *bigs, size_t room);

bool pin_big_numbers_find(const struct pin_big_number *bigs, size_t count, uint32_t line, uint32_t column,
                          uint64_t *value);
