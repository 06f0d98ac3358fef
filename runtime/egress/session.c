#include "runtime/egress/session.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/names.h"
#include "base/units.h"

#define END_WITHIN_MS 3000 /* of one that has nothing more to pass on; thousands of connections take some */
#define LOOK_EVERY_MS 100

struct pin_egress_plan pin_egress_plan_for(const struct pin_egress_rule *rules, size_t count) {
    struct pin_egress_plan plan = {.udp = false};
    for (size_t i = 0; i < count; i++) {
        plan.udp = plan.udp || rules[i].protocol == PIN_PROTOCOL_UDP;
        plan.addresses = plan.addresses || rules[i].host == NULL;
    }
    return plan;
}

static bool start(struct pin_egress_session *session, const struct pin_broker_options *options,
                  struct pin_egress_sockets *sockets, struct pin_error *err) {
    *session = PIN_EGRESS_SESSION_NONE;
    session->rules = options->setup->rules;
    session->drain_ns = pin_broker_drain_ns(&options->setup->limits);
    session->started = pin_broker_start(options, sockets, &session->broker, err);
    return session->started;
}

bool pin_egress_session_start(struct pin_egress_session *session, const char *program,
                              const struct pin_egress_setup *setup, struct pin_egress_sockets *sockets,
                              struct pin_error *err) {
    struct pin_broker_options options = {
        .program = program,
        .resolv_conf = secure_getenv("PINFOLD_RESOLV_CONF"), /* the caller's own word about his own run */
        .setup = setup,
        .life = -1,
        .door = -1,
    };
    return start(session, &options, sockets, err);
}

bool pin_egress_session_publish(struct pin_egress_session *session, const char *program,
                                const struct pin_egress_setup *setup, int door, const int *listeners,
                                struct pin_error *err) {
    struct pin_egress_sockets none = PIN_EGRESS_SOCKETS_NONE;
    struct pin_broker_options options = {
        .program = program, .setup = setup, .life = -1, .door = door, .listeners = listeners};
    return start(session, &options, &none, err);
}

bool pin_egress_session_replace(struct pin_egress_session *session, const struct pin_egress_setup *setup,
                                struct pin_error *err) {
    if (pin_egress_session_fd(session) < 0)
        return pin_fail(err, PIN_ERROR_UNSUPPORTED, "the sandbox has no egress broker");
    if (session->is_replacing)
        return pin_fail(err, PIN_ERROR_BUSY, "the last change isn't in force yet; try again");
    if (!pin_broker_replace(&session->broker, setup, err))
        return false;
    session->next = setup->rules;
    session->drain_ns = pin_broker_drain_ns(&setup->limits);
    session->is_replacing = true;
    return true;
}

/* An event names a rule of the list that was in force when it was sent: both are possible for a while. */
static size_t rule_count(const struct pin_egress_session *session) {
    size_t now = session->rules.allow_count + session->rules.deny_count;
    size_t next = session->is_replacing ? session->next.allow_count + session->next.deny_count : 0;
    return now > next ? now : next;
}

int pin_egress_session_fd(const struct pin_egress_session *session) {
    return session->started && !session->lost ? session->broker.control : -1;
}

bool pin_egress_session_is_lost(const struct pin_egress_session *session) {
    return session->lost || session->was_killed;
}

void pin_egress_session_settle(struct pin_egress_session *session) {
    if (pin_egress_session_fd(session) >= 0)
        pin_broker_settle(&session->broker);
}

static uint64_t as_ns(struct timeval time) {
    return (uint64_t)time.tv_sec * PIN_NS_PER_S + (uint64_t)time.tv_usec * 1000;
}

/* So far; its end says it exactly. */
static void take_cpu(struct pin_egress_session *session) {
    clockid_t clock;
    struct timespec spent;
    if (session->broker.pid > 0 && clock_getcpuclockid(session->broker.pid, &clock) == 0 &&
        clock_gettime(clock, &spent) == 0)
        session->usage.cpu_ns = (uint64_t)spent.tv_sec * PIN_NS_PER_S + (uint64_t)spent.tv_nsec;
}

/* One that is for the sums alone is nobody's business. */
static enum pin_broker_news next_told(struct pin_egress_session *session, struct pin_egress_event *event) {
    enum pin_broker_news news;
    while ((news = pin_broker_next(&session->broker, rule_count(session), event)) == PIN_BROKER_EVENT) {
        pin_egress_usage_add(&session->usage, event);
        take_cpu(session);
        if (event->kind != PIN_EGRESS_EVENT_BYTES)
            break;
    }
    return news;
}

bool pin_egress_session_next(struct pin_egress_session *session, struct pin_egress_event *event) {
    if (pin_egress_session_fd(session) < 0)
        return false;
    switch (next_told(session, event)) {
    case PIN_BROKER_NOTHING: return false;
    case PIN_BROKER_GONE: session->lost = session->lost || session->end_by_ns == 0; return false;
    case PIN_BROKER_EVENT: break;
    }
    if (event->kind == PIN_EGRESS_EVENT_REPLACED && session->is_replacing) {
        session->rules = session->next;
        session->is_replacing = false;
    }
    if (event->kind == PIN_EGRESS_EVENT_FAULT)
        memcpy(session->fault, event->name, sizeof(session->fault));
    return true;
}

/* False: there are events, which the broker waits for somebody to take, or it is time to look around. One
 * that is past its time, or has sent what can't be right, is killed, however much it has to say. */
static bool await_end(const struct pin_egress_session *session) {
    struct pollfd ends[] = {
        {.fd = session->broker.pidfd,   .events = POLLIN},
        {.fd = session->broker.control, .events = POLLIN}
    };
    for (uint64_t now; !session->lost && (now = pin_now_ns()) < session->end_by_ns;) {
        uint64_t left = (session->end_by_ns - now) / PIN_NS_PER_MS + 1;
        if (poll(ends, PIN_COUNT(ends), left < LOOK_EVERY_MS ? (int)left : LOOK_EVERY_MS) <= 0)
            return false;
        if (ends[0].revents != 0)
            return true;
        if ((ends[1].revents & POLLHUP) == 0)
            return false;
        ends[1].fd = -1; /* closed: only its end is missing */
    }
    (void)syscall(SYS_pidfd_send_signal, session->broker.pidfd, SIGKILL, NULL, 0); /* it may be dead */
    return true;
}

bool pin_egress_session_end(struct pin_egress_session *session, bool drains) {
    if (!session->started || session->broker.pid == 0)
        return true;
    if (session->end_by_ns == 0 || (session->is_draining && !drains)) {
        pin_broker_end(&session->broker, drains);
        session->is_draining = drains;
        session->end_by_ns = pin_now_ns() + (drains ? session->drain_ns : 0) + END_WITHIN_MS * PIN_NS_PER_MS;
    }
    if (!await_end(session))
        return false;
    struct rusage used;
    pid_t reaped;
    int status = 0;
    while ((reaped = wait4(session->broker.pid, &status, 0, &used)) < 0 && errno == EINTR)
        ;
    if (reaped > 0)
        session->usage.cpu_ns = as_ns(used.ru_utime) + as_ns(used.ru_stime);
    session->was_killed = reaped > 0 && WIFSIGNALED(status);
    session->broker.pid = 0;
    return true;
}

void pin_egress_session_free(struct pin_egress_session *session) {
    struct pin_egress_event unwanted;
    while (!pin_egress_session_end(session, false))
        while (pin_egress_session_next(session, &unwanted))
            ;
    pin_close_fd(&session->broker.pidfd);
    pin_close_fd(&session->broker.control);
    session->started = false;
}
