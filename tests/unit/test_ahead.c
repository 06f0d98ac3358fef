/* Namespaces that are begun before the plan is known: the child that comes out of them is ours, is in them
 * and has memory of its own; and where nothing comes of them, nothing is left. Each case is a process of its
 * own. */
#include <fcntl.h>
#include <net/if.h>
#include <poll.h>
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/cleanup.h"
#include "base/io.h"
#include "base/names.h"
#include "runtime/build/ahead.h"

#if defined(__SANITIZE_ADDRESS__)
#define CANNOT true
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define CANNOT true
#endif
#endif
#ifndef CANNOT
#define CANNOT false /* a sanitizer doesn't know the stack of the child: nothing is begun */
#endif

static const char *const spaces[] = {"user", "net", "ipc", "uts"};

struct seen {
    ino_t before[PIN_COUNT(spaces)];
    int touched;
};

static ino_t current(const char *name) {
    struct stat st;
    PIN_CLOSE int folder = open("/proc/thread-self/ns", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    return fstatat(folder, name, &st, 0) == 0 ? st.st_ino : 0;
}

static bool is_up(void) {
    struct ifreq request = {.ifr_name = "lo"};
    PIN_CLOSE int any = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    return any >= 0 && ioctl(any, SIOCGIFFLAGS, &request) == 0 && (request.ifr_flags & IFF_UP) != 0;
}

static int wait_for(pid_t child) {
    int status = 0;
    return child > 0 && waitpid(child, &status, 0) == child && WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

static void check(int (*work)(void)) {
    pid_t child = CANNOT ? 0 : fork();
    if (CANNOT)
        skip();
    if (child == 0)
        _exit(work());
    assert_int_equal(wait_for(child), 0);
}

static void look(void *self) {
    struct seen *seen = self;
    seen->touched++;
    for (size_t i = 0; i < PIN_COUNT(spaces); i++) {
        ino_t now = current(spaces[i]);
        if (now == 0 || now == seen->before[i])
            _exit(10 + (int)i);
    }
    _exit(!is_up() ? 20 : getpid() != 1 ? 21 : 0);
}

static pid_t make(struct pin_ahead *ahead, uint64_t flags, struct seen *seen, int *pidfd) {
    struct clone_args args = {
        .flags = flags | CLONE_PIDFD, .pidfd = (uint64_t)(uintptr_t)pidfd, .exit_signal = SIGCHLD};
    for (size_t i = 0; i < PIN_COUNT(spaces); i++)
        seen->before[i] = current(spaces[i]);
    return pin_ahead_clone(ahead, &args, look, seen);
}

static int make_a_child(void) {
    struct seen seen = {0};
    int pidfd = -1;
    struct pin_ahead *ahead = pin_ahead_start();
    pid_t made = make(ahead, PIN_AHEAD_MADE | CLONE_NEWPID, &seen, &pidfd);
    if (made <= 0)
        return 2;
    pin_ahead_end(ahead);
    struct pollfd end = {.fd = pidfd, .events = POLLIN};
    if (poll(&end, 1, 60000) != 1 || wait_for(made) != 0 || seen.touched != 0)
        return 3;
    pin_ahead_free(ahead);
    return waitpid(-1, NULL, __WALL) < 0 && current("net") == seen.before[1] ? 0 : 4;
}

static void the_child_is_ours_and_in_what_was_begun(void **state) {
    (void)state;
    check(make_a_child);
}

static int ask_for_others(void) {
    struct seen seen = {0};
    int pidfd = -1;
    struct pin_ahead *ahead = pin_ahead_start();
    if (ahead == NULL || make(ahead, PIN_AHEAD_MADE & ~(uint64_t)CLONE_NEWNET, &seen, &pidfd) != 0)
        return 2;
    pin_ahead_free(ahead);
    return waitpid(-1, NULL, __WALL) < 0 && pidfd == -1 ? 0 : 3;
}

static void a_plan_with_the_hosts_network_gets_none_of_it(void **state) {
    (void)state;
    check(ask_for_others);
}

static int begin_without_room(void) {
    struct seen seen = {0};
    struct pin_error err = {0};
    int pidfd = -1;
    if (unshare(CLONE_NEWUSER) != 0 ||
        !pin_write_value_at(AT_FDCWD, "/proc/sys/user/max_net_namespaces", "0", &err))
        return 2;
    struct pin_ahead *ahead = pin_ahead_start();
    if (make(ahead, PIN_AHEAD_MADE | CLONE_NEWPID, &seen, &pidfd) != 0)
        return 3;
    pin_ahead_free(ahead);
    return waitpid(-1, NULL, __WALL) < 0 ? 0 : 4;
}

static void where_none_can_be_made_there_is_no_child(void **state) {
    (void)state;
    check(begin_without_room);
}

/* It holds our descriptors as long as it lives: the other end of a pipe sees its end. */
static void it_dies_with_whoever_started_it(void **state) {
    int ends[2], ready[2];
    char byte;
    (void)state;
    if (CANNOT)
        skip();
    assert_int_equal(pipe2(ends, O_CLOEXEC) | pipe2(ready, O_CLOEXEC), 0);
    pid_t starter = fork();
    if (starter == 0) {
        struct pin_ahead *ahead = pin_ahead_start();
        if (ahead != NULL)
            (void)!write(ready[1], "x", 1);
        (void)close(ready[1]);
        for (;;)
            (void)pause();
    }
    (void)close(ends[1]);
    (void)close(ready[1]);
    assert_int_equal(read(ready[0], &byte, 1), 1);
    assert_int_equal(kill(starter, SIGKILL), 0);
    assert_int_equal(waitpid(starter, NULL, 0), starter);
    struct pollfd end = {.fd = ends[0], .events = POLLIN};
    assert_int_equal(poll(&end, 1, 60000), 1);
    assert_int_equal(read(ends[0], &byte, 1), 0);
    (void)close(ends[0]);
    (void)close(ready[0]);
}

static void what_was_never_begun_is_fine(void **state) {
    struct clone_args args = {.flags = PIN_AHEAD_MADE};
    (void)state;
    assert_int_equal(pin_ahead_clone(NULL, &args, look, NULL), 0);
    pin_ahead_end(NULL);
    pin_ahead_free(NULL);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_child_is_ours_and_in_what_was_begun),
        cmocka_unit_test(a_plan_with_the_hosts_network_gets_none_of_it),
        cmocka_unit_test(where_none_can_be_made_there_is_no_child),
        cmocka_unit_test(it_dies_with_whoever_started_it),
        cmocka_unit_test(what_was_never_begun_is_fine),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
