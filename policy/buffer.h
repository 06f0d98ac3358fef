/* buffer.h: text that grows while it is written. Running out of memory aborts, as in arena.h. */
#pragma once

#include <stddef.h>
#include <stdint.h>

struct pin_buffer {
    char *data; /* ends with a zero byte that `size` doesn't count; NULL before the first byte */
    size_t size, room;
};

void pin_buffer_add(struct pin_buffer *to, const char *text);
void pin_buffer_add_bytes(struct pin_buffer *to, const char *data, size_t size);
void pin_buffer_printf(struct pin_buffer *to, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* A JSON string with its quotes; `text` is UTF-8. */
void pin_buffer_json(struct pin_buffer *to, const char *text);
void pin_buffer_free(struct pin_buffer *buffer);

#define PIN_BUFFER __attribute__((cleanup(pin_buffer_free)))
