#include "runtime/supervise/crc32c.h"

#include <stdbool.h>
#include <string.h>

#define POLYNOMIAL 0x82f63b78u /* 0x1edc6f41, reflected */

static uint32_t by_bits(uint32_t crc, const uint8_t *data, size_t size) {
    for (size_t i = 0; i < size; i++) {
        crc ^= data[i];
        for (int bit = 0; bit < 8; bit++)
            crc = crc >> 1 ^ (POLYNOMIAL & -(crc & 1));
    }
    return crc;
}

/* Four bytes a step; the table is made at each call, which a payload of any size outweighs. */
static uint32_t by_table(uint32_t crc, const uint8_t *data, size_t size) {
    uint32_t table[4][256];
    for (uint32_t i = 0; i < 256; i++) {
        uint8_t byte = (uint8_t)i;
        table[0][i] = by_bits(0, &byte, 1);
    }
    for (uint32_t i = 0; i < 256; i++)
        for (int row = 1; row < 4; row++)
            table[row][i] = table[row - 1][i] >> 8 ^ table[0][table[row - 1][i] & 0xff];
    for (; size >= 4; data += 4, size -= 4) {
        crc ^= (uint32_t)data[0] | (uint32_t)data[1] << 8 | (uint32_t)data[2] << 16 | (uint32_t)data[3] << 24;
        crc = table[3][crc & 0xff] ^ table[2][crc >> 8 & 0xff] ^ table[1][crc >> 16 & 0xff] ^
              table[0][crc >> 24];
    }
    return by_bits(crc, data, size);
}

#ifdef __x86_64__
#include <cpuid.h>

__attribute__((target("sse4.2"))) static uint32_t by_processor(uint32_t crc, const uint8_t *data,
                                                               size_t size) {
    uint64_t wide = crc;
    for (; size >= 8; data += 8, size -= 8) {
        uint64_t word;
        memcpy(&word, data, sizeof(word));
        wide = __builtin_ia32_crc32di(wide, word);
    }
    crc = (uint32_t)wide;
    for (; size > 0; data++, size--)
        crc = __builtin_ia32_crc32qi(crc, *data);
    return crc;
}

/* Asked when there is a frame: the compiler's own table is filled at every start, and under a hypervisor each
 * question is a trap. */
static bool processor_can(void) {
    static enum { UNASKED, NO, YES } answer; /* of a question whose answer never changes */
    unsigned a, b, c = 0, d;
    if (answer == UNASKED)
        answer = __get_cpuid(1, &a, &b, &c, &d) != 0 && (c & bit_SSE4_2) != 0 ? YES : NO;
    return answer == YES;
}
#else
static uint32_t by_processor(uint32_t crc, const uint8_t *data, size_t size) {
    return by_table(crc, data, size);
}

static bool processor_can(void) {
    return false;
}
#endif

uint32_t pin_crc32c(const uint8_t *data, size_t size) {
    if (processor_can())
        return ~by_processor(~0u, data, size);
    return pin_crc32c_portable(data, size);
}

uint32_t pin_crc32c_portable(const uint8_t *data, size_t size) {
    return ~(size < 512 ? by_bits(~0u, data, size) : by_table(~0u, data, size));
}
