/* malloc(3) for the programs that are linked with musl. musl's own maps and unmaps each group of blocks,
 * which is right for a process that lives long, and half a millisecond for one that runs a single command.
 *
 * Blocks of 48 sizes, four to each power of two, are cut from chunks and kept in a list for each size when
 * they are free; larger ones are mappings of their own, which realloc() moves without a copy. A word before
 * each block says what it is, mixed with a random number of the process and the block's address: a block that
 * is freed twice, was never given out, or whose neighbour has written over its end, is found when it is
 * freed, and the process aborts. Threads wait for each other in turn: there is one beside the first at most
 * (runtime/watch). A child of fork(2) that was made while another thread is in here must not allocate before
 * it executes. aligned_alloc() fails. */
#include <errno.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/mman.h>

#define CHUNK_SIZE ((size_t)1 << 20)
#define FAULT_AHEAD ((size_t)128 << 10) /* what a run touches: one call rather than a fault for each page */
#define LARGE_FROM ((size_t)128 << 10)
#define CLASSES 48

#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23 /* Linux 5.14 */
#endif

enum state { FREE = 0x5a, LIVE = 0xa5, MAPPED = 0xc3 };

struct block {   /* 16 bytes, so that what follows is aligned for everything */
    size_t size; /* that the caller may use */
    uint64_t seal;
};
_Static_assert(sizeof(struct block) == 16, "blocks keep their alignment");

struct free_block {
    struct block head;
    uintptr_t next; /* mixed with the random number */
};

static struct {
    unsigned char *at, *end;
    uintptr_t free[CLASSES];
    uint64_t random; /* 0: nothing was given out yet */
} heap;

static atomic_flag busy = ATOMIC_FLAG_INIT;

static void enter(void) {
    int cause = errno;
    while (atomic_flag_test_and_set_explicit(&busy, memory_order_acquire))
        (void)sched_yield();
    errno = cause;
}

static void leave(void) {
    atomic_flag_clear_explicit(&busy, memory_order_release);
}

static uint64_t seal_of(const struct block *block, enum state state) {
    return heap.random ^ (uintptr_t)block ^ (block->size << 8) ^ (uint64_t)state;
}

static struct block *block_of(void *memory, enum state *state) {
    struct block *block = (struct block *)memory - 1;
    uint64_t found = block->seal ^ seal_of(block, 0);
    if (found != LIVE && found != MAPPED)
        abort(); /* freed twice, never given out, or written over */
    *state = (enum state)found;
    return block;
}

/* 16 to 128 by sixteens, then four steps to each power of two. */
static unsigned class_of(size_t size) {
    if (size <= 128)
        return size <= 16 ? 0 : (unsigned)((size - 1) / 16);
    unsigned power = 63 - (unsigned)__builtin_clzl(size - 1); /* 7 for 129 to 256 */
    return 8 + (power - 7) * 4 + (unsigned)((size - 1) >> (power - 2) & 3);
}

static size_t size_of_class(unsigned class) {
    if (class < 8)
        return ((size_t) class + 1) * 16;
    unsigned power = 7 + (class - 8) / 4;
    return ((size_t)1 << power) + ((size_t)((class - 8) % 4) + 1) * ((size_t)1 << (power - 2));
}

static void *map(size_t size) {
    void *memory = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    return memory == MAP_FAILED ? NULL : memory;
}

/* The second half of the kernel's sixteen random bytes: the first is the stack protector's. */
static void begin(void) {
    const unsigned char *bytes = (const unsigned char *)getauxval(AT_RANDOM);
    if (bytes != NULL)
        memcpy(&heap.random, bytes + 8, sizeof(heap.random));
    heap.random |= 1;
}

static bool add_chunk(void) {
    unsigned char *chunk = map(CHUNK_SIZE);
    if (chunk == NULL)
        return false;
    if (heap.end == NULL) {
        int cause = errno; /* an old kernel faults page by page */
        (void)madvise(chunk, FAULT_AHEAD, MADV_POPULATE_WRITE);
        errno = cause;
    }
    heap.at = chunk; /* the rest of the last one is less than a block: not worth a list */
    heap.end = chunk + CHUNK_SIZE;
    return true;
}

