#include "base/arena.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

struct item {
    uint64_t number;
    unsigned char rest[36]; /* so that items don't end where allocations do */
};

static void fill(struct item *items, size_t count) {
    static const struct item zero;
    struct item *item = &items[count - 1];
    size_t number = count - 1;
    assert_memory_equal(item, &zero, sizeof(zero));
    item->number = number;
    memset(item->rest, (int)(number % 251) + 1, sizeof(item->rest));
}

static void check(const struct item *items, size_t count) {
    for (size_t i = 0; i < count; i++) {
        assert_int_equal(items[i].number, i);
        for (size_t j = 0; j < sizeof(items[i].rest); j++)
            assert_int_equal(items[i].rest[j], i % 251 + 1);
    }
}

/* Two lists and loose texts in turns: none may write into another's memory. */
static void lists_grow_beside_other_memory_and_keep_what_they_hold(void **state) {
    (void)state;
    for (size_t every = 1; every < 12; every++) {
        PIN_ARENA struct pin_arena arena = {0};
        struct item *one = NULL, *other = NULL;
        size_t one_count = 0, other_count = 0;
        char *text = pin_arena_strdup(&arena, "text");
        for (size_t i = 0; i < 700; i++) {
            (void)pin_arena_grow(&arena, &one, &one_count, sizeof(*one));
            fill(one, one_count);
            if (i % every == 0) {
                (void)pin_arena_grow_from(&arena, &other, &other_count, sizeof(*other), 64);
                fill(other, other_count);
            }
            if (i % (3 * every) == 0)
                text = pin_arena_printf(&arena, "%s", text);
        }
        check(one, one_count);
        check(other, other_count);
        assert_string_equal(text, "text");
    }
}

static void a_list_that_is_the_last_memory_stays_in_its_place(void **state) {
    (void)state;
    PIN_ARENA struct pin_arena arena = {0};
    struct item *items = NULL;
    size_t count = 0;
    (void)pin_arena_grow(&arena, &items, &count, sizeof(*items));
    const struct item *first = items;
    fill(items, count);
    while (count < 32) {
        (void)pin_arena_grow(&arena, &items, &count, sizeof(*items));
        fill(items, count);
    }
    assert_ptr_equal(items, first);
    check(items, count);
}

static void memory_is_zeroed_and_aligned_whatever_its_size(void **state) {
    (void)state;
    PIN_ARENA struct pin_arena arena = {0};
    for (size_t size = 0; size < 20000; size = size * 3 / 2 + 1) {
        unsigned char *memory = pin_arena_alloc(&arena, size);
        assert_int_equal((uintptr_t)memory % _Alignof(max_align_t), 0);
        for (size_t i = 0; i < size; i++)
            assert_int_equal(memory[i], 0);
        memset(memory, 0xff, size);
    }
}

static void formats_give_what_printf_gives(void **state) {
    (void)state;
    PIN_ARENA struct pin_arena arena = {0};
    static const char long_text[] =
        "0123456789012345678901234567890123456789012345678901234567890123456789012345678901234"
        "56789012345678901234567890123456789012345678901234567890123456789012345678901234567890"
        "123456789012345678901234567890123456789012345678901234567890123456789012345678901234567";
    char wanted[1024];
#define ASSERT_FORMATS(...)                                                                                  \
    do {                                                                                                     \
        (void)snprintf(wanted, sizeof(wanted), __VA_ARGS__);                                                 \
        assert_string_equal(pin_arena_printf(&arena, __VA_ARGS__), wanted);                                  \
    } while (0)
    ASSERT_FORMATS("%s", "");
    ASSERT_FORMATS("plain");
    ASSERT_FORMATS("%s/%s", "a", "b");
    ASSERT_FORMATS("/%s%s/", "", "b c");
    ASSERT_FORMATS("%s%s", long_text, long_text);
    ASSERT_FORMATS("%s %d%%", "a", 7);
    ASSERT_FORMATS("%%%s", "a");
    ASSERT_FORMATS("%.2s|%5s", "abc", "d");
    ASSERT_FORMATS("%s:%u", long_text, 3U);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lists_grow_beside_other_memory_and_keep_what_they_hold),
        cmocka_unit_test(a_list_that_is_the_last_memory_stays_in_its_place),
        cmocka_unit_test(memory_is_zeroed_and_aligned_whatever_its_size),
        cmocka_unit_test(formats_give_what_printf_gives),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
