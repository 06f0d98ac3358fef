#include "policy/buffer.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static char *reserve(struct pin_buffer *to, size_t size) {
    size_t need;
    if (__builtin_add_overflow(to->size, size, &need) || need >= SIZE_MAX / 4)
        abort();
    if (need + 1 > to->room) {
        size_t room = 2 * (need + 1) > 256 ? 2 * (need + 1) : 256;
        char *data = realloc(to->data, room);
        if (data == NULL)
            abort();
        to->data = data;
        to->room = room;
    }
    return to->data + to->size;
}

void pin_buffer_add_bytes(struct pin_buffer *to, const char *data, size_t size) {
    char *at = reserve(to, size);
    memcpy(at, data, size);
    at[size] = '\0';
    to->size += size;
}

void pin_buffer_add(struct pin_buffer *to, const char *text) {
    pin_buffer_add_bytes(to, text, strlen(text));
}

void pin_buffer_printf(struct pin_buffer *to, const char *format, ...) {
    va_list args, again;
    va_start(args, format);
    va_copy(again, args);
    int size = vsnprintf(NULL, 0, format, args);
    va_end(args);
    if (size < 0)
        abort();
    char *at = reserve(to, (size_t)size);
    (void)vsnprintf(at, (size_t)size + 1, format, again);
    va_end(again);
    to->size += (size_t)size;
}

void pin_buffer_json(struct pin_buffer *to, const char *text) {
    pin_buffer_add(to, "\"");
    while (*text != '\0') {
        size_t plain = 0;
        while ((unsigned char)text[plain] >= 0x20 && text[plain] != '"' && text[plain] != '\\')
            plain++;
        pin_buffer_add_bytes(to, text, plain);
        text += plain;
        if (*text == '"' || *text == '\\')
            pin_buffer_printf(to, "\\%c", *text);
        else if (*text != '\0')
            pin_buffer_printf(to, "\\u%04x", (unsigned char)*text);
        text += *text != '\0';
    }
    pin_buffer_add(to, "\"");
}

void pin_buffer_free(struct pin_buffer *buffer) {
    free(buffer->data);
    *buffer = (struct pin_buffer){0};
}
