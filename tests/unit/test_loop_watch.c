#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/units.h"
#include "runtime/supervise/loop.h"
#include "tests/unit/loop_fixture.h"

static void watching_reports_a_condition_for_as_long_as_it_holds(void **state) {
    struct pin_error err = {0};
    struct watcher watcher = {0};
    int ends[2];
    assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
    watcher.source = pin_loop_watch(*state, ends[0], POLLIN, on_ready, &watcher, &err);
    assert_non_null(watcher.source);
    assert_int_equal(write(ends[1], "x", 1), 1);
    within(*state, 60 * PIN_NS_PER_S);
    while (watcher.calls < 3)
        step(*state);
    assert_true(watcher.events & POLLIN);
    pin_source_remove(&watcher.source);
    (void)close(ends[0]), (void)close(ends[1]);
}

static void fill_up(int fd) {
    char bytes[4096] = {0};
    while (send(fd, bytes, sizeof(bytes), MSG_DONTWAIT) > 0)
        continue;
    assert_int_equal(errno, EAGAIN);
}

static void stop_waiting(void *self) {
    *(bool *)self = true;
}

/* How often the loop came back by itself in a time in which nothing happened. */
static unsigned steps_in(struct pin_loop *loop, uint64_t ns) {
    struct pin_error err = {0};
    bool over = false;
    unsigned steps = 0;
    assert_non_null(pin_loop_at(loop, pin_now_ns() + ns, stop_waiting, &over, &err));
    while (!over) {
        step(loop);
        steps++;
    }
    return steps;
}

static void who_waits_for_room_sleeps_though_the_peer_has_said_all(void **state) {
    struct pin_error err = {0};
    struct watcher watcher = {0};
    char bytes[65536];
    int ends[2];
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
    fill_up(ends[0]);
    watcher.source = pin_loop_watch(*state, ends[0], POLLOUT, on_ready, &watcher, &err);
    assert_int_equal(shutdown(ends[1], SHUT_WR), 0);
    assert_in_range(steps_in(*state, 100 * PIN_NS_PER_MS), 1, 8); /* a turn each would be thousands */
    assert_int_equal(watcher.calls, 0);
    pin_source_pause(watcher.source);
    pin_source_resume(watcher.source);
    while (recv(ends[1], bytes, sizeof(bytes), MSG_DONTWAIT) > 0)
        continue;
    within(*state, 60 * PIN_NS_PER_S);
    while (watcher.calls < 3)
        step(*state);
    assert_int_equal(watcher.events, POLLOUT);
    pin_source_remove(&watcher.source);
    (void)close(ends[0]), (void)close(ends[1]);
}

static void a_peer_that_has_said_all_and_goes_is_told_as_gone(void **state) {
    struct pin_error err = {0};
    struct watcher watcher = {0};
    int ends[2];
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
    watcher.source = pin_loop_watch(*state, ends[0], POLLHUP, on_ready, &watcher, &err);
    assert_int_equal(shutdown(ends[1], SHUT_WR), 0);
    assert_in_range(steps_in(*state, 20 * PIN_NS_PER_MS), 1, 8);
    assert_int_equal(watcher.calls, 0);
    (void)close(ends[1]);
    within(*state, 60 * PIN_NS_PER_S);
    while (watcher.calls == 0)
        step(*state);
    assert_true(watcher.events & POLLHUP);
    pin_source_remove(&watcher.source);
    (void)close(ends[0]);
}

static void watching_a_pidfd_tells_the_end_of_a_process(void **state) {
    struct pin_error err = {0};
    struct watcher watcher = {0};
    pid_t pid = fork();
    if (pid == 0)
        _exit(0);
    PIN_CLOSE int pidfd = (int)syscall(SYS_pidfd_open, pid, 0);
    watcher.source = pin_loop_watch(*state, pidfd, POLLIN, on_ready, &watcher, &err);
    within(*state, 60 * PIN_NS_PER_S);
    while (watcher.calls == 0)
        step(*state);
    assert_int_equal(waitpid(pid, NULL, WNOHANG), pid);
}

static void a_freed_loop_leaves_no_descriptor_of_its_watches(void **state) {
    (void)state;
    static const enum pin_io kinds[] = {PIN_IO_AUTO, PIN_IO_EPOLL};
    int before = open_descriptors();
    for (size_t i = 0; i < PIN_COUNT(kinds); i++) {
        struct pin_error err = {0};
        struct pin_loop *loop = pin_loop_new(kinds[i], &err);
        struct watcher watcher = {0}, gone = {0};
        int ends[2];
        assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
        assert_int_equal(shutdown(ends[1], SHUT_WR), 0);
        (void)pin_loop_watch(loop, ends[0], POLLHUP, on_ready, &watcher, &err);
        gone.source = pin_loop_watch(loop, ends[0], POLLHUP, on_ready, &gone, &err);
        (void)steps_in(loop, PIN_NS_PER_MS);
        pin_source_remove(&gone.source);
        (void)steps_in(loop, PIN_NS_PER_MS);
        pin_loop_free(loop);
        (void)close(ends[0]), (void)close(ends[1]);
    }
    assert_int_equal(open_descriptors(), before);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        ON_BOTH(watching_reports_a_condition_for_as_long_as_it_holds),
        ON_BOTH(who_waits_for_room_sleeps_though_the_peer_has_said_all),
        ON_BOTH(a_peer_that_has_said_all_and_goes_is_told_as_gone),
        ON_BOTH(watching_a_pidfd_tells_the_end_of_a_process),
        cmocka_unit_test(a_freed_loop_leaves_no_descriptor_of_its_watches),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
