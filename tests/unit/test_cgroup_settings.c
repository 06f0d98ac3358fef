#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <string.h>

#include <cmocka.h>

#include "base/names.h"
#include "base/units.h"
#include "policy/policy.h"
#include "runtime/build/cgroup/settings.h"

#define NONE PIN_UNLIMITED

struct expected {
    const char *file, *value;
};

static const struct row {
    struct pin_cgroup_limits limits;
    struct expected v1[6], v2[6]; /* in their order */
} rows[] = {
    {{NONE, NONE, NONE, 0, NULL, NULL, 0, false},          {{0}},                                                       {{0}}},
    {{4096, NONE, NONE, 0, NULL, NULL, 0, false},
     {{"memory.limit_in_bytes", "4096"}, {"memory.kmem.tcp.limit_in_bytes", "4096"}},
     {{"memory.max", "4096"}, {"memory.oom.group", "1"}}                                                                     },
    {{PIN_MIB, 0, NONE, 0, NULL, NULL, 0, false},
     {{"memory.limit_in_bytes", "1048576"},
      {"memory.memsw.limit_in_bytes", "1048576"},
      {"memory.kmem.tcp.limit_in_bytes", "1048576"}},
     {{"memory.max", "1048576"}, {"memory.swap.max", "0"}, {"memory.oom.group", "1"}}                                        },
    {{PIN_MIB, 0, NONE, 0, NULL, NULL, 0, true},           /* the sum alone would let it swap */
     {{"memory.limit_in_bytes", "1048576"},
      {"memory.memsw.limit_in_bytes", "1048576"},
      {"memory.kmem.tcp.limit_in_bytes", "1048576"},
      {"memory.swappiness", "0"}},
     {{"memory.max", "1048576"}, {"memory.swap.max", "0"}, {"memory.oom.group", "1"}}                                        },
    {{PIN_MIB, 1000, NONE, 0, NULL, NULL, 0, false},
     {{"memory.limit_in_bytes", "1048576"},
      {"memory.memsw.limit_in_bytes", "1049576"},
      {"memory.kmem.tcp.limit_in_bytes", "1048576"}},
     {{"memory.max", "1048576"}, {"memory.swap.max", "1000"}, {"memory.oom.group", "1"}}                                     },
    {{NONE, NONE, 64, 1500, NULL, NULL, 0, false},
     {{"cpu.cfs_quota_us", "150000"}, {"pids.max", "64"}},
     {{"cpu.max", "150000 100000"}, {"pids.max", "64"}}                                                                      },
    {{NONE, NONE, 0, 10, NULL, NULL, 0, false},
     {{"cpu.cfs_quota_us", "1000"}, {"pids.max", "0"}},
     {{"cpu.max", "1000 100000"}, {"pids.max", "0"}}                                                                         },
    {{NONE, NONE, NONE, 9, NULL, NULL, 0, false},          /* 0.9 ms in 100 ms is refused by the kernel */
     {{"cpu.cfs_period_us", "1000000"}, {"cpu.cfs_quota_us", "9000"}},
     {{"cpu.max", "9000 1000000"}}                                                                                           },
    {{NONE, NONE, NONE, UINT32_MAX, NULL, NULL, 0, false},
     {{"cpu.cfs_quota_us", "429496729500"}},
     {{"cpu.max", "429496729500 100000"}}                                                                                    },
    {{NONE, NONE, NONE, 0, "0-3,7", "0", 0, false},
     {{"cpuset.cpus", "0-3,7"}, {"cpuset.mems", "0"}},
     {{"cpuset.cpus", "0-3,7"}, {"cpuset.mems", "0"}}                                                                        },
};

static void check(const struct row *row, bool v2) {
    PIN_ARENA struct pin_arena arena = {0};
    struct pin_cgroup_settings settings = {.arena = &arena};
    const struct expected *expected = v2 ? row->v2 : row->v1;
    pin_cgroup_settings_of(&row->limits, v2 ? ~0u : 0, &settings);
    for (size_t i = 0; i < settings.count; i++) {
        assert_non_null(expected[i].file);
        assert_string_equal(settings.items[i].file, expected[i].file);
        assert_string_equal(settings.items[i].value, expected[i].value);
    }
    assert_null(expected[settings.count].file);
}

static void limits_become_files_and_values(void **state) {
    (void)state;
    for (size_t i = 0; i < PIN_COUNT(rows); i++) {
        check(&rows[i], false);
        check(&rows[i], true);
    }
}

/* A hybrid host can have pids in version 1 and memory in version 2. */
static void each_controller_has_its_own_version(void **state) {
    (void)state;
    PIN_ARENA struct pin_arena arena = {0};
    struct pin_cgroup_settings settings = {.arena = &arena};
    struct pin_cgroup_limits limits = {
        .memory_bytes = 1, .swap_bytes = NONE, .pids = NONE, .millicpus = 1000};
    pin_cgroup_settings_of(&limits, 1u << PIN_CGROUP_MEMORY, &settings);
    assert_string_equal(settings.items[0].file, "memory.max");
    assert_string_equal(settings.items[settings.count - 1].file, "cpu.cfs_quota_us");
}

static void only_a_swap_limit_of_nothing_holds_without_swap(void **state) {
    (void)state;
    for (uint64_t swap = 0; swap < 2; swap++) {
        PIN_ARENA struct pin_arena arena = {0};
        struct pin_cgroup_settings settings = {.arena = &arena};
        struct pin_cgroup_limits limits = {.memory_bytes = 1, .swap_bytes = swap, .pids = NONE};
        pin_cgroup_settings_of(&limits, 0, &settings);
        assert_int_equal(settings.count, 3);
        assert_false(settings.items[0].holds_anyway);
        assert_int_equal(settings.items[1].holds_anyway, swap == 0);
    }
}

/* Version 1 can only limit memory and swap together: without a memory limit the swap limit must not get lost.
 */
static void a_swap_limit_that_v1_cannot_express_is_never_dropped(void **state) {
    (void)state;
    static const struct pin_cgroup_limits cases[] = {
        {.memory_bytes = NONE,           .swap_bytes = 0, .pids = NONE},
        {.memory_bytes = UINT64_MAX - 1, .swap_bytes = 5, .pids = NONE},
    };
    for (size_t i = 0; i < PIN_COUNT(cases); i++) {
        PIN_ARENA struct pin_arena arena = {0};
        struct pin_cgroup_settings settings = {.arena = &arena};
        pin_cgroup_settings_of(&cases[i], 0, &settings);
        const struct pin_cgroup_setting *swap = NULL;
        for (size_t j = 0; j < settings.count; j++)
            swap = settings.items[j].protection == PIN_PROTECT_SWAP ? &settings.items[j] : swap;
        assert_non_null(swap);
        assert_string_equal(swap->value, "");
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(limits_become_files_and_values),
        cmocka_unit_test(each_controller_has_its_own_version),
        cmocka_unit_test(only_a_swap_limit_of_nothing_holds_without_swap),
        cmocka_unit_test(a_swap_limit_that_v1_cannot_express_is_never_dropped),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
