/* memcpy, memmove and memchr for x86-64. musl's copies use "rep movsq" for every size, whose start costs more
 * than the short copies of which a run makes thousands (0.25 ms in all). Whatever is loaded is loaded before
 * what it could overlap is stored, so that both are one function for up to 32 bytes. musl's memchr looks at 8
 * bytes a step, and every byte of a command's output passes it, in search of frames. */
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <emmintrin.h>

#define STRING_FROM 1024 /* bytes, from where on the processor's own copy is the faster one */

typedef long long vector __attribute__((vector_size(16), aligned(1), may_alias));
typedef uint64_t word8 __attribute__((aligned(1), may_alias));
typedef uint32_t word4 __attribute__((aligned(1), may_alias));

static inline void *copy_short(unsigned char *to, const unsigned char *from, size_t size) {
    if (size >= 16) {
        vector first = *(const vector *)from, last = *(const vector *)(from + size - 16);
        *(vector *)to = first;
        *(vector *)(to + size - 16) = last;
    } else if (size >= 8) {
        uint64_t first = *(const word8 *)from, last = *(const word8 *)(from + size - 8);
        *(word8 *)to = first;
        *(word8 *)(to + size - 8) = last;
    } else if (size >= 4) {
        uint32_t first = *(const word4 *)from, last = *(const word4 *)(from + size - 4);
        *(word4 *)to = first;
        *(word4 *)(to + size - 4) = last;
    } else if (size > 0) {
        unsigned char first = from[0], middle = from[size / 2], last = from[size - 1];
        to[0] = first;
        to[size / 2] = middle;
        to[size - 1] = last;
    }
    return to;
}

/* From low to high: right also where `to` lies before `from` and they overlap. */
static inline void *copy_up(unsigned char *to, const unsigned char *from, size_t size) {
    vector last = *(const vector *)(from + size - 16);
    for (size_t at = 0; at + 16 < size; at += 16)
        *(vector *)(to + at) = *(const vector *)(from + at);
    *(vector *)(to + size - 16) = last;
    return to;
}

static inline void *copy_down(unsigned char *to, const unsigned char *from, size_t size) {
    vector first = *(const vector *)from;
    for (size_t at = size; at > 16; at -= 16)
        *(vector *)(to + at - 16) = *(const vector *)(from + at - 16);
    *(vector *)to = first;
    return to;
}

void *memcpy(void *restrict to, const void *restrict from, size_t size) {
    if (size <= 32)
        return copy_short(to, from, size);
    if (size < STRING_FROM)
        return copy_up(to, from, size);
    void *at = to;
    __asm__ volatile("rep movsb" : "+D"(at), "+S"(from), "+c"(size) : : "memory");
    return to;
}

void *memmove(void *to, const void *from, size_t size) {
    if ((uintptr_t)to - (uintptr_t)from >= size && (uintptr_t)from - (uintptr_t)to >= size)
        return memcpy(to, from, size);
    if (size <= 32)
        return copy_short(to, from, size);
    return (uintptr_t)to < (uintptr_t)from ? copy_up(to, from, size) : copy_down(to, from, size);
}

/* A bit for each of the 16 bytes that is the wanted one. */
static inline unsigned matches(const unsigned char *at, __m128i wanted) {
    const __m128i *aligned = (const __m128i *)(const void *)at;
    return (unsigned)_mm_movemask_epi8(_mm_cmpeq_epi8(_mm_load_si128(aligned), wanted));
}

/* The place of the first match in 64 bytes from `at`, or 64. */
static inline size_t find_in_64(const unsigned char *at, __m128i wanted) {
    uint64_t low = (uint64_t)matches(at, wanted) | (uint64_t)matches(at + 16, wanted) << 16;
    uint64_t high = (uint64_t)matches(at + 32, wanted) | (uint64_t)matches(at + 48, wanted) << 16;
    uint64_t all = low | high << 32;
    return all != 0 ? (size_t)__builtin_ctzll(all) : 64;
}

/* Only aligned blocks are loaded, which lie in one page each: `size` may reach beyond what can be read, as
 * long as the byte comes before that. */
void *memchr(const void *memory, int byte, size_t size) {
    const unsigned char *start = memory;
    const __m128i wanted = _mm_set1_epi8((char)byte);
    size_t offset = (uintptr_t)start % 16, place = 0;
    if (size == 0)
        return NULL;
    unsigned head = matches(start - offset, wanted) >> offset;
    if (head != 0) {
        place = (size_t)__builtin_ctz(head);
        return place < size ? (void *)(uintptr_t)(start + place) : NULL;
    }
    for (place = 16 - offset; place < size; place += 16) {
        while ((uintptr_t)(start + place) % 64 == 0 && size - place >= 64) {
            size_t found = find_in_64(start + place, wanted);
            if (found < 64)
                return (void *)(uintptr_t)(start + place + found);
            place += 64;
        }
        if (place >= size)
            break;
        unsigned match = matches(start + place, wanted);
        if (match != 0) {
            place += (size_t)__builtin_ctz(match);
            return place < size ? (void *)(uintptr_t)(start + place) : NULL;
        }
    }
    return NULL;
}
