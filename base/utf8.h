/* utf8.h: is it UTF-8? (RFC 3629: no surrogates, no overlong forms, nothing past U+10FFFF) */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The length of the longest prefix that is whole, valid UTF-8. */
size_t pin_utf8_prefix(const uint8_t *data, size_t size);

static inline bool pin_utf8_valid(const uint8_t *data, size_t size) {
    return pin_utf8_prefix(data, size) == size;
}

/* The length of the valid sequence at the start of `data`, or 0. */
size_t pin_utf8_sequence(const uint8_t *data, size_t size);
