/* The functions that stand in for musl's own: the heap, and the copies. They are taken in under other names.
 */
#include "tests/unit/test.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

void *heap_malloc(size_t size), *heap_calloc(size_t count, size_t size),
    *heap_realloc(void *memory, size_t size);
void heap_free(void *memory);
#define malloc heap_malloc
#define calloc heap_calloc
#define realloc heap_realloc
#define free heap_free
#include "base/musl/heap.c"
#undef malloc
#undef calloc
#undef realloc
#undef free

#ifdef __x86_64__
void *own_memcpy(void *restrict to, const void *restrict from, size_t size);
void *own_memmove(void *to, const void *from, size_t size);
void *own_memchr(const void *memory, int byte, size_t size);
#undef memcpy
#undef memmove
#undef memchr
#define memcpy own_memcpy
#define memmove own_memmove
#define memchr own_memchr
#include "base/musl/copy.c"
#undef memcpy
#undef memmove
#undef memchr
#endif

static void every_size_fits_its_class(void **state) {
    (void)state;
    for (size_t size = 1; size <= LARGE_FROM; size++) {
        unsigned class = class_of(size);
        assert_true(class < CLASSES);
        assert_true(size_of_class(class) >= size);
        assert_true(class == 0 || size_of_class(class - 1) < size);
    }
    assert_int_equal(class_of(0), 0);
}

static void blocks_are_aligned_keep_their_bytes_and_are_used_again(void **state) {
    (void)state;
    static const size_t sizes[] = {0, 1, 15, 16, 17, 100, 129, 1000, 4096, 65537, 131072, 131073, 5000000};
    unsigned char *blocks[PIN_COUNT(sizes)];
    for (int round = 0; round < 3; round++) {
        for (size_t i = 0; i < PIN_COUNT(sizes); i++) {
            blocks[i] = heap_malloc(sizes[i]);
            assert_non_null(blocks[i]);
            assert_int_equal((uintptr_t)blocks[i] % 16, 0);
            memset(blocks[i], (int)i + 1, sizes[i]);
        }
        for (size_t i = 0; i < PIN_COUNT(sizes); i++) {
            for (size_t at = 0; at < sizes[i]; at += 97)
                assert_int_equal(blocks[i][at], i + 1);
            heap_free(blocks[i]);
        }
    }
    void *first = heap_malloc(40);
    heap_free(first);
    assert_ptr_equal(heap_malloc(40), first);
}

static void calloc_clears_what_was_used_before(void **state) {
    (void)state;
    unsigned char *used = heap_malloc(500);
    memset(used, 0xff, 500);
    heap_free(used);
    unsigned char *clean = heap_calloc(5, 100);
    assert_ptr_equal(clean, used);
    for (size_t i = 0; i < 500; i++)
        assert_int_equal(clean[i], 0);
}

static void realloc_keeps_the_bytes_between_all_kinds_of_blocks(void **state) {
    (void)state;
    static const size_t sizes[] = {10, 300, 131072, 131073, 4000000, 200000, 100000, 20};
    unsigned char *memory = NULL;
    size_t before = 0;
    for (size_t i = 0; i < PIN_COUNT(sizes); i++) {
        memory = heap_realloc(memory, sizes[i]);
        assert_non_null(memory);
        size_t kept = before < sizes[i] ? before : sizes[i];
        for (size_t at = 0; at < kept; at++)
            assert_int_equal(memory[at], at % 251);
        for (size_t at = kept; at < sizes[i]; at++)
            memory[at] = (unsigned char)(at % 251);
        before = sizes[i];
    }
    heap_free(memory);
}

static void sizes_beyond_memory_fail_with_enomem(void **state) {
    (void)state;
    volatile size_t huge = SIZE_MAX;
    void *memory = heap_malloc(10);
    errno = 0;
    assert_null(heap_malloc(huge - 8));
    assert_int_equal(errno, ENOMEM);
    assert_null(heap_calloc(huge / 2, 3));
    assert_null(heap_realloc(memory, huge - 100));
    heap_free(memory);
    void *mapped = heap_malloc(LARGE_FROM + 1);
    assert_null(heap_realloc(mapped, huge - 100));
    heap_free(mapped);
}

static void free_twice(void) {
    void *memory = heap_malloc(24);
    heap_free(memory);
    heap_free(memory);
}

static void free_never_given(void) {
    static uint64_t words[8] __attribute__((aligned(16)));
    heap_free(words + 4);
}

static void write_over_the_neighbour(void) {
    unsigned char *low = heap_malloc(1000), *high = heap_malloc(1000);
    memset(low, 0, (size_t)(high - low));
    heap_free(high);
}

static void write_after_free(void) {
    struct free_block *freed = heap_malloc(64);
    heap_free(freed);
    ((uint64_t *)(void *)freed)[-1] = 0;
    (void)heap_malloc(64);
}

static void a_misused_block_ends_the_process(void **state) {
    (void)state;
    void (*const misuses[])(void) = {free_twice, free_never_given, write_over_the_neighbour,
                                     write_after_free};
    for (size_t i = 0; i < PIN_COUNT(misuses); i++) {
        pid_t pid = fork();
        if (pid == 0) {
            const struct rlimit none = {0, 0};
            (void)setrlimit(RLIMIT_CORE, &none);
            (void)signal(SIGABRT, SIG_DFL);
            misuses[i]();
            _exit(0);
        }
        int status = 0;
        assert_int_equal(waitpid(pid, &status, 0), pid);
        assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT);
    }
}

