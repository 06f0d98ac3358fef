/* pinfold-broker: holds the only way out of one sandbox's network. See docs/egress.md.
 *
 * Started by the supervisor with the descriptors of start.h and an empty environment. Not for people.
 */
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/units.h"
#include "runtime/egress/broker/conn.h"
#include "runtime/egress/broker/control.h"
#include "runtime/egress/broker/dns_service.h"
#include "runtime/egress/broker/entry.h"
#include "runtime/egress/broker/flows.h"
#include "runtime/egress/broker/inward.h"
#include "runtime/egress/broker/losses.h"
#include "runtime/egress/broker/openings.h"
#include "runtime/egress/broker/refused.h"
#include "runtime/egress/broker/walls.h"
#include "runtime/egress/start.h"

#define ACCEPT_ROUND 32 /* then the others have their turn */
#define TICK_MS 1000
#define FAST_TICK_MS 50

struct listener {
    struct watch watch;
    struct broker *broker;
};

static int present(int fd) {
    return fcntl(fd, F_GETFD) >= 0 ? fd : -1;
}

/* First of all: any descriptor opened later could have the number of one that wasn't handed over. */
static bool take_descriptors(struct broker *broker, struct pin_error *err) {
    for (int i = 0; i < PIN_EGRESS_SOCKET_COUNT; i++)
        broker->sockets[i] = present(PIN_BROKER_SOCKET_FD + i);
    broker->life = present(PIN_BROKER_LIFE_FD);
    broker->door = present(PIN_BROKER_DOOR_FD);
    for (int i = 0; i < PIN_PUBLISH_MAX; i++)
        broker->listeners[i] = present(PIN_BROKER_LISTENER_FD + i);
    if (close_range(PIN_BROKER_FD_END, ~0u, 0) != 0)
        return pin_fail_errno(err, "close what was inherited");
    return true;
}

static void listener_ready(struct watch *watch, uint32_t events) {
    (void)events;
    struct listener *listener = container_of(watch, struct listener, watch);
    entry_accept(listener->broker, watch->fd, ACCEPT_ROUND);
    if (listener->broker->accept_paused)
        (void)poll_want(&listener->broker->poll, watch, 0);
}

static bool is_inward(const struct broker *broker) {
    return broker->door >= 0;
}

static bool prepare(struct broker *broker, struct pin_error *err) {
    broker->names = pin_synthetic_new();
    broker->buffer = malloc(BROKER_BUFFER);
    broker->pipes.spare = PIPE_NONE;
    if (broker->names == NULL || broker->buffer == NULL || !poll_open(&broker->poll))
        return pin_fail_errno(err, "prepare");
    if (!control_load_rules(broker, PIN_BROKER_RULES_FD, err))
        return false;
    if (is_inward(broker))
        return inward_join(broker->door, err);
    return resolver_open(broker, secure_getenv("PINFOLD_RESOLV_CONF"), err);
}

static bool raise_walls(const struct broker *broker, uint32_t *standing, struct pin_error *err) {
    uint16_t ports[PIN_PUBLISH_MAX];
    struct walls_joined joined = {.ports = ports};
    const struct pin_egress_rules *rules = &broker->rules;
    for (size_t i = 0; i < rules->allow_count && i < PIN_PUBLISH_MAX && rules->allow[i].port_count > 0; i++)
        ports[joined.count++] = rules->allow[i].ports[0].first;
    return walls_raise(is_inward(broker) ? &joined : NULL, standing, err);
}

static bool serve(struct broker *broker, struct listener *listener, struct pin_error *err) {
    const int *sockets = broker->sockets;
    const struct raw answers = {sockets[PIN_EGRESS_RAW_V4], sockets[PIN_EGRESS_RAW_V6]},
                     openings = {sockets[PIN_EGRESS_OPEN_V4], sockets[PIN_EGRESS_OPEN_V6]};
    if (is_inward(broker))
        return (inward_serve(broker) && control_serve(broker)) || pin_fail_errno(err, "serve the ports");
    *listener = (struct listener){
        .watch = {.fd = sockets[PIN_EGRESS_TCP],
                  .ready = listener_ready,
                  .inlet = true,
                  .labours = LABOURS_ALWAYS},
        .broker = broker
    };
    bool served = dns_serve(broker, sockets[PIN_EGRESS_DNS_UDP], sockets[PIN_EGRESS_DNS_TCP]) &&
                  refused_serve(broker, sockets[PIN_EGRESS_REFUSED]) &&
                  flows_serve(broker, sockets[PIN_EGRESS_UDP], answers) &&
                  openings_serve(broker, sockets[PIN_EGRESS_OPENINGS], openings) && control_serve(broker) &&
                  poll_want(&broker->poll, &listener->watch, EPOLLIN);
    return served || pin_fail_errno(err, "serve the sockets");
}

