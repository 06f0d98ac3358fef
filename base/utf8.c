#include "base/utf8.h"

#include <string.h>

size_t pin_utf8_sequence(const uint8_t *data, size_t size) {
    if (size == 0)
        return 0;
    uint8_t first = data[0];
    if (first < 0x80)
        return 1;
    size_t length = first >= 0xC2 && first <= 0xDF   ? 2
                    : (first & 0xF0) == 0xE0         ? 3
                    : first >= 0xF0 && first <= 0xF4 ? 4
                                                     : 0;
    if (length == 0 || length > size)
        return 0;
    for (size_t i = 1; i < length; i++)
        if ((data[i] & 0xC0) != 0x80)
            return 0;
    uint8_t second = data[1];
    if ((first == 0xE0 && second < 0xA0) || (first == 0xED && second > 0x9F) ||
        (first == 0xF0 && second < 0x90) || (first == 0xF4 && second > 0x8F))
        return 0;
    return length;
}

size_t pin_utf8_prefix(const uint8_t *data, size_t size) {
    size_t at = 0;
    while (at < size) {
        uint64_t eight;
        while (size - at >= sizeof(eight)) { /* plain ASCII, eight at a time */
            memcpy(&eight, data + at, sizeof(eight));
            if (eight & UINT64_C(0x8080808080808080))
                break;
            at += sizeof(eight);
        }
        size_t length = at < size ? pin_utf8_sequence(data + at, size - at) : 0;
        if (length == 0)
            break;
        at += length;
    }
    return at;
}
