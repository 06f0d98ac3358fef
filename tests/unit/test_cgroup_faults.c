/* The nth mkdir or write of a creation fails: the error says so, and nothing is left. On the cgroups of this
 * host. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/names.h"
#include "base/units.h"
#include "policy/policy.h"
#include "runtime/build/cgroup/cgroup.h"

static struct pin_cgroup_facts facts;

static struct {
    bool mkdir, write;
    unsigned countdown; /* 1: the next call fails; 0: none does */
    int error;
} fault;

static bool fails(bool chosen) {
    if (!chosen || fault.countdown == 0 || --fault.countdown > 0)
        return false;
    errno = fault.error;
    return true;
}

int __real_mkdir(const char *path, mode_t mode);
int __wrap_mkdir(const char *path, mode_t mode);
int __wrap_mkdir(const char *path, mode_t mode) {
    return fails(fault.mkdir) ? -1 : __real_mkdir(path, mode);
}

ssize_t __real_write(int fd, const void *data, size_t size);
ssize_t __wrap_write(int fd, const void *data, size_t size);
ssize_t __wrap_write(int fd, const void *data, size_t size) {
    return fails(fault.write) ? -1 : __real_write(fd, data, size);
}

static const struct pin_cgroup_limits limits = {
    .memory_bytes = 32 * PIN_MIB, .swap_bytes = PIN_MIB, .pids = 20, .millicpus = 500};

static int gather(void **state) {
    (void)state;
    struct pin_error err = {0};
    char group[32];
    (void)snprintf(group, sizeof(group), "pinfold-fault-%d", (int)getpid());
    if (!pin_cgroup_facts_get(group, &facts, &err))
        return -1;
    pin_cgroup_prepare(&facts, NULL);
    return 0;
}

static void need_cgroups(void) {
    if (pin_cgroup_facts_lack(&facts, NULL) == 0)
        return;
    print_message("skipped: this host lacks cgroup controllers: %s\n", facts.why);
    skip();
}

static bool anything_left(void) {
    char path[2048];
    for (size_t i = 0; i < facts.count; i++) {
        (void)snprintf(path, sizeof(path), "%s/%s/1", facts.hierarchies[i].base, facts.group);
        if (facts.hierarchies[i].base[0] != '\0' && access(path, F_OK) == 0)
            return true;
    }
    return false;
}

/* Fails the first call, then the second, … until a creation passes; the number of failures. */
static unsigned fail_each(bool is_mkdir, int error, uint32_t optional, uint32_t *all_missing) {
    for (unsigned nth = 1;; nth++) {
        struct pin_error err = {0};
        uint32_t missing = 0;
        fault.mkdir = is_mkdir;
        fault.write = !is_mkdir;
        fault.error = error;
        fault.countdown = nth;
        struct pin_cgroup *group = pin_cgroup_create(&facts, 1, &limits, optional, &missing, &err);
        bool passed = fault.countdown > 0;
        memset(&fault, 0, sizeof(fault));
        *all_missing |= missing;
        if (group != NULL) {
            assert_int_equal(err.kind, PIN_ERROR_NONE);
            assert_true(passed || missing != 0);
            struct pin_error later = {0};
            assert_true(pin_cgroup_remove(group, PIN_NS_PER_S, &later));
            pin_cgroup_free(group);
            assert_false(anything_left());
            if (passed)
                return nth - 1;
            continue;
        }
        assert_false(passed);
        assert_int_equal(err.os_errno, error);
        assert_string_not_equal(err.message, "");
        assert_int_equal(missing, 0);
        assert_false(anything_left());
    }
}

static void a_group_that_cannot_be_made_whole_is_not_made(void **state) {
    (void)state;
    need_cgroups();
    static const int errors[] = {ENOSPC, EACCES, ENOMEM, EROFS};
    for (size_t i = 0; i < PIN_COUNT(errors); i++) {
        uint32_t missing = 0;
        assert_true(fail_each(true, errors[i], 0, &missing) >= 1);
        assert_int_equal(missing, 0);
    }
}

static void a_limit_that_cannot_be_written_is_an_error(void **state) {
    (void)state;
    need_cgroups();
    static const int errors[] = {EACCES, EINVAL, EBUSY};
    for (size_t i = 0; i < PIN_COUNT(errors); i++) {
        uint32_t missing = 0;
        assert_true(fail_each(false, errors[i], 0, &missing) >= 3);
        assert_int_equal(missing, 0);
    }
}

static void an_optional_limit_that_cannot_be_written_is_reported_missing(void **state) {
    (void)state;
    need_cgroups();
    if (facts.kind == PIN_CGROUP_V2) {
        print_message("skipped: version 2 has a write that isn't a limit's\n");
        skip();
    }
    uint32_t missing = 0;
    assert_true(fail_each(false, EACCES, 0xf, &missing) >= 4);
    assert_int_equal(missing, 0xf);
}

static void a_process_that_is_gone_cannot_be_attached(void **state) {
    (void)state;
    need_cgroups();
    struct pin_error err = {0}, other = {0};
    uint32_t missing = 0;
    struct pin_cgroup *group = pin_cgroup_create(&facts, 1, &limits, 0, &missing, &err);
    assert_non_null(group);
    pid_t child = fork();
    if (child == 0)
        _exit(0);
    assert_int_equal(waitpid(child, NULL, 0), child);
    assert_false(pin_cgroup_attach(group, child, &err));
    assert_int_equal(err.os_errno, ESRCH);
    assert_true(pin_cgroup_remove(group, PIN_NS_PER_S, &other));
    pin_cgroup_free(group);
}

static void a_read_only_tree_is_told_from_an_absent_one(void **state) {
    (void)state;
    struct pin_cgroup_facts poor;
    struct pin_error err = {0};
    uint32_t missing = 0;
    pin_cgroup_facts_parse("30 23 0:26 / /sys/fs/cgroup ro - cgroup2 cgroup2 rw\n", "0::/\n", true, "pinfold",
                           &poor);
    assert_null(pin_cgroup_create(&poor, 1, &limits, 0, &missing, &err));
    assert_int_equal(err.kind, PIN_ERROR_UNSUPPORTED);
    struct pin_error none = {0};
    struct pin_cgroup *group = pin_cgroup_create(&poor, 1, &limits, 0xf, &missing, &none);
    assert_non_null(group); /* without a directory: everything was optional */
    assert_int_equal(missing, 0xf);
    bool empty = false;
    assert_true(pin_cgroup_attach(group, getpid(), &none));
    assert_true(pin_cgroup_kill(group, &none));
    assert_true(pin_cgroup_is_empty(group, &empty, &none));
    assert_true(empty);
    assert_int_equal(pin_cgroup_unified_fd(group), -1);
    assert_true(pin_cgroup_remove(group, 0, &none));
    pin_cgroup_free(group);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_group_that_cannot_be_made_whole_is_not_made),
        cmocka_unit_test(a_limit_that_cannot_be_written_is_an_error),
        cmocka_unit_test(an_optional_limit_that_cannot_be_written_is_reported_missing),
        cmocka_unit_test(a_process_that_is_gone_cannot_be_attached),
        cmocka_unit_test(a_read_only_tree_is_told_from_an_absent_one),
    };
    return cmocka_run_group_tests(tests, gather, NULL);
}
