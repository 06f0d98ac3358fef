#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/units.h"
#include "runtime/supervise/loop_backend.h"

#define EVENTS_MAX 16

_Static_assert(EPOLLIN == POLLIN && EPOLLOUT == POLLOUT && EPOLLPRI == POLLPRI && EPOLLERR == POLLERR &&
                   EPOLLHUP == POLLHUP,
               "events of poll(2) and epoll(7) are the same bits");

struct epoll_state {
    int fd;
    uint8_t *buffer; /* one for all: a read is delivered at once */
};

static bool open_epoll(struct pin_loop *loop, struct pin_error *err) {
    struct epoll_state *state = calloc(1, sizeof(*state));
    if (state == NULL)
        return pin_fail_errno(err, "make an epoll loop");
    state->buffer = mmap(NULL, PIN_LOOP_READ_MAX, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    state->fd = epoll_create1(EPOLL_CLOEXEC);
    if (state->fd >= 0 && state->buffer != MAP_FAILED) {
        loop->state = state;
        return true;
    }
    (void)pin_fail_errno(err, "make an epoll loop");
    if (state->buffer != MAP_FAILED)
        (void)munmap(state->buffer, PIN_LOOP_READ_MAX);
    pin_close_fd(&state->fd);
    free(state);
    return false;
}

static void close_epoll(struct pin_loop *loop) {
    struct epoll_state *state = loop->state;
    pin_close_fd(&state->fd);
    (void)munmap(state->buffer, PIN_LOOP_READ_MAX);
    free(state);
}

static int fd_of(const struct pin_source *source) {
    return source->epoll.own_fd >= 0 ? source->epoll.own_fd : source->fd;
}

static int control(struct pin_source *source, int how) {
    const struct epoll_state *state = source->loop->state;
    struct epoll_event event = {.events = source->events != 0 ? source->events : (unsigned)EPOLLIN};
    event.data.ptr = source;
    return epoll_ctl(state->fd, how, fd_of(source), &event);
}

static bool registered(struct pin_source *source) {
    if (control(source, EPOLL_CTL_ADD) < 0) {
        if (errno != EEXIST)
            return false;
        source->epoll.own_fd = fcntl(source->fd, F_DUPFD_CLOEXEC, 0);
        if (source->epoll.own_fd < 0 || control(source, EPOLL_CTL_ADD) < 0)
            return false;
    }
    source->epoll.registered = true;
    return true;
}

static bool add(struct pin_loop *loop, struct pin_source *source, struct pin_error *err) {
    (void)loop;
    if (registered(source))
        return true;
    if (errno == EPERM) { /* a regular file, or a device that is always ready: epoll_ctl(2) */
        source->epoll.always_ready = true;
        return true;
    }
    (void)pin_fail_errno(err, "watch descriptor %d", source->fd);
    pin_close_fd(&source->epoll.own_fd);
    return false;
}

/* A source that is paused leaves the set: with no events asked for, epoll would still report a hang-up. */
static void changed(struct pin_source *source) {
    bool wanted = !source->paused && !source->removed;
    if (!source->epoll.always_ready && wanted && !source->epoll.registered)
        source->epoll.registered = control(source, EPOLL_CTL_ADD) == 0;
    if (!wanted && source->epoll.registered) {
        (void)control(source, EPOLL_CTL_DEL);
        source->epoll.registered = false;
    }
    if (source->removed)
        pin_close_fd(&source->epoll.own_fd);
}

static void dispatch(struct pin_source *source, unsigned events) {
    const struct epoll_state *state = source->loop->state;
    if (source->paused || source->removed)
        return;
    if (source->events != 0) {
        pin_source_ready(source, events);
        return;
    }
    ssize_t got = read(source->fd, state->buffer, PIN_LOOP_READ_MAX);
    if (got < 0) {
        if (errno != EAGAIN && errno != EINTR)
            pin_source_bytes(source, NULL, 0, errno);
        return;
    }
    pin_source_bytes(source, state->buffer, (size_t)got, 0);
    if (source->wiped)
        explicit_bzero(state->buffer, (size_t)got);
}

/* How many events; -1 with errno. epoll_pwait2 counts in nanoseconds and came with Linux 5.11. */
static int wait_for(int fd, struct epoll_event *events, uint64_t timeout_ns) {
    struct timespec timeout = {(time_t)(timeout_ns / PIN_NS_PER_S), (long)(timeout_ns % PIN_NS_PER_S)};
    int count = epoll_pwait2(fd, events, EVENTS_MAX, timeout_ns != UINT64_MAX ? &timeout : NULL, NULL);
    if (count >= 0 || (errno != ENOSYS && errno != EPERM))
        return count;
    uint64_t ms = timeout_ns / PIN_NS_PER_MS + 1;
    return epoll_wait(fd, events, EVENTS_MAX,
                      timeout_ns == UINT64_MAX ? -1
                      : ms > INT_MAX           ? INT_MAX
                                               : (int)ms);
}

static bool dispatch_always_ready(struct pin_loop *loop, bool really) {
    bool any = false;
    for (struct pin_source *source = loop->sources; source != NULL; source = source->next) {
        if (!source->epoll.always_ready || source->paused || source->removed)
            continue;
        any = true;
        if (really)
            dispatch(source, source->events);
    }
    return any;
}

static bool wait(struct pin_loop *loop, uint64_t timeout_ns, struct pin_error *err) {
    const struct epoll_state *state = loop->state;
    struct epoll_event events[EVENTS_MAX];
    if (dispatch_always_ready(loop, false))
        timeout_ns = 0;
    int count = wait_for(state->fd, events, timeout_ns);
    if (count < 0 && errno != EINTR)
        return pin_fail_errno(err, "wait for events");
    for (int i = 0; i < count; i++)
        dispatch(events[i].data.ptr, events[i].events);
    (void)dispatch_always_ready(loop, true);
    return true;
}

const struct pin_backend pin_backend_epoll = {
    .io = PIN_IO_EPOLL,
    .open = open_epoll,
    .close = close_epoll,
    .add = add,
    .changed = changed,
    .wait = wait,
};
