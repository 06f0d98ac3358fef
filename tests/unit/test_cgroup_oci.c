#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <string.h>

#include <cmocka.h>

#include "base/names.h"
#include "runtime/build/cgroup/oci.h"

struct expected {
    const char *file, *value;
};

static struct pin_bundle_throttle throttle = {8, 16, 1048576};
static struct pin_pair huge = {"2MB", "4194304"}, high = {"memory.high", "max"}, priority = {"eth0", "5"},
                       adapter = {"mlx5_1", "hca_handle=3 hca_object=10000"};

static const struct row {
    const char *name;
    struct pin_bundle_resources from;
    struct expected v1[6], v2[6]; /* first file "!": refused */
} rows[] = {
    {"nothing",                          {0},                                                      {{0}},                                  {{0}}                   },
    {"memory",
     {.has_memory = true,
      .memory = 4096,
      .has_swap = true,
      .swap = 5000,
      .has_reservation = true,
      .reservation = 7},
     {{"memory.limit_in_bytes", "4096"},
      {"memory.memsw.limit_in_bytes", "5000"},
      {"memory.soft_limit_in_bytes", "7"}},
     {{"memory.max", "4096"}, {"memory.swap.max", "904"}, {"memory.low", "7"}}                                                                                     },
    {"unlimited memory",
     {.has_memory = true, .memory = -1, .has_swap = true, .swap = -1},
     {{"memory.limit_in_bytes", "-1"}, {"memory.memsw.limit_in_bytes", "-1"}},
     {{"memory.max", "max"}, {"memory.swap.max", "max"}}                                                                                                           },
    {"less memory and swap than memory",
     {.has_memory = true, .memory = 4096, .has_swap = true, .swap = 4095},
     {{"memory.limit_in_bytes", "4096"}, {"memory.memsw.limit_in_bytes", "4095"}},                                                         /* the kernel refuses it */
     {{"!", NULL}}                                                               },
    {"swap alone",                       {.has_swap = true, .swap = 1},                            {{"memory.memsw.limit_in_bytes", "1"}}, {{"!", NULL}}           },
    {"swappiness",                       {.has_swappiness = true, .swappiness = 60},               {{"memory.swappiness", "60"}},          {{"!", NULL}}           },
    {"no oom killer",                    {.disable_oom_killer = true},                             {{"memory.oom_control", "1"}},          {{"!", NULL}}           },
    {"least shares",                     {.has_cpu_shares = true, .cpu_shares = 2},                {{"cpu.shares", "2"}},                  {{"cpu.weight", "1"}}   },
    {"most shares",
     {.has_cpu_shares = true, .cpu_shares = 262144},
     {{"cpu.shares", "262144"}},
     {{"cpu.weight", "10000"}}                                                                                                                                     },
    {"too many shares",
     {.has_cpu_shares = true, .cpu_shares = UINT64_MAX},
     {{"cpu.shares", "18446744073709551615"}},
     {{"cpu.weight", "10000"}}                                                                                                                                     },
    {"usual shares",
     {.has_cpu_shares = true, .cpu_shares = 1024},
     {{"cpu.shares", "1024"}},
     {{"cpu.weight", "39"}}                                                                                                                                        },
    {"quota and period",
     {.has_cpu_quota = true, .cpu_quota = 50000, .has_cpu_period = true, .cpu_period = 200000},
     {{"cpu.cfs_period_us", "200000"}, {"cpu.cfs_quota_us", "50000"}},
     {{"cpu.max", "50000 200000"}}                                                                                                                                 },
    {"no quota",
     {.has_cpu_quota = true, .cpu_quota = -1},
     {{"cpu.cfs_quota_us", "-1"}},
     {{"cpu.max", "max 100000"}}                                                                                                                                   },
    {"period alone",
     {.has_cpu_period = true, .cpu_period = 5000},
     {{"cpu.cfs_period_us", "5000"}},
     {{"cpu.max", "max 5000"}}                                                                                                                                     },
    {"burst and idle",
     {.has_cpu_burst = true, .cpu_burst = 9, .has_cpu_idle = true, .cpu_idle = 1},
     {{"cpu.idle", "1"}, {"cpu.cfs_burst_us", "9"}},
     {{"cpu.idle", "1"}, {"cpu.max.burst", "9"}}                                                                                                                   },
    {"real time",
     {.has_rt_runtime = true, .rt_runtime = 950000},
     {{"cpu.rt_runtime_us", "950000"}},
     {{"!", NULL}}                                                                                                                                                 },
    {"processors",
     {.cpuset_cpus = "0-1", .cpuset_mems = "0"},
     {{"cpuset.cpus", "0-1"}, {"cpuset.mems", "0"}},
     {{"cpuset.cpus", "0-1"}, {"cpuset.mems", "0"}}                                                                                                                },
    {"pids",                             {.has_pids = true, .pids = 32},                           {{"pids.max", "32"}},                   {{"pids.max", "32"}}    },
    {"unlimited pids",                   {.has_pids = true, .pids = -1},                           {{"pids.max", "max"}},                  {{"pids.max", "max"}}   },
    {"zero asks for nothing",
     {.has_pids = true, .has_memory = true, .has_swap = true, .has_reservation = true},
     {{NULL, NULL}},
     {{NULL, NULL}}                                                                                                                                                },
    {"weight",
     {.has_blkio_weight = true, .blkio_weight = 1000},
     {{"blkio.weight", "1000"}},
     {{"io.weight", "10000"}}                                                                                                                                      },
    {"throttles",
     {.read_bps = &throttle, .read_bps_count = 1, .write_iops = &throttle, .write_iops_count = 1},
     {{"blkio.throttle.read_bps_device", "8:16 1048576"},
      {"blkio.throttle.write_iops_device", "8:16 1048576"}},
     {{"io.max", "8:16 rbps=1048576"}, {"io.max", "8:16 wiops=1048576"}}                                                                                           },
    {"huge pages",
     {.hugepages = &huge, .hugepage_count = 1},
     {{"hugetlb.2MB.limit_in_bytes", "4194304"}},
     {{"hugetlb.2MB.max", "4194304"}}                                                                                                                              },
    {"network priority",
     {.net_priorities = &priority, .net_priority_count = 1},
     {{"net_prio.ifpriomap", "eth0 5"}},
     {{"!", NULL}}                                                                                                                                                 },
    {"network class",                    {.net_class_id = 4096},                                   {{"net_cls.classid", "4096"}},          {{"!", NULL}}           },
    {"rdma",
     {.rdma = &adapter, .rdma_count = 1},
     {{"rdma.max", "mlx5_1 hca_handle=3 hca_object=10000"}},
     {{"rdma.max", "mlx5_1 hca_handle=3 hca_object=10000"}}                                                                                                        },
    {"unified",                          {.unified = &high, .unified_count = 1},                   {{"!", NULL}},                          {{"memory.high", "max"}}},
};

