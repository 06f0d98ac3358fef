#include "runtime/egress/broker/poll.h"

#include <errno.h>
#include <sched.h>
#include <stddef.h>
#include <sys/timerfd.h>
#include <time.h>
#include <unistd.h>

#include "base/units.h"

#define ROUND_MAX 64
#define SETTLE_NS PIN_NS_PER_MS    /* of labour that is counted late */
#define FAR_NS (2 * POLL_AWAKE_NS) /* as seen by who is woken for it */
#define AGAIN_MS 50                /* when what couldn't be watched is tried again */

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
 * question in a round that is more than what the question takes. The thread's clock is dear, so that it runs
 * on from one such round to the next; nobody's time is counted while the thread sleeps. */
static void begin_labour(struct poll *poll) {
    poll->begun_ns = effort_clock();
    poll->begun_at_ns = now_ns();
}

static void end_labour(struct poll *poll) {
    if (poll->begun_ns == 0)
        return;
    effort_spend(&poll->effort, effort_clock() - poll->begun_ns, now_ns());
    poll->begun_ns = 0;
}

static void change_labour(struct poll *poll, const struct epoll_event *events, int count) {
    int i = 0;
    while (i < count && !labours(poll, events[i].data.ptr))
        i++;
    if (i == count)
        end_labour(poll);
    else if (poll->begun_ns == 0)
        begin_labour(poll);
}

static void settle_labour(struct poll *poll) {
    if (poll->begun_ns == 0 || elapsed_ns(now_ns(), poll->begun_at_ns) < SETTLE_NS)
        return;
    end_labour(poll);
    begin_labour(poll);
}

static void call(struct poll *poll, struct watch *watch, uint32_t events) {
    bool moves = poll->begun_ns != 0 && watch->labours == 0;
    if (moves)
        end_labour(poll);
    if (watch->labours > 0 && watch->labours < LABOURS_ALWAYS)
        watch->labours--;
    watch->ready(watch, events);
    if (moves)
        begin_labour(poll);
}

enum turn { URGENT, GOING_ON, ENDING, TURN_COUNT };

/* Who waits for a byte doesn't wait for the end of another connection. */
static enum turn turn_of(const struct watch *watch, uint32_t events) {
    if (watch->urgent)
        return URGENT;
    return (events & (EPOLLRDHUP | EPOLLHUP | EPOLLERR)) == 0 ? GOING_ON : ENDING;
}

static void call_ready(struct poll *poll, const struct epoll_event *events, int count, enum turn turn) {
    for (int i = 0; i < count; i++) {
        struct watch *watch = events[i].data.ptr;
        if (turn_of(watch, events[i].events) != turn || watch->fd < 0)
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

/* One alarm stands for all the waits that come before it: a timer of each wait's own would have to be set and
 * taken back with it, which costs more than the rest of the call. It may go off for nothing. */
static int set_alarm(struct poll *poll, int timeout_ms) {
    if (timeout_ms <= 0)
        return timeout_ms;
    uint64_t now = now_ns(), at = now + (uint64_t)timeout_ms * PIN_NS_PER_MS;
    if (poll->alarm_ns > now && poll->alarm_ns <= at)
        return -1;
    struct itimerspec when = {
        .it_value = {.tv_sec = (time_t)(at / PIN_NS_PER_S), .tv_nsec = (long)(at % PIN_NS_PER_S)}
    };
    if (timerfd_settime(poll->alarm.fd, TFD_TIMER_ABSTIME, &when, NULL) != 0)
        return timeout_ms;
    poll->alarm_ns = at;
    return -1;
}

static void alarm_ready(struct watch *watch, uint32_t events) {
    (void)events;
    container_of(watch, struct poll, alarm)->handled--;
}

bool poll_open(struct poll *poll) {
    effort_open(&poll->effort);
    poll->epoll = epoll_create1(EPOLL_CLOEXEC);
    poll->alarm = (struct watch){.fd = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK),
                                 .ready = alarm_ready};
    /* Once for each time that it goes off, without a read. */
    return poll->epoll >= 0 && poll->alarm.fd >= 0 && poll_want(poll, &poll->alarm, EPOLLIN | EPOLLET);
}

void poll_shut(struct poll *poll) {
    poll_close(&poll->alarm);
    if (poll->epoll >= 0)
        (void)close(poll->epoll);
    poll->epoll = -1;
}

void poll_expect(struct poll *poll) {
    poll->expects = true;
}

static int wait_asleep(struct poll *poll, struct epoll_event *events, int timeout_ms) {
    return epoll_wait(poll->epoll, events, ROUND_MAX, set_alarm(poll, timeout_ms));
}

static int wait_awake(struct poll *poll, struct epoll_event *events, uint64_t since) {
    int count = epoll_wait(poll->epoll, events, ROUND_MAX, 0);
    while (count == 0 && elapsed_ns(now_ns(), since) < POLL_AWAKE_NS) {
        (void)sched_yield();
        count = epoll_wait(poll->epoll, events, ROUND_MAX, 0);
    }
    return count;
}

/* What was expected and came late isn't waited for in this way the next time, until one has come soon again:
 * another host's answers come late, one service's on this host soon. */
static int wait_expecting(struct poll *poll, struct epoll_event *events, int timeout_ms) {
    uint64_t since = now_ns();
    bool awake = !poll->is_far && timeout_ms != 0 && effort_is_plenty(&poll->effort, since);
    int count = awake ? wait_awake(poll, events, since) : 0;
    if (count == 0)
        count = wait_asleep(poll, events, timeout_ms);
    poll->is_far = elapsed_ns(now_ns(), since) >= (awake ? POLL_AWAKE_NS : FAR_NS);
    poll->expects = false;
    return count;
}

bool poll_round(struct poll *poll, int timeout_ms) {
    struct epoll_event events[ROUND_MAX];
    int count =
        poll->expects ? wait_expecting(poll, events, timeout_ms) : wait_asleep(poll, events, timeout_ms);
    if (count < 0 && errno != EINTR)
        return false;
    poll->handled = count > 0 ? count : 0;
    change_labour(poll, events, count);
    for (enum turn turn = URGENT; turn < TURN_COUNT; turn++)
        call_ready(poll, events, count, turn);
    release_buried(poll);
    settle_labour(poll);
    if (poll->parked != NULL && !effort_is_spent(&poll->effort, now_ns()))
        unpark_all(poll);
    return true;
}

uint64_t now_ns(void) {
    struct timespec now;
    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * PIN_NS_PER_S + (uint64_t)now.tv_nsec;
}
