#include "runtime/egress/broker/poll.h"

#include <errno.h>
#include <stddef.h>
#include <time.h>
#include <unistd.h>

#include "base/units.h"

#define ROUND_MAX 64

bool poll_open(struct poll *poll) {
    poll->epoll = epoll_create1(EPOLL_CLOEXEC);
    return poll->epoll >= 0;
}

static bool forget(struct poll *poll, struct watch *watch) {
    watch->events = 0;
    bool added = watch->added;
    watch->added = false;
    return !added || epoll_ctl(poll->epoll, EPOLL_CTL_DEL, watch->fd, NULL) == 0;
}

bool poll_want(struct poll *poll, struct watch *watch, uint32_t events) {
    if (events == 0)
        return forget(poll, watch); /* a hang-up would be reported for ever otherwise */
    struct epoll_event event = {.events = events, .data.ptr = watch};
    if (watch->added && watch->events == events)
        return true;
    if (epoll_ctl(poll->epoll, watch->added ? EPOLL_CTL_MOD : EPOLL_CTL_ADD, watch->fd, &event) != 0)
        return false;
    watch->added = true;
    watch->events = events;
    return true;
}

void poll_close(struct watch *watch) {
    if (watch->fd < 0)
        return;
    (void)close(watch->fd); /* the last one of a file: epoll forgets it, too */
    watch->fd = -1;
    watch->events = 0;
    watch->added = false;
}

void poll_bury(struct poll *poll, struct grave *grave, void (*release)(struct grave *grave)) {
    grave->release = release;
    grave->next = poll->graves;
    poll->graves = grave;
}

static void release_buried(struct poll *poll) {
    while (poll->graves != NULL) {
        struct grave *grave = poll->graves;
        poll->graves = grave->next;
        grave->release(grave);
    }
}

static void call_ready(const struct epoll_event *events, int count, bool urgent) {
    for (int i = 0; i < count; i++) {
        struct watch *watch = events[i].data.ptr;
        if (watch->urgent == urgent && watch->fd >= 0) /* else closed earlier in this round */
            watch->ready(watch, events[i].events);
    }
}

bool poll_round(struct poll *poll, int timeout_ms) {
    struct epoll_event events[ROUND_MAX];
    int count = epoll_wait(poll->epoll, events, ROUND_MAX, timeout_ms);
    if (count < 0 && errno != EINTR)
        return false;
    poll->handled = count > 0 ? count : 0;
    call_ready(events, count, true);
    call_ready(events, count, false);
    release_buried(poll);
    return true;
}

uint64_t now_ns(void) {
    struct timespec now;
    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * PIN_NS_PER_S + (uint64_t)now.tv_nsec;
}
