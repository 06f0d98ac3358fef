#include "runtime/tool/lines.h"

#include <stdlib.h>
#include <string.h>

#include "base/utf8.h"

#define REPLACEMENT "\xEF\xBF\xBD"
#define LINES_MAX                                                                                            \
    ((size_t)256 * 1024) /* a list of more empty lines would cost more memory than the output                \
                          */

/* A copy in which every byte of no character is U+FFFD; the caller frees it. */
static char *replace(const uint8_t *data, size_t size, size_t *length) {
    char *copy = malloc(size * 3 + 1);
    *length = 0;
    for (size_t i = 0; copy != NULL && i < size;) {
        size_t width = pin_utf8_sequence(data + i, size - i);
        const void *from = width == 0 ? (const void *)REPLACEMENT : data + i;
        size_t taken = width == 0 ? sizeof(REPLACEMENT) - 1 : width;
        memcpy(copy + *length, from, taken);
        *length += taken;
        i += width == 0 ? 1 : width;
    }
    return copy;
}

static json_t *split(const char *text, size_t size) {
    json_t *lines = json_array();
    const char *end = text + size;
    while (lines != NULL && text < end) {
        const char *stop =
            json_array_size(lines) + 1 < LINES_MAX ? memchr(text, '\n', (size_t)(end - text)) : NULL;
        size_t length = (size_t)((stop != NULL ? stop : end) - text);
        if (json_array_append_new(lines, json_stringn_nocheck(text, length)) != 0)
            break;
        text += length + (stop != NULL);
    }
    return lines;
}

json_t *pin_tool_lines(const uint8_t *data, size_t size, bool *replaced) {
    if (size == 0)
        return json_array();
    if (pin_utf8_valid(data, size))
        return split((const char *)data, size);
    size_t length;
    char *copy = replace(data, size, &length);
    *replaced = true;
    json_t *lines = copy == NULL ? NULL : split(copy, length);
    free(copy);
    return lines;
}
