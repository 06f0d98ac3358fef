#include "base/text.h"

#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "base/utf8.h"

static uint32_t decode(const uint8_t *at, size_t length) {
    if (length == 1)
        return at[0];
    uint32_t point = at[0] & (0xFFu >> (length + 1));
    for (size_t i = 1; i < length; i++)
        point = point << 6 | (at[i] & 0x3Fu);
    return point;
}

/* Characters that move the cursor, turn the direction or can't be seen: they would let output fake a prompt.
 */
static bool is_hidden(uint32_t point) {
    return point < 0x20 || (point >= 0x7F && point < 0xA0) || point == 0xAD ||
           (point >= 0x200B && point <= 0x200F) || (point >= 0x2028 && point <= 0x202E) ||
           (point >= 0x2060 && point <= 0x206F) || point == 0xFEFF || (point >= 0xE0000 && point <= 0xE007F);
}

static char *make_fit(char *to, size_t room, const uint8_t *bytes, size_t size, bool double_backslash) {
    size_t out = 0;
    if (room == 0)
        return to;
    for (size_t at = 0; at < size;) {
        char piece[16];
        size_t length = pin_utf8_sequence(bytes + at, size - at);
        uint32_t point = length > 0 ? decode(bytes + at, length) : 0;
        if (length == 0)
            (void)snprintf(piece, sizeof(piece), "\\x%02x", bytes[at]);
        else if (point == '\n')
            memcpy(piece, "\\n", 3);
        else if (point == '\t')
            memcpy(piece, "\\t", 3);
        else if (point == '\\' && double_backslash)
            memcpy(piece, "\\\\", 3);
        else if (is_hidden(point))
            (void)snprintf(piece, sizeof(piece), point < 0x80 ? "\\x%02x" : "\\u{%x}", point);
        else {
            memcpy(piece, bytes + at, length);
            piece[length] = '\0';
        }
        size_t wide = strlen(piece);
        if (out + wide + sizeof("...") > room) {
            memcpy(to + out, "...", room - out > 3 ? 4 : 1);
            to[room - 1] = '\0';
            return to;
        }
        memcpy(to + out, piece, wide);
        out += wide;
        at += length > 0 ? length : 1;
    }
    to[out] = '\0';
    return to;
}

char *pin_escape(char *to, size_t room, const void *data, size_t size) {
    return make_fit(to, room, data, size, true);
}

char *pin_show(char *to, size_t room, const char *text) {
    return make_fit(to, room, (const uint8_t *)text, strlen(text), false);
}

bool pin_is_name(const char *text) {
    static const char first[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789";
    size_t length = strlen(text);
    if (length < 1 || length > 63 || strchr(first, text[0]) == NULL)
        return false;
    for (size_t i = 1; i < length; i++)
        if (strchr(first, text[i]) == NULL && text[i] != '_' && text[i] != '.' && text[i] != '-')
            return false;
    return strstr(text, "..") == NULL;
}

bool pin_is_variable(const char *text) {
    for (const char *at = text; *at != '\0'; at++)
        if ((unsigned char)*at < ' ' || *at == '\x7f' || *at == '=')
            return false;
    return text[0] != '\0';
}

bool pin_glob_match(const char *pattern, const char *text) {
    const char *star = NULL, *resume = NULL;
    while (*text != '\0') {
        if (*pattern == '*') {
            star = pattern++;
            resume = text;
        } else if (*pattern == *text) {
            pattern++;
            text++;
        } else if (star != NULL) {
            pattern = star + 1;
            text = ++resume;
        } else {
            return false;
        }
    }
    while (*pattern == '*')
        pattern++;
    return *pattern == '\0';
}
