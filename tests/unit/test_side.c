/* A thread beside the rest: it works, it ends, it is waited for, and no signal finds it. */
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/side.h"

struct job {
    int from, to;
    long error;
    uint64_t blocked;
};

PIN_SIDE_WORK static void copy_byte(void *self) {
    struct job *job = self;
    char byte;
    job->error = pin_side_call(SYS_close, -1, 0, 0, 0, 0);
    (void)pin_side_call(SYS_rt_sigprocmask, SIG_BLOCK, 0, (long)&job->blocked, sizeof(job->blocked), 0);
    if (pin_side_call(SYS_read, job->from, (long)&byte, 1, 0, 0) == 1)
        (void)pin_side_call(SYS_write, job->to, (long)&byte, 1, 0, 0);
}

static void it_works_beside_us_and_is_waited_for(void **state) {
    static struct pin_side side;
    int in[2], out[2];
    char byte = 0;
    (void)state;
    assert_int_equal(pipe2(in, O_CLOEXEC) | pipe2(out, O_CLOEXEC), 0);
    struct job job = {.from = in[0], .to = out[1]};
    for (int turn = 0; turn < 100; turn++) {
        assert_true(pin_side_start(&side, copy_byte, &job));
        assert_int_equal(write(in[1], "x", 1), 1); /* only now can it go on */
        pin_side_join(&side);
        assert_int_equal(side.running, 0);
        assert_int_equal(read(out[0], &byte, 1), 1);
        assert_int_equal(byte, 'x');
    }
    for (int i = 0; i < 2; i++)
        (void)close(in[i]), (void)close(out[i]);
}

static void a_failure_is_a_negated_number_and_errno_is_ours(void **state) {
    static struct pin_side side;
    struct job job = {.from = -1};
    (void)state;
    errno = ENOTTY;
    assert_true(pin_side_start(&side, copy_byte, &job));
    pin_side_join(&side);
    assert_int_equal(job.error, -EBADF);
    assert_int_equal(errno, ENOTTY);
}

static void every_signal_is_blocked_in_it_and_none_more_in_us(void **state) {
    static struct pin_side side;
    struct job job = {.from = -1};
    uint64_t before = 0, after = 0;
    (void)state;
    (void)syscall(SYS_rt_sigprocmask, SIG_BLOCK, NULL, &before, sizeof(before));
    assert_true(pin_side_start(&side, copy_byte, &job));
    pin_side_join(&side);
    (void)syscall(SYS_rt_sigprocmask, SIG_BLOCK, NULL, &after, sizeof(after));
    assert_true(before == after);
    assert_true(job.blocked == ~((UINT64_C(1) << (SIGKILL - 1)) | (UINT64_C(1) << (SIGSTOP - 1))));
}

static void nothing_is_waited_for_where_none_started(void **state) {
    static struct pin_side side;
    (void)state;
    pin_side_join(&side);
    assert_int_equal(side.running, 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(it_works_beside_us_and_is_waited_for),
        cmocka_unit_test(a_failure_is_a_negated_number_and_errno_is_ours),
        cmocka_unit_test(every_signal_is_blocked_in_it_and_none_more_in_us),
        cmocka_unit_test(nothing_is_waited_for_where_none_started),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