static struct block *take_free(unsigned class) {
    struct free_block *found = (struct free_block *)heap.free[class];
    if (found == NULL)
        return NULL;
    if ((found->head.seal ^ seal_of(&found->head, 0)) != FREE)
        abort(); /* written over after it was freed */
    heap.free[class] = found->next ^ (uintptr_t)heap.random;
    return &found->head;
}

static struct block *cut(unsigned class) {
    size_t size = size_of_class(class);
    if ((size_t)(heap.end - heap.at) < sizeof(struct block) + size && !add_chunk())
        return NULL;
    struct block *block = (struct block *)(void *)heap.at;
    heap.at += sizeof(*block) + size;
    block->size = size;
    return block;
}

static void *give_mapping(size_t size) {
    size_t total;
    if (__builtin_add_overflow(size, sizeof(struct block), &total) || total > PTRDIFF_MAX)
        return NULL;
    struct block *block = map(total);
    if (block == NULL)
        return NULL;
    block->size = size;
    block->seal = seal_of(block, MAPPED);
    return block + 1;
}

/* *is_zero: nobody has written into it yet. */
static void *give(size_t size, bool *is_zero) {
    *is_zero = true;
    void *memory = NULL;
    enter();
    if (heap.random == 0)
        begin();
    if (size > LARGE_FROM) {
        memory = give_mapping(size);
    } else {
        unsigned class = class_of(size);
        struct block *block = take_free(class);
        *is_zero = block == NULL;
        if (block == NULL)
            block = cut(class);
        if (block != NULL) {
            block->seal = seal_of(block, LIVE);
            memory = block + 1;
        }
    }
    leave();
    if (memory == NULL)
        errno = ENOMEM;
    return memory;
}

void *malloc(size_t size) {
    bool is_zero;
    return give(size, &is_zero);
}

void *calloc(size_t count, size_t size) {
    size_t total;
    bool is_zero;
    if (__builtin_mul_overflow(count, size, &total)) {
        errno = ENOMEM;
        return NULL;
    }
    void *memory = give(total, &is_zero);
    return memory == NULL || is_zero ? memory : memset(memory, 0, total);
}

void free(void *memory) {
    enum state state;
    if (memory == NULL)
        return;
    struct block *block = block_of(memory, &state);
    if (state == MAPPED) {
        int cause = errno;
        (void)munmap(block, sizeof(*block) + block->size);
        errno = cause;
        return;
    }
    unsigned class = class_of(block->size);
    struct free_block *freed = (struct free_block *)(void *)block;
    enter();
    block->seal = seal_of(block, FREE);
    freed->next = heap.free[class] ^ (uintptr_t)heap.random;
    heap.free[class] = (uintptr_t)freed;
    leave();
}

static void *resize_mapping(struct block *block, size_t size) {
    size_t total;
    if (__builtin_add_overflow(size, sizeof(*block), &total) || total > PTRDIFF_MAX) {
        errno = ENOMEM;
        return NULL;
    }
    struct block *moved = mremap(block, sizeof(*block) + block->size, total, MREMAP_MAYMOVE);
    if (moved == MAP_FAILED)
        return NULL;
    moved->size = size;
    moved->seal = seal_of(moved, MAPPED);
    return moved + 1;
}

void *realloc(void *memory, size_t size) {
    enum state state;
    if (memory == NULL)
        return malloc(size);
    struct block *block = block_of(memory, &state);
    if (state == MAPPED && size > LARGE_FROM)
        return resize_mapping(block, size);
    if (state == LIVE && size <= block->size)
        return memory;
    void *larger = malloc(size);
    if (larger == NULL)
        return NULL;
    memcpy(larger, memory, size < block->size ? size : block->size);
    free(memory);
    return larger;
}
