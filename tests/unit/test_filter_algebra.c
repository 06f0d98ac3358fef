/* Sets of arguments as rules: disjointness, containment, subtraction; and the checks of a whole filter. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <string.h>

#include "base/names.h"
#include "policy/filter_algebra.h"

static const uint64_t samples[] = {0, 1, 2, 3, 4, UINT64_C(1) << 32, (UINT64_C(1) << 32) + 2, UINT64_MAX};

static uint32_t seed = 1;
static uint32_t dice(uint32_t sides) {
    seed = seed * 1664525 + 1013904223;
    return (seed >> 8) % sides;
}

static struct pin_filter_arg any_arg(uint8_t index) {
    struct pin_filter_arg arg = {.index = index, .op = (enum pin_filter_op)dice(PIN_FILTER_OP_COUNT)};
    arg.value = samples[dice(PIN_COUNT(samples))];
    if (arg.op == PIN_FILTER_MASKED_EQ) {
        arg.mask = dice(2) ? UINT32_MAX : dice(8);
        if (dice(4) > 0) /* else it may hold for nothing */
            arg.value &= arg.mask;
    }
    return arg;
}

static struct pin_filter_rule any_rule(void) {
    struct pin_filter_rule rule = {.name = "read", .arg_count = (uint8_t)dice(3)};
    for (uint8_t i = 0; i < rule.arg_count; i++)
        rule.args[i] = any_arg(i);
    return rule;
}

/* Every pair of sample values as the first two arguments. */
static bool for_all(bool (*law)(const uint64_t *args, const void *a, const void *b), const void *a,
                    const void *b) {
    for (size_t i = 0; i < PIN_COUNT(samples); i++)
        for (size_t j = 0; j < PIN_COUNT(samples); j++) {
            uint64_t args[PIN_FILTER_ARGS_MAX] = {samples[i], samples[j]};
            if (!law(args, a, b))
                return false;
        }
    return true;
}

static bool not_both(const uint64_t *args, const void *a, const void *b) {
    return !(pin_filter_rule_matches(a, args) && pin_filter_rule_matches(b, args));
}

static bool implies(const uint64_t *args, const void *a, const void *b) {
    return !pin_filter_rule_matches(a, args) || pin_filter_rule_matches(b, args);
}

static void disjoint_rules_share_no_call_and_inner_rules_stay_inside(void **state) {
    (void)state;
    size_t disjoint = 0, within = 0;
    for (int round = 0; round < 20000; round++) {
        struct pin_filter_rule a = any_rule(), b = any_rule();
        if (pin_filter_rules_disjoint(&a, &b)) {
            disjoint++;
            assert_true(for_all(not_both, &a, &b));
        }
        if (pin_filter_rule_within(&a, &b)) {
            within++;
            assert_true(for_all(implies, &a, &b));
        }
    }
    assert_true(disjoint > 1000 && within > 1000);
}

static bool in_any(const struct pin_filter_rules *rules, const uint64_t *args) {
    for (size_t i = 0; i < rules->count; i++)
        if (pin_filter_rule_matches(&rules->items[i], args))
            return true;
    return false;
}

struct subtraction {
    const struct pin_filter_rules *before, *after;
};

static bool exactly_without(const uint64_t *args, const void *sets, const void *what) {
    const struct subtraction *both = sets;
    return in_any(both->after, args) == (in_any(both->before, args) && !pin_filter_rule_matches(what, args));
}

static void subtraction_takes_out_exactly_what_it_is_told(void **state) {
    (void)state;
    size_t done = 0;
    for (int round = 0; round < 3000; round++) {
        struct pin_arena arena = {0};
        struct pin_filter_rule from[2] = {any_rule(), any_rule()}, what = any_rule();
        struct pin_filter_rules before = {from, 2}, after = before;
        if (pin_filter_subtract(&arena, &after, &what)) {
            done++;
            struct subtraction both = {&before, &after};
            assert_true(for_all(exactly_without, &both, &what));
        } else {
            assert_ptr_equal(after.items, from);
        }
        pin_arena_free(&arena);
    }
    assert_true(done > 1500);
}

static void one_value_of_32_bits_leaves_32_rules_that_do_not_overlap(void **state) {
    (void)state;
    struct pin_arena arena = {0};
    struct pin_filter_rule all = {.name = "ioctl"};
    struct pin_filter_rule one = {
        .arg_count = 1,
        .args = {{.index = 1, .op = PIN_FILTER_MASKED_EQ, .mask = UINT32_MAX, .value = 0x5412}}};
    struct pin_filter_rules rules = {&all, 1};
    assert_true(pin_filter_subtract(&arena, &rules, &one));
    assert_int_equal(rules.count, 32);
    for (size_t i = 0; i < rules.count; i++)
        for (size_t j = i + 1; j < rules.count; j++)
            assert_true(pin_filter_rules_disjoint(&rules.items[i], &rules.items[j]));
    pin_arena_free(&arena);
}

