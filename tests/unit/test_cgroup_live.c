/* On the cgroups of this host, as whoever runs it: root, or a user whose cgroup was delegated. The groups are
 * of a folder of the test's own. What the host can't do is skipped by name. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/clock.h"
#include "base/io.h"
#include "base/names.h"
#include "base/units.h"
#include "policy/policy.h"
#include "runtime/build/cgroup/cgroup.h"
#include "runtime/build/cgroup/leaf.h"
#include "runtime/build/cgroup/oci.h"

#define PATIENCE_NS (20 * PIN_NS_PER_S)

static struct pin_cgroup_facts facts;

static const struct pin_cgroup_limits no_limits = {
    .memory_bytes = PIN_UNLIMITED, .swap_bytes = PIN_UNLIMITED, .pids = PIN_UNLIMITED};

static const struct pin_cgroup_limits usual = {
    .memory_bytes = 32 * PIN_MIB, .swap_bytes = 0, .pids = 20, .millicpus = 500};

static int gather(void **state) {
    (void)state;
    struct pin_error err = {0};
    char group[32];
    (void)snprintf(group, sizeof(group), "pinfold-test-%d", (int)getpid());
    if (!pin_cgroup_facts_get(group, &facts, &err))
        return -1;
    pin_cgroup_prepare(&facts, getenv("PINFOLD_SCOPE_PROGRAM"));
    print_message("cgroups: %s, %s, lacking %#x%s%s\n", pin_cgroup_kind_name(facts.kind),
                  facts.privileged ? "root" : "user", pin_cgroup_facts_lack(&facts, NULL),
                  facts.why[0] != '\0' ? ": " : "", facts.why);
    return 0;
}

/* PINFOLD_CGROUP_MUST: a host on which nothing may be skipped. */
static void need(uint32_t protections) {
    if ((pin_cgroup_facts_lack(&facts, NULL) & protections) == 0)
        return;
    if (getenv("PINFOLD_CGROUP_MUST") != NULL)
        fail_msg("this host should have cgroups: %s", facts.why);
    print_message("skipped: this host lacks cgroup controllers: %s\n", facts.why);
    skip();
}

#define NEED_ALL 0xfu

static struct pin_cgroup *make(uint32_t slot, const struct pin_cgroup_limits *limits) {
    struct pin_error err = {0};
    uint32_t missing = 0;
    struct pin_cgroup *group = pin_cgroup_create(&facts, slot, limits, 0, &missing, &err);
    if (group == NULL)
        fail_msg("%s (%s)", err.message, err.hint);
    assert_int_equal(missing, 0);
    return group;
}

static void end(struct pin_cgroup *group) {
    struct pin_error err = {0};
    if (!pin_cgroup_kill(group, &err) || !pin_cgroup_wait_empty(group, PATIENCE_NS, &err) ||
        !pin_cgroup_remove(group, PATIENCE_NS, &err))
        fail_msg("%s", err.message);
    pin_cgroup_free(group);
}

/* A child that waits until it is in the group, then runs `body`. */
static pid_t start(struct pin_cgroup *group, void (*body)(void)) {
    int gate[2];
    assert_int_equal(pipe2(gate, O_CLOEXEC), 0);
    pid_t child = fork();
    if (child == 0) {
        char byte;
        (void)close(gate[1]);
        pin_ignore(read(gate[0], &byte, 1));
        body();
        _exit(0);
    }
    struct pin_error err = {0};
    if (!pin_cgroup_attach(group, child, &err))
        fail_msg("%s", err.message);
    (void)close(gate[0]);
    (void)close(gate[1]);
    return child;
}

static int wait_for(pid_t child) {
    int status = 0;
    assert_int_equal(waitpid(child, &status, 0), child);
    return status;
}

static void sleep_forever(void) {
    for (;;)
        (void)pause();
}

static void spin_a_while(void) {
    struct timespec now;
    do
        (void)clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
    while (now.tv_sec == 0 && now.tv_nsec < 60000000);
}

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
static void breed(void) {
    (void)signal(SIGTERM, SIG_IGN);
    (void)setsid();
    for (;;) {
        pid_t child = fork();
        if (child > 0 && fork() > 0)
            _exit(0);
    }
}

