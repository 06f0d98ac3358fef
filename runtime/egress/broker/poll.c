#include "runtime/egress/broker/poll.h"

#include <errno.h>
#include <stddef.h>
#include <time.h>
#include <unistd.h>

#include "base/units.h"

#define ROUND_MAX 64
#define AGAIN_MS 50 /* when what couldn't be watched is tried again */

bool poll_open(struct poll *poll) {
    effort_open(&poll->effort);
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

static void unpark(struct watch *watch) {
    if (watch->parked_link == NULL)
        return;
    *watch->parked_link = watch->parked_next;
    if (watch->parked_next != NULL)
        watch->parked_next->parked_link = watch->parked_link;
    watch->parked_link = NULL;
}

/* It stays ready, and would make rounds without end. */
static void park(struct poll *poll, struct watch *watch) {
    (void)forget(poll, watch);
    if (watch->parked_link != NULL)
        return;
    watch->parked_next = poll->parked;
    watch->parked_link = &poll->parked;
    if (watch->parked_next != NULL)
        watch->parked_next->parked_link = &watch->parked_next;
    poll->parked = watch;
}

/* One that can't be watched again for now stays where it is. */
static void unpark_all(struct poll *poll) {
    for (struct watch *watch = poll->parked, *next; watch != NULL; watch = next) {
        next = watch->parked_next;
        if (poll_want(poll, watch, EPOLLIN))
            unpark(watch);
    }
}

void poll_close(struct watch *watch) {
    unpark(watch);
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

static bool labours(const struct poll *poll, const struct watch *watch) {
    return watch->labours > 0 && watch->fd >= 0 && !(watch->inlet && poll->effort.is_spent);
}

/* All of such a round is effort, the waiting's own cost too, but for the calls that move bytes: for one
 * question in a round that is more than what the question takes. */
static void begin_labour(struct poll *poll, const struct epoll_event *events, int count) {
    for (int i = 0; i < count && poll->begun_ns == 0; i++)
        if (labours(poll, events[i].data.ptr))
            poll->begun_ns = effort_clock();
}

static void end_labour(struct poll *poll) {
    if (poll->begun_ns == 0)
        return;
    effort_spend(&poll->effort, effort_clock() - poll->begun_ns - poll->moved_ns, now_ns());
    poll->begun_ns = poll->moved_ns = 0;
}

static void call(struct poll *poll, struct watch *watch, uint32_t events) {
    uint64_t begun = poll->begun_ns != 0 && watch->labours == 0 ? effort_clock() : 0;
    if (watch->labours > 0 && watch->labours < LABOURS_ALWAYS)
        watch->labours--;
    watch->ready(watch, events);
    if (begun != 0)
        poll->moved_ns += effort_clock() - begun;
}

static void call_ready(struct poll *poll, const struct epoll_event *events, int count, bool urgent) {
    for (int i = 0; i < count; i++) {
        struct watch *watch = events[i].data.ptr;
        if (watch->urgent != urgent || watch->fd < 0)
            continue; /* closed earlier in this round */
        if (watch->inlet && poll->effort.is_spent)
            park(poll, watch);
        else
            call(poll, watch, events[i].events);
    }
}

int poll_timeout(struct poll *poll, uint64_t now, int limit) {
    if (poll->parked == NULL)
        return limit;
    int most = limit >= 0 && limit < AGAIN_MS ? limit : AGAIN_MS;
    return effort_timeout(&poll->effort, now, most);
}

void poll_lift(struct poll *poll) {
    effort_lift(&poll->effort);
    unpark_all(poll);
}

bool poll_round(struct poll *poll, int timeout_ms) {
    struct epoll_event events[ROUND_MAX];
    int count = epoll_wait(poll->epoll, events, ROUND_MAX, timeout_ms);
    if (count < 0 && errno != EINTR)
        return false;
    poll->handled = count > 0 ? count : 0;
    end_labour(poll);
    begin_labour(poll, events, count);
    call_ready(poll, events, count, true);
    call_ready(poll, events, count, false);
    release_buried(poll);
    if (poll->parked != NULL && !effort_is_spent(&poll->effort, now_ns()))
        unpark_all(poll);
    return true;
}

uint64_t now_ns(void) {
    struct timespec now;
    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * PIN_NS_PER_S + (uint64_t)now.tv_nsec;
}
