#include "base/arena.h"

#include <stdalign.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct pin_arena_block {
    struct pin_arena_block *next;
    size_t used, size;
    alignas(max_align_t) unsigned char data[];
};

#define BLOCK_BYTES ((size_t)16 * 1024)

void *pin_arena_alloc(struct pin_arena *arena, size_t size) {
    if (size > SIZE_MAX / 2)
        abort();
    size_t need = (size + alignof(max_align_t) - 1) & ~(alignof(max_align_t) - 1);
    struct pin_arena_block *block = arena->block;
    if (block == NULL || block->size - block->used < need) {
        size_t room = need > BLOCK_BYTES ? need : BLOCK_BYTES;
        block = calloc(1, sizeof(*block) + room);
        if (block == NULL)
            abort();
        block->size = room;
        block->next = arena->block;
        arena->block = block;
    }
    void *place = block->data + block->used;
    block->used += need;
    return place;
}

void *pin_arena_array(struct pin_arena *arena, size_t count, size_t size) {
    size_t total;
    if (__builtin_mul_overflow(count, size, &total))
        abort();
    return pin_arena_alloc(arena, total);
}

void *pin_arena_memdup(struct pin_arena *arena, const void *data, size_t size) {
    void *copy = pin_arena_alloc(arena, size);
    if (size > 0)
        memcpy(copy, data, size);
    return copy;
}

char *pin_arena_strndup(struct pin_arena *arena, const char *text, size_t size) {
    char *copy = pin_arena_alloc(arena, size + 1);
    memcpy(copy, text, size);
    return copy;
}

char *pin_arena_strdup(struct pin_arena *arena, const char *text) {
    return pin_arena_strndup(arena, text, strlen(text));
}

char *pin_arena_printf(struct pin_arena *arena, const char *format, ...) {
    char room[256]; /* for most: they are formatted once */
    va_list args, again;
    va_start(args, format);
    va_copy(again, args);
    int size = vsnprintf(room, sizeof(room), format, args);
    va_end(args);
    if (size < 0)
        abort();
    char *text = pin_arena_alloc(arena, (size_t)size + 1);
    if ((size_t)size < sizeof(room))
        memcpy(text, room, (size_t)size + 1);
    else
        (void)vsnprintf(text, (size_t)size + 1, format, again);
    va_end(again);
    return text;
}

void *pin_arena_grow(struct pin_arena *arena, void *items_slot, size_t *count, size_t size) {
    void **items = items_slot;
    size_t n = *count;
    /* room doubles at every power of two, so the count alone tells when it is full */
    if (n == 0 || (n >= 8 && (n & (n - 1)) == 0)) {
        void *more = pin_arena_array(arena, n == 0 ? 8 : n * 2, size);
        if (n > 0)
            memcpy(more, *items, n * size);
        *items = more;
    }
    *count = n + 1;
    return (unsigned char *)*items + n * size;
}

void pin_arena_free(struct pin_arena *arena) {
    struct pin_arena_block *block = arena->block;
    arena->block = NULL;
    while (block != NULL) {
        struct pin_arena_block *next = block->next;
        free(block);
        block = next;
    }
}
