#include "runtime/build/network.h"

#include <errno.h>
#include <net/if.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>

#include "base/side.h"

PIN_SIDE_WORK long pin_network_raise(void) {
    static const struct ifreq loopback_up = {.ifr_name = "lo", .ifr_flags = IFF_UP | IFF_RUNNING};
    long any = pin_side_call(SYS_socket, AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0, 0, 0);
    if (any < 0)
        return any;
    long raised = pin_side_call(SYS_ioctl, any, SIOCSIFFLAGS, (long)&loopback_up, 0, 0);
    (void)pin_side_call(SYS_close, any, 0, 0, 0, 0);
    return raised;
}

bool pin_network_raise_loopback(struct pin_error *err) {
    errno = (int)-pin_network_raise();
    return errno == 0 || pin_fail_errno(err, "raise the loopback interface");
}
