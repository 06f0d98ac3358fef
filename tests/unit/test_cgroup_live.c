/* What a cgroup of this host holds its processes to, and counts. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/units.h"
#include "policy/policy.h"
#include "runtime/build/cgroup/cgroup.h"
#include "runtime/build/cgroup/oci.h"
#include "tests/unit/cgroup_live.h"

static void eat_memory(void) {
    for (int i = 0; i < 256; i++) {
        char *block = mmap(NULL, PIN_MIB, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (block != MAP_FAILED)
            memset(block, i + 1, PIN_MIB);
    }
}

static void fork_to_the_limit(void) {
    int made = 0;
    while (made < 100) {
        pid_t child = fork();
        if (child < 0)
            _exit(made);
        if (child == 0)
            sleep_forever();
        made++;
    }
    _exit(255);
}

/* Hard to catch: ignores what can be ignored, leaves its session, and its children go on forking. */
static void expect_text(uint32_t slot, enum pin_cgroup_controller controller, const char *v1, const char *v2,
                        const char *expected_v1, const char *expected_v2) {
    const struct pin_cgroup_hierarchy *hierarchy = pin_cgroup_facts_of(&facts, controller);
    assert_non_null(hierarchy);
    char path[2048], text[128] = "";
    FILE *file = fopen(path_of(controller, slot, hierarchy->v2 ? v2 : v1, path), "re");
    if (file == NULL)
        fail_msg("%s: %s", path, strerror(errno));
    assert_non_null(fgets(text, sizeof(text), file));
    (void)fclose(file);
    text[strcspn(text, "\n")] = '\0';
    assert_string_equal(text, hierarchy->v2 ? expected_v2 : expected_v1);
}

static void limits_are_what_the_kernel_says_they_are(void **state) {
    (void)state;
    need(NEED_ALL);
    struct pin_cgroup *group = make(1, &usual);
    expect_text(1, PIN_CGROUP_MEMORY, "memory.limit_in_bytes", "memory.max", "33554432", "33554432");
    expect_text(1, PIN_CGROUP_CPU, "cpu.cfs_quota_us", "cpu.max", "50000", "50000 100000");
    expect_text(1, PIN_CGROUP_PIDS, "pids.max", "pids.max", "20", "20");
    end(group);
    assert_false(exists(1));
}

static void limits_change_in_both_directions(void **state) {
    (void)state;
    need(NEED_ALL);
    struct pin_error err = {0};
    struct pin_cgroup *group = make(2, &usual);
    struct pin_cgroup_limits more = usual, less = usual;
    more.memory_bytes = 256 * PIN_MIB;
    more.swap_bytes = PIN_MIB;
    less.memory_bytes = 8 * PIN_MIB;
    less.pids = 3;
    less.millicpus = 5;
    if (!pin_cgroup_update(group, &more, &err) || !pin_cgroup_update(group, &less, &err))
        fail_msg("%s", err.message);
    expect_text(2, PIN_CGROUP_MEMORY, "memory.limit_in_bytes", "memory.max", "8388608", "8388608");
    expect_text(2, PIN_CGROUP_CPU, "cpu.cfs_quota_us", "cpu.max", "5000", "5000 1000000");
    expect_text(2, PIN_CGROUP_PIDS, "pids.max", "pids.max", "3", "3");
    end(group);
}

static void the_process_limit_stops_forks(void **state) {
    (void)state;
    need(1u << PIN_PROTECT_PIDS);
    struct pin_cgroup *group = make(3, &usual);
    int status = wait_for(start(group, fork_to_the_limit));
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 19);
    struct pin_error err = {0};
    struct pin_cgroup_usage usage;
    assert_true(pin_cgroup_usage_read(group, &usage, &err));
    assert_true(usage.pids_peak == 20 || usage.pids_peak == 0); /* 0: before Linux 6.1 */
    end(group);
}

