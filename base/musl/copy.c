/* memcpy and memmove for x86-64: musl's use "rep movsq" for every size, whose start costs more than the short
 * copies of which a run makes thousands (0.25 ms in all). Whatever is loaded is loaded before what it could
 * overlap is stored, so that both are one function for up to 32 bytes. */
#include <stddef.h>
#include <stdint.h>
#include <string.h>

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
