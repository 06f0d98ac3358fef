#include "runtime/supervise/base64.h"

#include <stdlib.h>

static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

char *pin_base64(const uint8_t *data, size_t size) {
    size_t groups;
    if (__builtin_add_overflow(size, 2, &groups) || __builtin_mul_overflow(groups / 3, 4, &groups))
        return NULL;
    char *text = malloc(groups + 1), *to = text;
    if (text == NULL)
        return NULL;
    for (size_t i = 0; i < size; i += 3) {
        size_t left = size - i;
        uint32_t group = (uint32_t)data[i] << 16;
        group |= left > 1 ? (uint32_t)data[i + 1] << 8 : 0;
        group |= left > 2 ? (uint32_t)data[i + 2] : 0;
        *to++ = digits[group >> 18];
        *to++ = digits[group >> 12 & 63];
        *to++ = left > 1 ? digits[group >> 6 & 63] : '=';
        *to++ = left > 2 ? digits[group & 63] : '=';
    }
    *to = '\0';
    return text;
}