static int next_timeout(struct broker *broker) {
    int limit = -1;
    if (broker->conns != NULL || broker->services != NULL || flows_are_open(broker))
        limit = TICK_MS;
    if (broker->throttled || broker->accept_paused)
        limit = FAST_TICK_MS;
    uint64_t now = now_ns();
    limit = report_timeout(&broker->report, now, limit);
    limit = poll_timeout(&broker->poll, now, limit);
    return is_inward(broker) ? limit : dial_timeout(broker, now, resolver_timeout(broker->resolver, limit));
}

static void tick(struct broker *broker, struct listener *listener, uint64_t *last_ns) {
    uint64_t now = now_ns();
    if (broker->resolver != NULL)
        resolver_tick(broker->resolver);
    service_tick(broker, now);
    dial_tick(broker, now);
    if (broker->accept_paused) {
        broker->accept_paused = false;
        inward_resume(broker);
        if (!is_inward(broker))
            (void)poll_want(&broker->poll, &listener->watch,
                            EPOLLIN); /* fails as it did before: tried again */
    }
    losses_tick(broker, now);
    report_tick(&broker->report, now);
    if (!broker->throttled && now - *last_ns < TICK_MS * PIN_NS_PER_MS)
        return;
    *last_ns = now;
    conn_tick(broker, now);
    flows_tick(broker, now);
}

/* What the programs have sent and left behind still goes out, as it would from the kernel's own hands; nobody
 * waits for an answer to it. What they had just been let in with is accepted in the first rounds. */
static void drain(struct broker *broker, struct listener *listener, uint64_t *last_ns) {
    uint64_t until = now_ns() + pin_broker_drain_ns(&broker->accounts.own.limits), now;
    broker->is_draining = true;
    poll_lift(&broker->poll);
    conn_leave_answers(broker);
    while (!broker->is_cut && (now = now_ns()) < until) {
        bool waits = conn_is_under_way(broker) || flows_are_waiting(broker);
        int most = waits ? (int)((until - now) / PIN_NS_PER_MS) + 1 : 0, timeout = next_timeout(broker);
        if (!poll_round(&broker->poll, timeout >= 0 && timeout < most ? timeout : most))
            return;
        tick(broker, listener, last_ns);
        if (!waits && broker->poll.handled == 0)
            return;
    }
}

static void say_fault(struct broker *broker, const struct pin_error *err) {
    struct pin_egress_event event = {
        .kind = PIN_EGRESS_EVENT_FAULT, .rule = PIN_EGRESS_NO_RULE, .os_errno = err->os_errno};
    for (; err->message[event.name_size] != '\0' && event.name_size < sizeof(event.name) - 1;
         event.name_size++) {
        char c = err->message[event.name_size];
        event.name[event.name_size] = c > ' ' && c < 0x7f ? c : '_';
    }
    report_event(&broker->report, &event, now_ns());
}

/* False: it couldn't go on. */
static bool run(struct broker *broker, struct listener *listener) {
    uint64_t last_ns = 0;
    struct pin_error err = {.kind = PIN_ERROR_NONE};
    bool waited = true;
    while (!broker->ended && (waited = poll_round(&broker->poll, next_timeout(broker))))
        tick(broker, listener, &last_ns);
    if (!waited) {
        (void)pin_fail_errno(&err, "wait for events");
        say_fault(broker, &err);
    }
    drain(broker, listener, &last_ns);
    conn_end_all(broker);
    flows_end_all(broker);
    losses_tell(broker);
    report_close(&broker->report);
    return waited;
}

int main(void) {
    static struct broker broker;
    static struct listener listener;
    struct pin_error err = {.kind = PIN_ERROR_NONE};
    struct pin_egress_event ready = {.kind = PIN_EGRESS_EVENT_READY, .rule = PIN_EGRESS_NO_RULE};
    uint32_t standing;
    (void)signal(SIGPIPE, SIG_IGN);
    report_open(&broker.report, PIN_BROKER_CONTROL_FD);
    /* Files are read before the walls; sockets, and what comes over them, behind them. */
    if (!take_descriptors(&broker, &err) || !prepare(&broker, &err) ||
        !raise_walls(&broker, &standing, &err) || !serve(&broker, &listener, &err)) {
        say_fault(&broker, &err);
        report_flush(&broker.report);
        return 1;
    }
    ready.os_errno = (int32_t)standing;
    report_event(&broker.report, &ready, now_ns());
    report_flush(&broker.report);
    return run(&broker, &listener) ? 0 : 1;
}
