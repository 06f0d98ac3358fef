/* What stays in the kernel on its way: not mixed, not lost, bounded, and past urgent data. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "runtime/egress/broker/pipe.h"

static bool share_is_used_up;
static int asked;

int __wrap_fcntl(int fd, int command, ...);
int __real_fcntl(int fd, int command, ...);
int __wrap_fcntl(int fd, int command, ...) {
    va_list arguments;
    va_start(arguments, command);
    int value = va_arg(arguments, int);
    va_end(arguments);
    asked++;
    if (!share_is_used_up)
        return __real_fcntl(fd, command, value);
    errno = EPERM;
    return -1;
}

/* Two ends of a connection by TCP; the second one doesn't wait. */
static void connect_pair(int ends[2]) {
    struct sockaddr_in place = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t size = sizeof(place);
    int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(bind(listener, (const struct sockaddr *)&place, sizeof(place)), 0);
    assert_int_equal(listen(listener, 1), 0);
    assert_int_equal(getsockname(listener, (struct sockaddr *)&place, &size), 0);
    ends[0] = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(connect(ends[0], (const struct sockaddr *)&place, sizeof(place)), 0);
    ends[1] = accept4(listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
    assert_true(ends[1] >= 0);
    (void)close(listener);
}

static void close_pair(const int ends[2]) {
    (void)close(ends[0]);
    (void)close(ends[1]);
}

static void wait_for(int fd, short events) {
    struct pollfd ready = {.fd = fd, .events = events};
    assert_int_equal(poll(&ready, 1, 60000), 1);
}

static void what_is_filled_in_comes_out_and_the_pipe_is_for_the_next_one(void **state) {
    struct pipes pipes = {.spare = PIPE_NONE};
    struct pipe pipe = PIPE_NONE, next = PIPE_NONE;
    int from[2], to[2];
    char got[16] = "";
    (void)state;
    connect_pair(from);
    connect_pair(to);
    assert_true(pipe_take(&pipes, &pipe));
    assert_int_equal(pipe_fill(&pipe, from[1], 100), -1);
    assert_int_equal(errno, EAGAIN);
    assert_int_equal(send(from[0], "abcdef", 6, 0), 6);
    wait_for(from[1], POLLIN);
    assert_int_equal(pipe_fill(&pipe, from[1], 4), 4);
    assert_int_equal(pipe_empty(&pipe, to[0], 4), 4);
    wait_for(to[1], POLLIN);
    assert_int_equal(recv(to[1], got, 4, 0), 4);
    assert_string_equal(got, "abcd");
    int read = pipe.read;
    pipe_return(&pipes, &pipe);
    assert_true(pipe_take(&pipes, &next));
    assert_int_equal(next.read, read);
    pipe_drop(&pipes, &next);
    pipe_drop(&pipes, &pipe);
    assert_int_equal(pipes.taken, 0);
    close_pair(from);
    close_pair(to);
}

static void there_are_a_few_and_no_more(void **state) {
    struct pipes pipes = {.spare = PIPE_NONE};
    struct pipe taken[64];
    size_t count = 0;
    (void)state;
    while (count < 64 && pipe_take(&pipes, &taken[count]))
        count++;
    assert_in_range(count, 1, 63);
    pipe_drop(&pipes, &taken[--count]);
    assert_true(pipe_take(&pipes, &taken[count++]));
    while (count > 0)
        pipe_return(&pipes, &taken[--count]);
    assert_int_equal(pipes.taken, 0);
    assert_true(pipes.spare.read >= 0); /* the others are closed */
    assert_true(pipe_take(&pipes, &taken[0]));
    pipe_drop(&pipes, &taken[0]);
}

static void where_the_kernel_gives_no_room_there_is_none_and_it_is_asked_seldom(void **state) {
    struct pipes pipes = {.spare = PIPE_NONE};
    struct pipe pipe = PIPE_NONE;
    int free_before = dup(STDERR_FILENO);
    (void)state;
    (void)close(free_before);
    share_is_used_up = true;
    asked = 0;
    for (int i = 0; i < 500; i++)
        assert_false(pipe_take(&pipes, &pipe));
    assert_int_equal(asked, 1);
    assert_int_equal(pipe.read, -1);
    int free_after = dup(STDERR_FILENO);
    (void)close(free_after);
    assert_int_equal(free_after, free_before);
    share_is_used_up = false;
    int tries = 1;
    while (!pipe_take(&pipes, &pipe))
        assert_true(tries++ < 10000);
    pipe_drop(&pipes, &pipe);
    assert_int_equal(pipes.taken, 0);
}

static void urgent_data_looks_like_nothing_until_it_has_been_passed(void **state) {
    struct pipes pipes = {.spare = PIPE_NONE};
    struct pipe pipe = PIPE_NONE;
    int from[2];
    char got[16] = "";
    (void)state;
    connect_pair(from);
    assert_true(pipe_take(&pipes, &pipe));
    assert_int_equal(send(from[0], "!", 1, MSG_OOB), 1);
    assert_int_equal(send(from[0], "after", 5, 0), 5);
    wait_for(from[1], POLLPRI);
    assert_int_equal(pipe_fill(&pipe, from[1], 100), -1);
    assert_int_equal(errno, EAGAIN);
    while (recv(from[1], got, 1, 0) < 1) /* goes past it, and then there may be nothing for a moment */
        wait_for(from[1], POLLIN);
    assert_int_equal(got[0], 'a');
    assert_int_equal(pipe_fill(&pipe, from[1], 100), 4);
    pipe_drop(&pipes, &pipe);
    close_pair(from);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_filled_in_comes_out_and_the_pipe_is_for_the_next_one),
        cmocka_unit_test(there_are_a_few_and_no_more),
        cmocka_unit_test(where_the_kernel_gives_no_room_there_is_none_and_it_is_asked_seldom),
        cmocka_unit_test(urgent_data_looks_like_nothing_until_it_has_been_passed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
