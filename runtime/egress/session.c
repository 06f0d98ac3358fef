#include "runtime/egress/session.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/units.h"

#define END_WITHIN_MS 1000

struct pin_egress_plan pin_egress_plan_for(const struct pin_egress_rule *rules, size_t count) {
    struct pin_egress_plan plan = {.udp = false};
    for (size_t i = 0; i < count; i++) {
        plan.udp = plan.udp || rules[i].protocol == PIN_PROTOCOL_UDP;
        plan.addresses = plan.addresses || rules[i].host == NULL;
    }
    return plan;
}

bool pin_egress_session_start(struct pin_egress_session *session, const char *program,
                              const struct pin_egress_setup *setup, struct pin_egress_sockets *sockets,
                              struct pin_error *err) {
    struct pin_broker_options options = {
        .program = program,
        .resolv_conf = secure_getenv("PINFOLD_RESOLV_CONF"), /* the caller's own word about his own run */
        .setup = setup,
        .life = -1,
    };
    *session = PIN_EGRESS_SESSION_NONE;
    session->rules = setup->rules;
    session->started = pin_broker_start(&options, sockets, &session->broker, err);
    return session->started;
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

bool pin_egress_session_next(struct pin_egress_session *session, struct pin_egress_event *event) {
    if (pin_egress_session_fd(session) < 0)
        return false;
    switch (pin_broker_next(&session->broker, rule_count(session), event)) {
    case PIN_BROKER_NOTHING: return false;
    case PIN_BROKER_GONE: session->lost = session->broker.pid != 0; return false;
    case PIN_BROKER_EVENT: break;
    }
    if (event->kind == PIN_EGRESS_EVENT_REPLACED && session->is_replacing) {
        session->rules = session->next;
        session->is_replacing = false;
    }
    pin_egress_usage_add(&session->usage, event);
    if (event->kind == PIN_EGRESS_EVENT_FAULT)
        memcpy(session->fault, event->name, sizeof(session->fault));
    return true;
}

void pin_egress_session_end(struct pin_egress_session *session) {
    if (!session->started || session->broker.pid == 0)
        return;
    (void)shutdown(session->broker.control, SHUT_WR); /* it may be gone already */
    struct pollfd end = {.fd = session->broker.pidfd, .events = POLLIN};
    if (poll(&end, 1, END_WITHIN_MS) != 1)
        (void)syscall(SYS_pidfd_send_signal, session->broker.pidfd, SIGKILL, NULL, 0);
    while (waitpid(session->broker.pid, NULL, 0) < 0 && errno == EINTR)
        ;
    session->broker.pid = 0;
}

void pin_egress_session_free(struct pin_egress_session *session) {
    pin_egress_session_end(session);
    pin_close_fd(&session->broker.pidfd);
    pin_close_fd(&session->broker.control);
    session->started = false;
}
