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
#include <nmmintrin.h>
#include <wmmintrin.h>

#define LANE ((size_t)1024)

static uint64_t word_at(const uint8_t *data) {
    uint64_t word;
    memcpy(&word, data, sizeof(word));
    return word;
}

__attribute__((target("sse4.2"))) static uint32_t by_one_lane(uint32_t crc, const uint8_t *data,
                                                              size_t size) {
    uint64_t wide = crc;
    for (; size >= 8; data += 8, size -= 8)
        wide = _mm_crc32_u64(wide, word_at(data));
    crc = (uint32_t)wide;
    for (; size > 0; data++, size--)
        crc = _mm_crc32_u8(crc, *data);
    return crc;
}

/* As if zeros followed, so many that `power` is x to 8 times their number - 33 (reflected): the instruction
 * itself reduces the product. */
__attribute__((target("sse4.2,pclmul"))) static uint64_t shifted(uint64_t crc, long long power) {
    __m128i product = _mm_clmulepi64_si128(_mm_cvtsi64_si128((long long)crc), _mm_cvtsi64_si128(power), 0);
    return _mm_crc32_u64(0, (uint64_t)_mm_cvtsi128_si64(product));
}

/* The instruction takes three cycles, and three of them at once no more. */
__attribute__((target("sse4.2,pclmul"))) static uint32_t by_three_lanes(uint32_t crc, const uint8_t *data,
                                                                        size_t size) {
    uint64_t first = crc;
    for (; size >= 3 * LANE; data += 3 * LANE, size -= 3 * LANE) {
        uint64_t second = 0, third = 0;
        for (size_t at = 0; at < LANE; at += 8) {
            first = _mm_crc32_u64(first, word_at(data + at));
            second = _mm_crc32_u64(second, word_at(data + LANE + at));
            third = _mm_crc32_u64(third, word_at(data + 2 * LANE + at));
        }
        first = shifted(first, 0xa51b6135) ^ shifted(second, 0x170076fa) ^ third;
    }
    return by_one_lane((uint32_t)first, data, size);
}

enum ability { UNASKED, NONE, ONE_LANE, THREE_LANES };

/* Asked when there is something to sum: the compiler's own table is filled at every start, and under a
 * hypervisor each question is a trap. */
static enum ability ability(void) {
    static enum ability answer; /* to a question whose answer never changes */
    unsigned a, b, c = 0, d;
    if (answer == UNASKED) {
        bool known = __get_cpuid(1, &a, &b, &c, &d) != 0 && (c & bit_SSE4_2) != 0;
        answer = !known ? NONE : (c & bit_PCLMUL) != 0 ? THREE_LANES : ONE_LANE;
    }
    return answer;
}

static bool processor_can(void) {
    return ability() != NONE;
}

static uint32_t by_processor(uint32_t crc, const uint8_t *data, size_t size) {
    return ability() == THREE_LANES ? by_three_lanes(crc, data, size) : by_one_lane(crc, data, size);
}
#else
static uint32_t by_processor(uint32_t crc, const uint8_t *data, size_t size) {
    return by_table(crc, data, size);
}

static bool processor_can(void) {
    return false;
}
#endif

static uint32_t by_program(uint32_t crc, const uint8_t *data, size_t size) {
    return size < 512 ? by_bits(crc, data, size) : by_table(crc, data, size);
}

uint32_t pin_crc32c_more(uint32_t sum, const uint8_t *data, size_t size) {
    return ~(processor_can() ? by_processor(~sum, data, size) : by_program(~sum, data, size));
}

uint32_t pin_crc32c(const uint8_t *data, size_t size) {
    return pin_crc32c_more(0, data, size);
}

uint32_t pin_crc32c_portable(const uint8_t *data, size_t size) {
    return ~by_program(~0u, data, size);
}