#ifdef __x86_64__
static void fill(unsigned char *bytes, size_t size) {
    for (size_t i = 0; i < size; i++)
        bytes[i] = (unsigned char)(i * 7 + 3);
}

static void copies_equal_the_c_librarys_at_every_size_and_offset(void **state) {
    (void)state;
    enum { ROOM = 2600 };
    static unsigned char from[ROOM], ours[ROOM], theirs[ROOM];
    fill(from, ROOM);
    for (size_t size = 0; size <= 1100; size++)
        for (size_t offset = 0; offset < 3; offset++) {
            memset(ours, 0, ROOM);
            memset(theirs, 0, ROOM);
            assert_ptr_equal(own_memcpy(ours + 5 + offset, from + 2 * offset, size), ours + 5 + offset);
            memcpy(theirs + 5 + offset, from + 2 * offset, size);
            assert_memory_equal(ours, theirs, ROOM);
        }
}

static void moves_equal_the_c_librarys_where_they_overlap(void **state) {
    (void)state;
    enum { ROOM = 2600, MIDDLE = 700 };
    static unsigned char ours[ROOM], theirs[ROOM];
    static const ptrdiff_t steps[] = {-600, -33, -17, -16, -15, -8, -3, -1, 0,
                                      1,    2,   4,   7,   15,  16, 17, 40, 600};
    for (size_t size = 0; size <= 1100; size += size < 130 ? 1 : 61)
        for (size_t i = 0; i < PIN_COUNT(steps); i++) {
            fill(ours, ROOM);
            fill(theirs, ROOM);
            (void)own_memmove(ours + MIDDLE + steps[i], ours + MIDDLE, size);
            memmove(theirs + MIDDLE + steps[i], theirs + MIDDLE, size);
            assert_memory_equal(ours, theirs, ROOM);
        }
}

static void a_byte_is_found_where_the_c_library_finds_it(void **state) {
    (void)state;
    static unsigned char bytes[700];
    for (size_t start = 0; start < 70; start++)
        for (size_t size = 0; size < 260; size++)
            for (size_t place = 0; place < size + 20; place += 1 + place / 40) {
                memset(bytes, 'x', sizeof(bytes));
                bytes[start + place] = 0xfe;
                bytes[start + place + 3] = 0xfe; /* the first one counts */
                assert_ptr_equal(own_memchr(bytes + start, 0xfe, size), memchr(bytes + start, 0xfe, size));
            }
}

static void nothing_behind_the_last_page_is_looked_at(void **state) {
    (void)state;
    unsigned char *pages = mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    assert_true(pages != MAP_FAILED && mprotect(pages + 4096, 4096, PROT_NONE) == 0);
    for (size_t before = 1; before < 100; before++) { /* as printf asks for the end of a string */
        memset(pages, 'x', 4095);
        assert_ptr_equal(own_memchr(pages + 4096 - before, 0, INT32_MAX), pages + 4095);
        assert_null(own_memchr(pages + 4096 - before, 'y', before));
    }
    (void)munmap(pages, 8192);
}
#endif

/* NULL when nobody else has written into a block of this thread's. */
static void *use_the_heap(void *mark) {
    unsigned char *blocks[16] = {NULL};
    bool good = true;
    for (size_t i = 0; i < 200000; i++) {
        size_t at = i % 16;
        if (blocks[at] != NULL)
            good = good && blocks[at][0] == *(const unsigned char *)mark;
        heap_free(blocks[at]);
        blocks[at] = heap_malloc(1 + i % 64);
        blocks[at][0] = *(const unsigned char *)mark;
    }
    for (size_t at = 0; at < 16; at++)
        heap_free(blocks[at]);
    return good ? NULL : mark;
}

static void threads_share_no_block(void **state) {
    unsigned char marks[] = {'a', 'b', 'c'};
    pthread_t threads[3];
    (void)state;
    for (size_t i = 0; i < 3; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, use_the_heap, &marks[i]), 0);
    for (size_t i = 0; i < 3; i++) {
        void *fault = NULL;
        assert_int_equal(pthread_join(threads[i], &fault), 0);
        assert_null(fault);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_size_fits_its_class),
        cmocka_unit_test(blocks_are_aligned_keep_their_bytes_and_are_used_again),
        cmocka_unit_test(calloc_clears_what_was_used_before),
        cmocka_unit_test(realloc_keeps_the_bytes_between_all_kinds_of_blocks),
        cmocka_unit_test(sizes_beyond_memory_fail_with_enomem),
        cmocka_unit_test(a_misused_block_ends_the_process),
        cmocka_unit_test(threads_share_no_block),
#ifdef __x86_64__
        cmocka_unit_test(copies_equal_the_c_librarys_at_every_size_and_offset),
        cmocka_unit_test(a_byte_is_found_where_the_c_library_finds_it),
        cmocka_unit_test(nothing_behind_the_last_page_is_looked_at),
        cmocka_unit_test(moves_equal_the_c_librarys_where_they_overlap),
#endif
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