static const char *path_of(enum pin_cgroup_controller controller, uint32_t slot, const char *file,
                           char path[2048]) {
    const struct pin_cgroup_hierarchy *hierarchy = pin_cgroup_facts_of(&facts, controller);
    if (hierarchy == NULL)
        return NULL;
    (void)snprintf(path, 2048, "%s/%s/%u/%s", hierarchy->base, facts.group, slot, file);
    return path;
}

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

static bool exists(uint32_t slot) {
    char path[2048];
    for (size_t i = 0; i < facts.count; i++) {
        (void)snprintf(path, sizeof(path), "%s/%s/%u", facts.hierarchies[i].base, facts.group, slot);
        if (facts.hierarchies[i].base[0] != '\0' && access(path, F_OK) == 0)
            return true;
    }
    return false;
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

static void a_kill_reaches_those_that_fork_meanwhile(void **state) {
    (void)state;
    need(1u << PIN_PROTECT_PIDS);
    for (uint32_t round = 0; round < 5; round++) {
        struct pin_error err = {0};
        struct pin_cgroup *group = make(6, &usual);
        (void)start(group, breed);
        (void)nanosleep(&(struct timespec){.tv_nsec = (long)round * 3000000}, NULL);
        bool empty = false;
        if (!pin_cgroup_kill(group, &err) || !pin_cgroup_wait_empty(group, PATIENCE_NS, &err))
            fail_msg("%s", err.message);
        assert_true(pin_cgroup_is_empty(group, &empty, &err));
        assert_true(empty);
        end(group);
        while (waitpid(-1, NULL, WNOHANG) > 0)
            ;
    }
}

static void a_struck_leaf_is_signalled_whole_and_nobody_is_waited_for(void **state) {
    (void)state;
    need(1u << PIN_PROTECT_PIDS);
    struct pin_error err = {0};
    bool empty = false, whole = false;
    struct pin_cgroup *group = make(7, &no_limits);
    struct pin_cgroup *leaf = pin_cgroup_leaf_create(group, "struck", &err);
    assert_non_null(leaf);
    pid_t children[] = {start(leaf, sleep_forever), start(leaf, sleep_forever), start(leaf, sleep_forever)};
    assert_true(pin_cgroup_strike(leaf, &whole, &err));
    assert_true(whole);
    for (size_t i = 0; i < PIN_COUNT(children); i++)
        assert_int_equal(WTERMSIG(wait_for(children[i])), SIGKILL);
    assert_true(pin_cgroup_is_empty(leaf, &empty, &err));
    assert_true(empty);
    assert_true(pin_cgroup_remove(leaf, PATIENCE_NS, &err));
    pin_cgroup_free(leaf);
    end(group);
}

static bool is_nobody_in(const struct pin_cgroup *group) {
    struct pin_error err = {0};
    bool empty = false;
    if (!pin_cgroup_is_empty(group, &empty, &err))
        fail_msg("%s", err.message);
    return empty;
}

/* With files that stay open each reading is still of that moment: who came after the first one is seen. */
static void a_leaf_with_open_counters_counts_on(void **state) {
    (void)state;
    need(1u << PIN_PROTECT_PIDS | 1u << PIN_PROTECT_MEMORY);
    struct pin_error err = {0};
    struct pin_cgroup_usage before, after;
    struct pin_cgroup *group = make(7, &no_limits);
    struct pin_cgroup *leaf = pin_cgroup_leaf_create(group, "counted", &err);
    assert_non_null(leaf);
    assert_true(pin_cgroup_leaf_keep_open(leaf));
    assert_true(is_nobody_in(leaf));
    assert_true(pin_cgroup_usage_read(leaf, &before, &err));
    for (int round = 0; round < 3; round++) {
        pid_t child = start(leaf, sleep_forever);
        assert_false(is_nobody_in(leaf));
        assert_int_equal(kill(child, SIGKILL), 0);
        siginfo_t info;
        assert_int_equal(waitid(P_PID, (id_t)child, &info, WEXITED | WNOWAIT), 0);
        assert_true(is_nobody_in(leaf)); /* a zombie doesn't count */
        (void)wait_for(child);
        assert_true(is_nobody_in(leaf));
        (void)wait_for(start(leaf, spin_a_while));
        assert_true(pin_cgroup_usage_read(leaf, &after, &err));
        assert_true(after.cpu_ns > before.cpu_ns);
        before = after;
    }
    assert_true(pin_cgroup_remove(leaf, PATIENCE_NS, &err));
    pin_cgroup_free(leaf);
    end(group);
}

static void a_group_with_groups_below_is_killed_and_removed_whole(void **state) {
    (void)state;
    need(1u << PIN_PROTECT_PIDS);
    struct pin_error err = {0};
    struct pin_cgroup *group = make(7, &no_limits);
    char path[2048], text[32];
    assert_int_equal(mkdir(path_of(PIN_CGROUP_PIDS, 7, "below", path), 0755), 0);
    assert_int_equal(mkdir(path_of(PIN_CGROUP_PIDS, 7, "below/deeper", path), 0755), 0);
    pid_t child = start(group, sleep_forever);
    int procs = open(path_of(PIN_CGROUP_PIDS, 7, "below/deeper/cgroup.procs", path), O_WRONLY | O_CLOEXEC);
    int size = snprintf(text, sizeof(text), "%d", (int)child);
    assert_int_equal(write(procs, text, (size_t)size), size);
    (void)close(procs);
    bool empty = true;
    assert_true(pin_cgroup_is_empty(group, &empty, &err));
    assert_false(empty);
    assert_true(pin_cgroup_kill(group, &err));
    assert_int_equal(WTERMSIG(wait_for(child)), SIGKILL);
    end(group);
    assert_false(exists(7));
}

static void waiting_for_the_living_ends_with_an_error(void **state) {
    (void)state;
    need(1u << PIN_PROTECT_PIDS);
    struct pin_error err = {0}, other = {0};
    struct pin_cgroup *group = make(8, &no_limits);
    pid_t child = start(group, sleep_forever);
    assert_false(pin_cgroup_wait_empty(group, 10 * PIN_NS_PER_MS, &err));
    assert_int_equal(err.kind, PIN_ERROR_BUSY);
    assert_false(pin_cgroup_remove(group, 10 * PIN_NS_PER_MS, &other));
    assert_int_equal(other.kind, PIN_ERROR_BUSY);
    assert_int_equal(kill(child, 0), 0);
    end(group);
    (void)wait_for(child);
}

static void what_a_dead_owner_left_is_replaced(void **state) {
    (void)state;
    need(NEED_ALL);
    struct pin_cgroup *old = make(9, &usual);
    pid_t child = start(old, sleep_forever);
    pin_cgroup_free(old);
    struct pin_cgroup *group = make(9, &usual);
    assert_int_equal(WTERMSIG(wait_for(child)), SIGKILL);
    end(group);
}

static void a_name_of_the_callers_is_never_replaced(void **state) {
    (void)state;
    need(1u << PIN_PROTECT_PIDS);
    struct pin_error err = {0};
    uint32_t missing = 0;
    char path[128];
    struct pin_cgroup *old = make(10, &no_limits);
    (void)snprintf(path, sizeof(path), "%s/10", facts.group);
    assert_null(pin_cgroup_create_at(&facts, path, &no_limits, 0, &missing, &err));
    assert_int_equal(err.kind, PIN_ERROR_EXISTS);
    end(old);
}

static void cleaning_a_slot_kills_and_removes_it(void **state) {
    (void)state;
    need(1u << PIN_PROTECT_PIDS);
    struct pin_error err = {0};
    char place[PIN_CGROUP_PATH];
    struct pin_cgroup *group = make(11, &no_limits);
    pid_t child = start(group, sleep_forever);
    pin_cgroup_free(group);
    assert_true(pin_cgroup_place(&facts, 11, place, &err));
    if (!pin_cgroup_clean_slot(&facts, 11, place, &err))
        fail_msg("%s", err.message);
    assert_int_equal(WTERMSIG(wait_for(child)), SIGKILL);
    assert_false(exists(11));
    assert_true(pin_cgroup_clean_slot(&facts, 11, place, &err));
    assert_true(pin_cgroup_clean_slot(&facts, 12, "", &err));
}

static void a_record_cannot_name_a_foreign_group(void **state) {
    (void)state;
    static const char *const paths[] = {"/", "/system.slice", "/system.slice/ssh.service", "/11", "//"};
    for (size_t i = 0; i < sizeof(paths) / sizeof(paths[0]); i++) {
        struct pin_error err = {0};
        assert_false(pin_cgroup_clean_slot(&facts, 11, paths[i], &err));
        assert_int_equal(err.kind, PIN_ERROR_INVALID);
    }
}

static void a_frozen_group_stands_still_and_goes_on(void **state) {
    (void)state;
    need(1u << PIN_PROTECT_PIDS);
    struct pin_error err = {0};
    struct pin_cgroup_limits limits = no_limits;
    limits.also = 1u << PIN_CGROUP_FREEZER;
    struct pin_cgroup *group = make(13, &limits);
    pid_t child = start(group, spin_a_while);
    if (!pin_cgroup_freeze(group, PATIENCE_NS, &err))
        fail_msg("%s", err.message);
    (void)nanosleep(&(struct timespec){.tv_nsec = 150000000}, NULL);
    assert_int_equal(waitpid(child, NULL, WNOHANG), 0);
    assert_true(pin_cgroup_thaw(group, &err));
    assert_int_equal(wait_for(child), 0);
    child = start(group, sleep_forever); /* and the frozen can be killed */
    assert_true(pin_cgroup_freeze(group, PATIENCE_NS, &err));
    assert_true(pin_cgroup_kill(group, &err));
    assert_int_equal(WTERMSIG(wait_for(child)), SIGKILL);
    end(group);
}

/* Of two who want the opposite, the one who wants it frozen is told, and doesn't wait for what won't come. */
static void who_freezes_is_told_when_it_was_thawed_meanwhile(void **state) {
    (void)state;
    need(1u << PIN_PROTECT_PIDS);
    struct pin_error err = {0};
    struct pin_cgroup_limits limits = no_limits;
    limits.also = 1u << PIN_CGROUP_FREEZER;
    struct pin_cgroup *group = make(18, &limits);
    pid_t child = start(group, sleep_forever), other = fork();
    while (other == 0)
        (void)pin_cgroup_thaw(group, &err);
    uint64_t until = pin_now_ns() + PATIENCE_NS;
    while (pin_cgroup_freeze(group, PIN_NS_PER_S * 3600, &err) && pin_now_ns() < until)
        continue;
    assert_non_null(strstr(err.message, "was thawed"));
    assert_int_equal(kill(other, SIGKILL), 0);
    assert_int_equal(WTERMSIG(wait_for(other)), SIGKILL);
    err = (struct pin_error){0};
    assert_true(pin_cgroup_kill(group, &err));
    assert_int_equal(WTERMSIG(wait_for(child)), SIGKILL);
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
        cmocka_unit_test(a_kill_reaches_those_that_fork_meanwhile),
        cmocka_unit_test(a_struck_leaf_is_signalled_whole_and_nobody_is_waited_for),
        cmocka_unit_test(a_leaf_with_open_counters_counts_on),
        cmocka_unit_test(a_group_with_groups_below_is_killed_and_removed_whole),
        cmocka_unit_test(waiting_for_the_living_ends_with_an_error),
        cmocka_unit_test(what_a_dead_owner_left_is_replaced),
        cmocka_unit_test(a_name_of_the_callers_is_never_replaced),
        cmocka_unit_test(cleaning_a_slot_kills_and_removes_it),
        cmocka_unit_test(a_record_cannot_name_a_foreign_group),
        cmocka_unit_test(a_frozen_group_stands_still_and_goes_on),
        cmocka_unit_test(who_freezes_is_told_when_it_was_thawed_meanwhile),
        cmocka_unit_test(processors_are_pinned),
        cmocka_unit_test(a_bundles_resources_are_applied_and_changed),
        cmocka_unit_test(device_rules_hold_and_are_replaced),
        cmocka_unit_test(an_absent_controller_refuses_its_limit_unless_optional),
        cmocka_unit_test(paths_that_climb_are_refused),
    };
    return cmocka_run_group_tests(tests, gather, NULL);
}