/* --- pin_filter_check --- */

static struct pin_filter_arg eq(uint8_t index, uint64_t value) {
    return (struct pin_filter_arg){.index = index, .op = PIN_FILTER_EQ, .value = value};
}

static void assert_found(struct pin_filter_rule *rules, size_t count, const char *message) {
    struct pin_filter filter = {.present = true,
                                .default_action = PIN_FILTER_ERRNO,
                                .default_error = EPERM,
                                .rules = rules,
                                .rule_count = count};
    struct pin_findings found = {0};
    pin_filter_check(&filter, &found);
    if (message == NULL) {
        assert_false(pin_found_any(&found));
        return;
    }
    assert_int_equal(found.count, 1);
    if (strstr(found.list[0].message, message) == NULL)
        fail_msg("'%s'", found.list[0].message);
}

static void check_finds_every_kind_of_fault(void **state) {
    (void)state;
    struct pin_filter_rule socket_any = {.name = "socket", .action = PIN_FILTER_ALLOW};
    struct pin_filter_rule socket_16 = {
        .name = "socket", .action = PIN_FILTER_ERRNO, .error = EINVAL, .arg_count = 1, .args = {eq(0, 16)}};
    struct pin_filter_rule socket_2 = {
        .name = "socket", .action = PIN_FILTER_ALLOW, .arg_count = 1, .args = {eq(0, 2)}};
    struct pin_filter_rule not_16 = {.name = "socket",
                                     .action = PIN_FILTER_ALLOW,
                                     .arg_count = 1,
                                     .args = {{.index = 0, .op = PIN_FILTER_NE, .value = 16}}};
    assert_found((struct pin_filter_rule[]){socket_any, socket_16}, 2, "different things");
    assert_found((struct pin_filter_rule[]){socket_2, socket_16}, 2, NULL);
    assert_found((struct pin_filter_rule[]){not_16, socket_16}, 2,
                 NULL); /* podman's profile has such a pair */
    struct pin_filter_rule repeats = {.name = "read", .action = PIN_FILTER_ERRNO, .error = EPERM};
    assert_found(&repeats, 1, "repeats the default");
    struct pin_filter_rule sixth = {.name = "read", .arg_count = 1, .args = {eq(6, 0)}};
    assert_found(&sixth, 1, "compares argument 6 of 0 to 5");
    struct pin_filter_rule twice = {
        .name = "read", .arg_count = 2, .args = {eq(1, 0), eq(1, 2)}
    };
    assert_found(&twice, 1, "compares argument 1 twice");
    struct pin_filter_rule outside = {
        .name = "read", .arg_count = 1, .args = {{.op = PIN_FILTER_MASKED_EQ, .mask = 1, .value = 2}}};
    assert_found(&outside, 1, "can never match");
    struct pin_filter_rule great = {.name = "read", .action = PIN_FILTER_ERRNO, .error = 4096};
    assert_found(&great, 1, "gives errno 4096");
}

static void sorting_gives_one_order_and_drops_repeats(void **state) {
    (void)state;
    /* version 14 never settles on rows of different lengths */
    /* clang-format off */
    struct pin_filter_rule a[] = {
        {.name = "write"},
        {.name = "ioctl", .arg_count = 2, .args = {eq(1, 2), eq(0, 5)}},
        {.name = "write"},
        {.name = "ioctl", .arg_count = 1, .args = {eq(1, 1)}},
    };
    /* clang-format on */
    struct pin_filter filter = {.rules = a, .rule_count = PIN_COUNT(a)};
    pin_filter_sort(&filter);
    assert_int_equal(filter.rule_count, 3);
    assert_int_equal(filter.rules[0].args[0].value, 1);
    assert_int_equal(filter.rules[1].args[0].index, 0);
    assert_string_equal(filter.rules[2].name, "write");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(disjoint_rules_share_no_call_and_inner_rules_stay_inside),
        cmocka_unit_test(subtraction_takes_out_exactly_what_it_is_told),
        cmocka_unit_test(one_value_of_32_bits_leaves_32_rules_that_do_not_overlap),
        cmocka_unit_test(check_finds_every_kind_of_fault),
        cmocka_unit_test(sorting_gives_one_order_and_drops_repeats),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
