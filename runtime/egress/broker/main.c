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
#include "runtime/egress/broker/dns.h"
#include "runtime/egress/broker/flows.h"
#include "runtime/egress/broker/refused.h"
#include "runtime/egress/broker/walls.h"
#include "runtime/egress/start.h"

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
    if (close_range(PIN_BROKER_FD_END, ~0u, 0) != 0)
        return pin_fail_errno(err, "close what was inherited");
    return true;
}

static void listener_ready(struct watch *watch, uint32_t events) {
    (void)events;
    struct listener *listener = container_of(watch, struct listener, watch);
    conn_accept(listener->broker, watch->fd);
    if (listener->broker->accept_paused)
        (void)poll_want(&listener->broker->poll, watch, 0);
}

static bool prepare(struct broker *broker, struct pin_error *err) {
    broker->names = pin_synthetic_new();
    broker->buffer = malloc(BROKER_BUFFER);
    if (broker->names == NULL || broker->buffer == NULL || !poll_open(&broker->poll))
        return pin_fail_errno(err, "prepare");
    return control_load_rules(broker, PIN_BROKER_RULES_FD, err) &&
           resolver_open(broker, secure_getenv("PINFOLD_RESOLV_CONF"), err);
}

static bool serve(struct broker *broker, struct listener *listener, struct pin_error *err) {
    const int *sockets = broker->sockets;
    *listener = (struct listener){
        .watch = {.fd = sockets[PIN_EGRESS_TCP], .ready = listener_ready},
          .broker = broker
    };
    bool served = dns_serve(broker, sockets[PIN_EGRESS_DNS_UDP], sockets[PIN_EGRESS_DNS_TCP]) &&
                  refused_serve(broker, sockets[PIN_EGRESS_REFUSED]) &&
                  flows_serve(broker, sockets[PIN_EGRESS_UDP], sockets[PIN_EGRESS_RAW_V4],
                              sockets[PIN_EGRESS_RAW_V6]) &&
                  control_serve(broker) && poll_want(&broker->poll, &listener->watch, EPOLLIN);
    return served || pin_fail_errno(err, "serve the sockets");
}

static int next_timeout(struct broker *broker) {
    int limit = -1;
    if (broker->conns != NULL || flows_are_open(broker))
        limit = TICK_MS;
    if (broker->throttled || broker->accept_paused)
        limit = FAST_TICK_MS;
    uint64_t now = now_ns();
    limit = report_timeout(&broker->report, now, limit);
    return dial_timeout(broker, now, resolver_timeout(broker->resolver, limit));
}

static void tick(struct broker *broker, struct listener *listener, uint64_t *last_ns) {
    uint64_t now = now_ns();
    resolver_tick(broker->resolver);
    dial_tick(broker, now);
    if (broker->accept_paused) {
        broker->accept_paused = false;
        (void)poll_want(&broker->poll, &listener->watch, EPOLLIN); /* fails as it did before: tried again */
    }
    report_tick(&broker->report, now);
    if (!broker->throttled && now - *last_ns < TICK_MS * PIN_NS_PER_MS)
        return;
    *last_ns = now;
    conn_tick(broker, now);
    flows_tick(broker, now);
}

static void run(struct broker *broker, struct listener *listener) {
    uint64_t last_ns = 0;
    while (!broker->ended && poll_round(&broker->poll, next_timeout(broker)))
        tick(broker, listener, &last_ns);
    conn_end_all(broker);
    flows_end_all(broker);
    report_flush(&broker->report);
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

int main(void) {
    static struct broker broker;
    static struct listener listener;
    struct pin_error err = {.kind = PIN_ERROR_NONE};
    struct pin_egress_event ready = {.kind = PIN_EGRESS_EVENT_READY, .rule = PIN_EGRESS_NO_RULE};
    uint32_t standing;
    (void)signal(SIGPIPE, SIG_IGN);
    report_open(&broker.report, PIN_BROKER_CONTROL_FD);
    /* Files are read before the walls; sockets, and what comes over them, behind them. */
    if (!take_descriptors(&broker, &err) || !prepare(&broker, &err) || !walls_raise(&standing, &err) ||
        !serve(&broker, &listener, &err)) {
        say_fault(&broker, &err);
        report_flush(&broker.report);
        return 1;
    }
    ready.os_errno = (int32_t)standing;
    report_event(&broker.report, &ready, now_ns());
    report_flush(&broker.report);
    run(&broker, &listener);
    return 0;
}