static void the_memory_limit_kills_and_is_reported(void **state) {
    (void)state;
    need(1u << PIN_PROTECT_MEMORY | 1u << PIN_PROTECT_SWAP);
    struct pin_error err = {0};
    struct pin_cgroup *group = make(4, &usual);
    short events = 0;
    bool happened = true;
    int fd = pin_cgroup_oom_fd(group, &events, &err);
    assert_true(fd >= 0);
    assert_true(pin_cgroup_oom_happened(group, &happened, &err));
    assert_false(happened);
    int status = wait_for(start(group, eat_memory));
    assert_true(WIFSIGNALED(status));
    assert_int_equal(WTERMSIG(status), SIGKILL);
    struct pollfd poller = {.fd = fd, .events = events};
    assert_int_equal(poll(&poller, 1, 60000), 1);
    for (int tries = 0; tries < 1000 && !happened; tries++) { /* version 1 tells before it kills */
        assert_true(pin_cgroup_oom_happened(group, &happened, &err));
        (void)nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
    }
    assert_true(happened);
    struct pin_cgroup_usage usage;
    assert_true(pin_cgroup_usage_read(group, &usage, &err));
    assert_true(usage.oom_kills >= 1);
    assert_true(usage.memory_peak_bytes <= usual.memory_bytes);
    if (usage.memory_peak_bytes != 0) /* 0: version 2 before Linux 5.19 */
        assert_true(usage.memory_peak_bytes > usual.memory_bytes / 2);
    end(group);
}

static void processor_time_is_counted_and_capped(void **state) {
    (void)state;
    need(1u << PIN_PROTECT_CPUS);
    struct pin_cgroup_limits tenth = no_limits;
    tenth.millicpus = 100;
    struct pin_cgroup *group = make(5, &tenth);
    struct timespec before, after;
    (void)clock_gettime(CLOCK_MONOTONIC, &before);
    assert_int_equal(wait_for(start(group, spin_a_while)), 0);
    (void)clock_gettime(CLOCK_MONOTONIC, &after);
    int64_t wall_ms = (after.tv_sec - before.tv_sec) * 1000 + (after.tv_nsec - before.tv_nsec) / 1000000;
    assert_true(wall_ms > 200); /* 60 ms of work, 10 ms in each 100 ms */
    struct pin_error err = {0};
    struct pin_cgroup_usage usage;
    assert_true(pin_cgroup_usage_read(group, &usage, &err));
    assert_true(usage.cpu_ns > 50 * PIN_NS_PER_MS);
    assert_true(usage.cpu_ns < 10 * PIN_NS_PER_S);
    end(group);
}

static void processors_are_pinned(void **state) {
    (void)state;
    const struct pin_cgroup_hierarchy *cpuset = pin_cgroup_facts_of(&facts, PIN_CGROUP_CPUSET);
    if (cpuset == NULL || !cpuset->usable) {
        print_message("skipped: no cpuset controller here\n");
        skip();
    }
    struct pin_cgroup_limits limits = no_limits;
    limits.cpuset_cpus = "0";
    struct pin_cgroup *group = make(14, &limits);
    pid_t child = start(group, sleep_forever);
    cpu_set_t set;
    assert_int_equal(sched_getaffinity(child, sizeof(set), &set), 0);
    assert_int_equal(CPU_COUNT(&set), 1);
    end(group);
    (void)wait_for(child);
}

static void a_bundles_resources_are_applied_and_changed(void **state) {
    (void)state;
    need(NEED_ALL);
    struct pin_error err = {0};
    struct pin_cgroup_limits limits = no_limits;
    struct pin_bundle_resources resources = {.has_memory = true,
                                             .memory = 64 << 20,
                                             .has_pids = true,
                                             .pids = 7,
                                             .has_cpu_shares = true,
                                             .cpu_shares = 2};
    limits.also = pin_cgroup_oci_controllers(&resources);
    struct pin_cgroup *group = make(16, &limits);
    if (!pin_cgroup_apply_oci(group, &resources, &err))
        fail_msg("%s", err.message);
    expect_text(16, PIN_CGROUP_MEMORY, "memory.limit_in_bytes", "memory.max", "67108864", "67108864");
    expect_text(16, PIN_CGROUP_CPU, "cpu.shares", "cpu.weight", "2", "1");
    expect_text(16, PIN_CGROUP_PIDS, "pids.max", "pids.max", "7", "7");
    resources.pids = -1;
    assert_true(pin_cgroup_apply_oci(group, &resources, &err));
    expect_text(16, PIN_CGROUP_PIDS, "pids.max", "pids.max", "max", "max");
    end(group);
}

