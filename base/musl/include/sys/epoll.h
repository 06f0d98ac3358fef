/* sys/epoll.h: musl's, with the call that glibc 2.35 declares. */
#ifndef PIN_MUSL_SYS_EPOLL_H
#define PIN_MUSL_SYS_EPOLL_H

#include_next <sys/epoll.h>

#include <signal.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

static inline int epoll_pwait2(int fd, struct epoll_event *events, int room, const struct timespec *timeout,
                               const sigset_t *mask) {
    return (int)syscall(SYS_epoll_pwait2, fd, events, room, timeout, mask, _NSIG / 8);
}

#endif
