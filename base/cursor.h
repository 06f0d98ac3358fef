/* cursor.h: reading hostile bytes with an end in sight.
 *
 * Every take either moves the cursor past what it read and returns true, or returns false and leaves it where
 * it was. Nothing allocates. Numbers are big endian, the byte order of the network and of our frames.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

struct pin_cursor {
    const uint8_t *at, *end;
};

static inline size_t pin_left(const struct pin_cursor *in) {
    return (size_t)(in->end - in->at);
}

static inline bool pin_take_bytes(struct pin_cursor *in, size_t size, const uint8_t **bytes) {
    if (pin_left(in) < size)
        return false;
    *bytes = in->at;
    in->at += size;
    return true;
}

static inline bool pin_take_u8(struct pin_cursor *in, uint8_t *value) {
    if (pin_left(in) < 1)
        return false;
    *value = *in->at++;
    return true;
}

static inline bool pin_take_u16be(struct pin_cursor *in, uint16_t *value) {
    if (pin_left(in) < 2)
        return false;
    *value = (uint16_t)((unsigned)in->at[0] << 8 | in->at[1]);
    in->at += 2;
    return true;
}

static inline bool pin_take_u32be(struct pin_cursor *in, uint32_t *value) {
    if (pin_left(in) < 4)
        return false;
    *value = (uint32_t)in->at[0] << 24 | (uint32_t)in->at[1] << 16 | (uint32_t)in->at[2] << 8 | in->at[3];
    in->at += 4;
    return true;
}

static inline bool pin_take_u64be(struct pin_cursor *in, uint64_t *value) {
    struct pin_cursor from = *in;
    uint32_t high, low;
    if (!pin_take_u32be(&from, &high) || !pin_take_u32be(&from, &low))
        return false;
    *value = (uint64_t)high << 32 | low;
    *in = from;
    return true;
}
