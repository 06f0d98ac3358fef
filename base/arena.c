#include "base/arena.h"

#include <stdalign.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct pin_arena_block {
    struct pin_arena_block *next;
    size_t used, size;
    alignas(max_align_t) unsigned char data[];
};

/* Sizes of blocks, with their heads. The first one is small, for an arena that holds little: memory between
 * what is used costs a page for nothing where it is fetched ahead. */
#define FIRST_BYTES ((size_t)4 * 1024)
#define BLOCK_BYTES ((size_t)16 * 1024)

static size_t room_after(const struct pin_arena_block *last) {
    size_t whole = last == NULL ? FIRST_BYTES : 2 * (sizeof(*last) + last->size);
    return (whole < BLOCK_BYTES ? whole : BLOCK_BYTES) - sizeof(*last);
}

void *pin_arena_alloc(struct pin_arena *arena, size_t size) {
    if (size > SIZE_MAX / 2)
        abort();
    size_t need = (size + alignof(max_align_t) - 1) & ~(alignof(max_align_t) - 1);
    struct pin_arena_block *block = arena->block;
    if (block == NULL || block->size - block->used < need) {
        size_t room = room_after(block);
        if (need > room)
            room = need;
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

/* Most formats are paths: "%s/%s". A copy costs a tenth of what the C library's interpreter does. */
static bool joins_texts(const char *format) {
    for (const char *at = strchr(format, '%'); at != NULL; at = strchr(at + 2, '%'))
        if (at[1] != 's')
            return false;
    return true;
}

/* The texts and what stands between them, into `to`; NULL: only counts. Returns the size without the zero. */
static size_t join_texts(char *to, const char *format, va_list args) {
    size_t size = 0;
    for (const char *at = format; *at != '\0';) {
        bool text = *at == '%';
        const char *part = text ? va_arg(args, const char *) : at;
        part = part != NULL ? part : "(null)";
        size_t length = text ? strlen(part) : strcspn(at, "%");
        if (to != NULL)
            /* NOLINTNEXTLINE(bugprone-not-null-terminated-result): the caller ends it */
            memcpy(to + size, part, length);
        size += length;
        at += text ? 2 : length;
    }
    return size;
}

char *pin_arena_printf(struct pin_arena *arena, const char *format, ...) {
    char room[256]; /* for most: they are formatted once */
    va_list args, again;
    va_start(args, format);
    va_copy(again, args);
    if (joins_texts(format)) {
        char *joined = pin_arena_alloc(arena, join_texts(NULL, format, args) + 1);
        va_end(args);
        (void)join_texts(joined, format, again);
        va_end(again);
        return joined;
    }
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

/* True: the memory, the last that the block gave, has `more` bytes behind it now. */
static bool stretch(struct pin_arena *arena, const void *memory, size_t size, size_t more) {
    struct pin_arena_block *block = arena->block;
    size_t mask = alignof(max_align_t) - 1, whole = (size + more + mask) & ~mask;
    if (block == NULL || (const unsigned char *)memory + ((size + mask) & ~mask) != block->data + block->used)
        return false;
    size_t start = (size_t)((const unsigned char *)memory - block->data);
    if (whole > block->size - start)
        return false;
    block->used = start + whole;
    return true;
}

void *pin_arena_grow(struct pin_arena *arena, void *items_slot, size_t *count, size_t size) {
    return pin_arena_grow_from(arena, items_slot, count, size, 8);
}

void *pin_arena_grow_from(struct pin_arena *arena, void *items_slot, size_t *count, size_t size,
                          size_t first) {
    void **items = items_slot;
    size_t n = *count;
    /* room doubles at every power of two, so the count alone tells when it is full */
    bool full = n == 0 || (n >= first && (n & (n - 1)) == 0);
    if (full && !(n > 0 && stretch(arena, *items, n * size, n * size))) {
        void *more = pin_arena_array(arena, n == 0 ? first : n * 2, size);
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
