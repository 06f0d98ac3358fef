/* The network namespace that a thread makes: the one who waits for it is in it, and in no other. Each child
 * is in a user namespace of its own, as the set-up child is. */
#include <errno.h>
#include <fcntl.h>
#include <net/if.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/cleanup.h"
#include "base/io.h"
#include "runtime/build/network.h"

static ino_t current(void) {
    struct stat st;
    return stat("/proc/thread-self/ns/net", &st) == 0 ? st.st_ino : 0;
}

static bool is_up(void) {
    struct ifreq request = {.ifr_name = "lo"};
    PIN_CLOSE int any = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    return any >= 0 && ioctl(any, SIOCGIFFLAGS, &request) == 0 && (request.ifr_flags & IFF_UP) != 0;
}

static int wait_for(pid_t child) {
    int status = 0;
    assert_true(child > 0 && waitpid(child, &status, 0) == child);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

static int enter(bool raises_loopback) {
    static struct pin_network network;
    struct pin_error err = {0};
    ino_t before = current();
    if (unshare(CLONE_NEWUSER) != 0)
        return 2;
    pin_network_start(&network, raises_loopback);
    if (current() != before) /* the thread's is its own */
        return 3;
    if (!pin_network_enter(&network, &err) || current() == before)
        return 4;
    return is_up() == raises_loopback ? 0 : 5;
}

static void whoever_waits_is_in_it_with_its_loopback(void **state) {
    (void)state;
    for (int raises = 0; raises < 2; raises++) {
        pid_t child = fork();
        if (child == 0)
            _exit(enter(raises == 1));
        assert_int_equal(wait_for(child), 0);
    }
}

static int enter_without_room(void) {
    static struct pin_network network;
    struct pin_error err = {0};
    if (unshare(CLONE_NEWUSER) != 0 ||
        !pin_write_value_at(AT_FDCWD, "/proc/sys/user/max_net_namespaces", "0", &err))
        return 2;
    pin_network_start(&network, true);
    if (pin_network_enter(&network, &err))
        return 3;
    return err.os_errno == ENOSPC && strstr(err.hint, "max_net_namespaces") != NULL ? 0 : 4;
}

static void where_none_can_be_made_nobody_goes_on(void **state) {
    (void)state;
    pid_t child = fork();
    if (child == 0)
        _exit(enter_without_room());
    assert_int_equal(wait_for(child), 0);
}

/* No thread has ever started: what it was to do is done by the one who waits. */
static int enter_alone(void) {
    static struct pin_network network = {.raises_loopback = true, .made = -EAGAIN};
    struct pin_error err = {0};
    ino_t before = current();
    if (unshare(CLONE_NEWUSER) != 0)
        return 2;
    return pin_network_enter(&network, &err) && current() != before && is_up() ? 0 : 3;
}

static void without_a_thread_it_is_made_all_the_same(void **state) {
    (void)state;
    pid_t child = fork();
    if (child == 0)
        _exit(enter_alone());
    assert_int_equal(wait_for(child), 0);
}

static void what_shows_the_network_is_not_mounted_before(void **state) {
    struct pin_op ops[] = {
        {.kind = PIN_OP_FILESYSTEM, .type = "proc",  .target = "proc"},
        {.kind = PIN_OP_FILESYSTEM, .type = "sysfs", .target = "sys" },
    };
    struct pin_plan plan = {.ops = ops, .op_count = 1, .clone_flags = CLONE_NEWUSER | CLONE_NEWNET};
    (void)state;
    assert_true(pin_network_is_apart(&plan));
    plan.op_count = 2;
    assert_false(pin_network_is_apart(&plan));
    plan = (struct pin_plan){.ops = ops, .op_count = 1, .clone_flags = CLONE_NEWUSER};
    assert_false(pin_network_is_apart(&plan));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(whoever_waits_is_in_it_with_its_loopback),
        cmocka_unit_test(where_none_can_be_made_nobody_goes_on),
        cmocka_unit_test(without_a_thread_it_is_made_all_the_same),
        cmocka_unit_test(what_shows_the_network_is_not_mounted_before),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
