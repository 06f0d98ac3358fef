#include "runtime/build/network.h"

#include <errno.h>
#include <fcntl.h>
#include <net/if.h>
#include <sched.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/cleanup.h"

static const struct ifreq loopback_up = {.ifr_name = "lo", .ifr_flags = IFF_UP | IFF_RUNNING};

/* A sysfs shows the network namespace in which it was mounted. */
bool pin_network_is_apart(const struct pin_plan *plan) {
    for (size_t i = 0; i < plan->op_count; i++)
        if (plan->ops[i].kind == PIN_OP_FILESYSTEM && strcmp(plan->ops[i].type, "sysfs") == 0)
            return false;
    return (plan->clone_flags & CLONE_NEWNET) != 0;
}

PIN_SIDE_WORK static long raise_beside(void) {
    long any = pin_side_call(SYS_socket, AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0, 0, 0);
    if (any < 0)
        return any;
    long raised = pin_side_call(SYS_ioctl, any, SIOCSIFFLAGS, (long)&loopback_up, 0, 0);
    (void)pin_side_call(SYS_close, any, 0, 0, 0, 0);
    return raised;
}

PIN_SIDE_WORK static void make(void *self) {
    static const char ours[] = "/proc/thread-self/ns/net";
    struct pin_network *network = self;
    long made = pin_side_call(SYS_unshare, CLONE_NEWNET, 0, 0, 0, 0);
    if (made == 0 && network->raises_loopback)
        made = raise_beside();
    if (made == 0)
        made = pin_side_call(SYS_openat, AT_FDCWD, (long)ours, O_RDONLY | O_CLOEXEC, 0, 0);
    network->made = made;
}

void pin_network_start(struct pin_network *network, bool raises_loopback) {
    network->raises_loopback = raises_loopback;
    if (!pin_side_start(&network->side, make, network))
        network->made = -EAGAIN;
}

/* A failure is told as what it is by trying once more, in this thread. */
bool pin_network_enter(struct pin_network *network, struct pin_error *err) {
    pin_side_join(&network->side);
    PIN_CLOSE int made = (int)network->made;
    if (made >= 0)
        return setns(made, CLONE_NEWNET) == 0 || pin_fail_errno(err, "enter the network namespace");
    if (unshare(CLONE_NEWNET) == 0)
        return !network->raises_loopback || pin_network_raise_loopback(err);
    (void)pin_fail_errno(err, "make the network namespace");
    return pin_hint(err, "see sysctl user.max_net_namespaces");
}

bool pin_network_raise_loopback(struct pin_error *err) {
    PIN_CLOSE int any = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (any < 0 || ioctl(any, SIOCSIFFLAGS, &loopback_up) != 0)
        return pin_fail_errno(err, "raise the loopback interface");
    return true;
}