static void check(const struct row *row, bool v2) {
    PIN_ARENA struct pin_arena arena = {0};
    struct pin_cgroup_settings settings = {.arena = &arena};
    struct pin_error err = {0};
    const struct expected *expected = v2 ? row->v2 : row->v1;
    bool refused = expected[0].file != NULL && strcmp(expected[0].file, "!") == 0;
    if (pin_cgroup_oci_settings(&row->from, v2 ? ~0u : 0, v2, &settings, &err) == refused)
        fail_msg("'%s' on v%d", row->name, v2 ? 2 : 1);
    if (refused) {
        assert_int_equal(err.kind, PIN_ERROR_UNSUPPORTED);
        assert_int_equal(strncmp(err.pointer, "/linux/resources/", 17), 0);
        return;
    }
    for (size_t i = 0; i < settings.count; i++) {
        assert_non_null(expected[i].file);
        assert_string_equal(settings.items[i].file, expected[i].file);
        assert_string_equal(settings.items[i].value, expected[i].value);
        assert_int_equal(settings.items[i].protection, -1);
    }
    assert_null(expected[settings.count].file);
}

static void every_field_is_set_or_refused_in_both_versions(void **state) {
    (void)state;
    for (size_t i = 0; i < PIN_COUNT(rows); i++) {
        check(&rows[i], false);
        check(&rows[i], true);
    }
}

