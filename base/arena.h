/* arena.h: many small allocations with one owner, freed in one call.
 *
 * Memory is zeroed and aligned for any type. Exhaustion aborts the process before anything was built:
 * policies, bundles and plans are bounded by their parsers, so running out here means that the host is out of
 * memory.
 */
#pragma once

#include <stdarg.h>
#include <stddef.h>

struct pin_arena {
    struct pin_arena_block *block;
};

void *pin_arena_alloc(struct pin_arena *arena, size_t size);
/* `count` times `size` with the overflow checked. */
void *pin_arena_array(struct pin_arena *arena, size_t count, size_t size);
char *pin_arena_strdup(struct pin_arena *arena, const char *text);
char *pin_arena_strndup(struct pin_arena *arena, const char *text, size_t size);
char *pin_arena_printf(struct pin_arena *arena, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
void *pin_arena_memdup(struct pin_arena *arena, const void *data, size_t size);
void pin_arena_free(struct pin_arena *arena);

/* A list that grows in the arena: `items` holds `*count` items of `size`; makes room for one more and returns
 * the place of it, zeroed. The items may move. */
void *pin_arena_grow(struct pin_arena *arena, void *items_slot, size_t *count, size_t size);
/* The same for a list that has room for `first` items, a power of two, from the start: always called so for
 * that list. */
void *pin_arena_grow_from(struct pin_arena *arena, void *items_slot, size_t *count, size_t size,
                          size_t first);

#define PIN_ARENA __attribute__((cleanup(pin_arena_free)))
