/* The tables of calls, groups, baselines and guards, both ways. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>

#include "base/names.h"
#include "policy/syscalls.h"
#include "policy/syscalls_guard.h"

static void calls_are_sorted_and_found_by_name_and_number(void **state) {
    (void)state;
    assert_in_range(pin_syscalls_count, 380, 512);
    for (size_t i = 0; i < pin_syscalls_count; i++) {
        const struct pin_syscall *call = &pin_syscalls[i];
        assert_true(i == 0 || strcmp(pin_syscalls[i - 1].name, call->name) < 0);
        assert_ptr_equal(pin_syscall_find(call->name), call);
        assert_ptr_equal(pin_syscall_find_near(call->name, i > 2 ? call - 2 : NULL), call);
        for (int arch = 0; arch < PIN_ARCH_COUNT; arch++)
            if (call->number[arch] >= 0)
                assert_ptr_equal(pin_syscall_at((enum pin_arch)arch, (uint32_t)call->number[arch]), call);
    }
    assert_null(pin_syscall_find("rea"));
    assert_null(pin_syscall_find(""));
    assert_null(pin_syscall_at(PIN_ARCH_X86_64, 337));
}

static void numbers_are_the_kernel_headers(void **state) {
    (void)state;
    static const struct {
        const char *name;
        int number;
    } rows[] = {
        {"read",        SYS_read       },
        {"openat",      SYS_openat     },
        {"clone",       SYS_clone      },
        {"close_range", SYS_close_range},
        {"seccomp",     SYS_seccomp    },
        {"futex_waitv", SYS_futex_waitv},
    };
    for (size_t i = 0; i < PIN_COUNT(rows); i++)
        assert_int_equal(pin_syscall_number(pin_arch_native(), rows[i].name), rows[i].number);
    assert_int_equal(pin_syscall_number(PIN_ARCH_AARCH64, "open"), -1);
    assert_int_equal(pin_syscall_number(PIN_ARCH_AARCH64, "openat"), 56);
}

static void every_call_is_in_one_group(void **state) {
    (void)state;
    for (size_t row = 0; row < pin_syscalls_count; row++) {
        int groups = 0;
        for (size_t i = 0; i < pin_syscall_groups_count; i++)
            groups += pin_syscall_in(&pin_syscall_groups[i], &pin_syscalls[row]);
        if (groups != 1)
            fail_msg("'%s' is in %d groups", pin_syscalls[row].name, groups);
    }
}

static void a_group_may_be_allowed_whole_or_not_at_all(void **state) {
    (void)state;
    for (size_t i = 0; i < pin_syscall_groups_count; i++) {
        const struct pin_syscall_set *group = &pin_syscall_groups[i];
        for (size_t j = 1; j < group->count; j++)
            if ((pin_syscalls[group->rows[j]].never == NULL) != (pin_syscalls[group->rows[0]].never == NULL))
                fail_msg("'%s' in %s", pin_syscalls[group->rows[j]].name, group->name);
    }
}

static void each_baseline_holds_the_one_before(void **state) {
    (void)state;
    assert_int_equal(pin_syscall_baselines_count, 4);
    for (size_t i = 1; i < pin_syscall_baselines_count; i++)
        for (size_t j = 0; j < pin_syscall_baselines[i - 1].count; j++)
            assert_true(pin_syscall_in(&pin_syscall_baselines[i],
                                       &pin_syscalls[pin_syscall_baselines[i - 1].rows[j]]));
}

static void init_and_its_children_can_do_their_work_on_every_baseline(void **state) {
    (void)state;
    /* What PID 1 and the path from it to the command call, behind the filter. */
    static const char *const needed[] = {
        "recvfrom",     "recvmsg",
        "sendmsg",      "signalfd4",
        "ppoll",        "poll",
        "clone",        "vfork",
        "fork",         "execve",
        "wait4",        "waitid",
        "setsid",       "dup3",
        "dup2",         "close_range",
        "close",        "openat",
        "ioctl",        "chdir",
        "umask",        "prctl",
        "kill",         "exit_group",
        "rt_sigaction", "rt_sigprocmask",
        "rt_sigreturn", "mmap",
        "munmap",       "brk",
        "prlimit64",    "getpid",
        "arch_prctl",   "set_tid_address",
        "read",         "write",
        "fcntl",
    };
    for (size_t i = 0; i < pin_syscall_baselines_count; i++)
        for (size_t j = 0; j < PIN_COUNT(needed); j++)
            assert_true(pin_syscall_in(&pin_syscall_baselines[i], pin_syscall_find(needed[j])));
}

/* Exactly some of 32 bits, or whether a pointer is one. */
static void check_case(const struct pin_guard_case *given) {
    for (size_t k = 0; k < given->arg_count; k++) {
        const struct pin_filter_arg *arg = &given->args[k];
        if (arg->op == PIN_FILTER_EQ || arg->op == PIN_FILTER_NE) {
            assert_true(arg->mask == 0 && arg->value == 0);
            continue;
        }
        assert_int_equal(arg->op, PIN_FILTER_MASKED_EQ);
        assert_true(arg->mask != 0 && arg->mask <= UINT32_MAX);
        assert_true((arg->value & ~arg->mask) == 0);
    }
}

static void guards_name_calls_and_compare_masked_bits_exactly(void **state) {
    (void)state;
    for (int walled = 0; walled < 2; walled++) {
        size_t count;
        const struct pin_guard *guards = pin_guards(walled != 0, &count);
        for (size_t i = 0; i < count; i++) {
            assert_non_null(pin_syscall_find(guards[i].call));
            assert_ptr_equal(pin_guard_find(guards[i].call, walled != 0), &guards[i]);
            assert_true(guards[i].count > 0 && guards[i].reason[0] != '\0');
            for (size_t j = 0; j < guards[i].count; j++)
                check_case(&guards[i].cases[j]);
            for (size_t j = 0; j < guards[i].idle_count; j++)
                check_case(&guards[i].idle[j]);
        }
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(calls_are_sorted_and_found_by_name_and_number),
        cmocka_unit_test(numbers_are_the_kernel_headers),
        cmocka_unit_test(every_call_is_in_one_group),
        cmocka_unit_test(a_group_may_be_allowed_whole_or_not_at_all),
        cmocka_unit_test(each_baseline_holds_the_one_before),
        cmocka_unit_test(init_and_its_children_can_do_their_work_on_every_baseline),
        cmocka_unit_test(guards_name_calls_and_compare_masked_bits_exactly),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