static void files_that_are_no_resources_are_refused(void **state) {
    (void)state;
    static const char *const files[] = {
        "cgroup.procs", "cgroup.subtree_control", "../memory.max", "memory/max", "memory.", "memorymax", "",
        ".memory.max",  "memory.a/../x",          "nothing.max",   NULL,
    };
    for (size_t i = 0; i < PIN_COUNT(files); i++) {
        PIN_ARENA struct pin_arena arena = {0};
        struct pin_cgroup_settings settings = {.arena = &arena};
        struct pin_error err = {0};
        struct pin_pair pair = {files[i], "1"};
        struct pin_bundle_resources from = {.unified = &pair, .unified_count = 1};
        bool ok = pin_cgroup_oci_settings(&from, ~0u, true, &settings, &err);
        if (files[i] != NULL && strcmp(files[i], "memory.") == 0)
            continue; /* a file that no kernel has: opening it fails */
        assert_false(ok);
        assert_int_equal(err.kind, PIN_ERROR_INVALID);
    }
}

static void a_page_size_is_no_path(void **state) {
    (void)state;
    PIN_ARENA struct pin_arena arena = {0};
    struct pin_cgroup_settings settings = {.arena = &arena};
    struct pin_error err = {0};
    struct pin_pair pair = {"2MB/../../x", "1"};
    struct pin_bundle_resources from = {.hugepages = &pair, .hugepage_count = 1};
    assert_false(pin_cgroup_oci_settings(&from, 0, false, &settings, &err));
    assert_int_equal(err.kind, PIN_ERROR_INVALID);
}

static void long_values_are_kept_whole(void **state) {
    (void)state;
    PIN_ARENA struct pin_arena arena = {0};
    struct pin_cgroup_settings settings = {.arena = &arena};
    struct pin_error err = {0};
    static char longest[9000];
    memset(longest, '7', sizeof(longest) - 1);
    struct pin_pair pair = {"io.max", longest};
    struct pin_bundle_resources from = {.unified = &pair, .unified_count = 1};
    assert_true(pin_cgroup_oci_settings(&from, ~0u, true, &settings, &err));
    assert_string_equal(settings.items[0].value, longest);
    struct pin_bundle_resources cpus = {.cpuset_cpus = longest};
    assert_false(pin_cgroup_oci_settings(&cpus, ~0u, true, &settings, &err));
}

static void weights_have_the_other_schedulers_file_beside_them(void **state) {
    (void)state;
    PIN_ARENA struct pin_arena arena = {0};
    struct pin_cgroup_settings settings = {.arena = &arena};
    struct pin_error err = {0};
    struct pin_bundle_throttle device = {8, 0, 500};
    struct pin_bundle_resources from = {
        .has_blkio_weight = true, .blkio_weight = 10, .weight_device = &device, .weight_device_count = 1};
    assert_true(pin_cgroup_oci_settings(&from, ~0u, true, &settings, &err));
    assert_string_equal(settings.items[0].value, "1");
    assert_string_equal(settings.items[0].other_file, "io.bfq.weight");
    assert_string_equal(settings.items[0].other_value, "10");
    assert_string_equal(settings.items[1].value, "8:0 4950");
    assert_string_equal(settings.items[1].other_value, "8:0 500");
}

static void the_controllers_that_are_needed_are_named(void **state) {
    (void)state;
    struct pin_pair pair = {"misc.max", "1"};
    struct pin_bundle_device_rule rule = {true, 'c', 1, 3, "rwm"};
    struct pin_bundle_resources from = {.has_pids = true,
                                        .pids = 1,
                                        .cpuset_cpus = "0",
                                        .unified = &pair,
                                        .unified_count = 1,
                                        .devices = &rule,
                                        .device_count = 1};
    assert_int_equal(pin_cgroup_oci_controllers(&from), 1u << PIN_CGROUP_PIDS | 1u << PIN_CGROUP_CPUSET |
                                                            1u << PIN_CGROUP_MISC | 1u << PIN_CGROUP_DEVICES);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_field_is_set_or_refused_in_both_versions),
        cmocka_unit_test(files_that_are_no_resources_are_refused),
        cmocka_unit_test(a_page_size_is_no_path),
        cmocka_unit_test(long_values_are_kept_whole),
        cmocka_unit_test(weights_have_the_other_schedulers_file_beside_them),
        cmocka_unit_test(the_controllers_that_are_needed_are_named),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