/* Exit status: 1 for each device of these that can't be opened. */
static void open_devices(void) {
    int null = open("/dev/null", O_RDWR | O_CLOEXEC), zero = open("/dev/zero", O_RDONLY | O_CLOEXEC);
    _exit((null < 0) + 2 * (zero < 0));
}

static void device_rules_hold_and_are_replaced(void **state) {
    (void)state;
    need(1u << PIN_PROTECT_PIDS);
    static const struct pin_bundle_device_rule rules[] = {
        {false, 'a', -1, -1, "rwm"},
        {true,  'c', 1,  3,  "rw" },
        {true,  'c', 1,  5,  "r"  },
    };
    struct pin_error err = {0};
    struct pin_cgroup_limits limits = no_limits;
    limits.also = 1u << PIN_CGROUP_DEVICES;
    struct pin_cgroup *group = make(17, &limits);
    assert_int_equal(WEXITSTATUS(wait_for(start(group, open_devices))), 0);
    if (!facts.privileged) {
        assert_false(pin_cgroup_apply_devices(group, rules, 2, &err));
        assert_int_equal(err.os_errno, EPERM);
    } else {
        if (!pin_cgroup_apply_devices(group, rules, 2, &err))
            fail_msg("%s", err.message);
        assert_int_equal(WEXITSTATUS(wait_for(start(group, open_devices))), 2);
        assert_true(pin_cgroup_apply_devices(group, rules, 3, &err));
        assert_int_equal(WEXITSTATUS(wait_for(start(group, open_devices))), 0);
        assert_true(pin_cgroup_apply_devices(group, rules, 1, &err));
        assert_int_equal(WEXITSTATUS(wait_for(start(group, open_devices))), 3);
    }
    end(group);
}

static void an_absent_controller_refuses_its_limit_unless_optional(void **state) {
    (void)state;
    need(NEED_ALL);
    struct pin_cgroup_facts poorer = facts;
    poorer.hierarchies[poorer.where[PIN_CGROUP_PIDS]].controllers &= ~(1u << PIN_CGROUP_PIDS);
    poorer.where[PIN_CGROUP_PIDS] = -1;
    struct pin_error err = {0}, none = {0};
    uint32_t missing = 0;
    struct pin_cgroup_limits limits = usual;
    if (poorer.kind == PIN_CGROUP_V2)
        limits.memory_bytes = PIN_UNLIMITED;
    assert_null(pin_cgroup_create(&poorer, 15, &limits, 0, &missing, &err));
    assert_int_equal(err.kind, PIN_ERROR_UNSUPPORTED);
    assert_non_null(strstr(err.message, "pids"));
    assert_string_not_equal(err.hint, "");
    assert_int_equal(missing, 0);
    assert_false(exists(15));
    struct pin_cgroup *group =
        pin_cgroup_create(&poorer, 15, &limits, 1u << PIN_PROTECT_PIDS, &missing, &none);
    assert_non_null(group);
    assert_int_equal(missing, 1u << PIN_PROTECT_PIDS);
    end(group);
}

static void paths_that_climb_are_refused(void **state) {
    (void)state;
    static const char *const paths[] = {"", "/", "..", "a/..", "../a", "a//b", "a/", "/a", "a/./b"};
    for (size_t i = 0; i < sizeof(paths) / sizeof(paths[0]); i++) {
        struct pin_error err = {0};
        uint32_t missing = 0;
        assert_null(pin_cgroup_create_at(&facts, paths[i], &no_limits, 0, &missing, &err));
        assert_int_equal(err.kind, PIN_ERROR_INVALID);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(limits_are_what_the_kernel_says_they_are),
        cmocka_unit_test(limits_change_in_both_directions),
        cmocka_unit_test(the_process_limit_stops_forks),
        cmocka_unit_test(the_memory_limit_kills_and_is_reported),
        cmocka_unit_test(processor_time_is_counted_and_capped),
        cmocka_unit_test(processors_are_pinned),
        cmocka_unit_test(a_bundles_resources_are_applied_and_changed),
        cmocka_unit_test(device_rules_hold_and_are_replaced),
        cmocka_unit_test(an_absent_controller_refuses_its_limit_unless_optional),
        cmocka_unit_test(paths_that_climb_are_refused),
    };
    return cmocka_run_group_tests(tests, gather, NULL);
}
