#include "runtime/egress/broker/refused.h"

#include <netinet/in.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "runtime/egress/refused_packet.h"

#define ROUND 64

struct refusals {
    struct watch watch;
    struct broker *broker;
};

/* An address that was never to be reached needs no rule to be refused; the judge says why all the same. */
static void note(struct broker *broker, const struct pin_refused_packet *packet) {
    struct pin_destination to = {
        .port = packet->port,
        .protocol = packet->protocol == IPPROTO_UDP ? PIN_PROTOCOL_UDP : PIN_PROTOCOL_TCP,
    };
    memcpy(to.address, packet->address, sizeof(to.address));
    const char *name = pin_synthetic_name(broker->names, to.address);
    if (name != NULL) {
        to.host = name;
        memset(to.address, 0, sizeof(to.address));
    }
    struct pin_verdict verdict = pin_egress_judge(&broker->rules, &to);
    bool is_other = packet->protocol != IPPROTO_TCP && packet->protocol != IPPROTO_UDP;
    if (verdict.allowed || (is_other && verdict.reason != PIN_EGRESS_DENY_RULE)) /* no rule can name it */
        verdict = (struct pin_verdict){.reason = PIN_EGRESS_PROTOCOL,
                                       .rule = verdict.allowed ? verdict.rule : NULL};
    struct pin_egress_event event = broker_event(broker, PIN_EGRESS_EVENT_REFUSE, &to, &verdict);
    event.other_protocol = is_other ? packet->protocol + 1u : 0;
    report_event(&broker->report, &event, now_ns());
}

static void refused_ready(struct watch *watch, uint32_t events) {
    (void)events;
    struct refusals *refusals = container_of(watch, struct refusals, watch);
    for (int i = 0; i < ROUND; i++) {
        _Alignas(8) uint8_t data[4096];
        ssize_t size = recv(watch->fd, data, sizeof(data), MSG_DONTWAIT);
        if (size <= 0)
            return; /* ENOBUFS: more was refused than we could read */
        const uint8_t *at = data, *packet;
        size_t packet_size;
        struct pin_refused_packet refused;
        while (pin_refused_next(&at, data + size, &packet, &packet_size))
            if (packet != NULL && pin_refused_packet_read(packet, packet_size, &refused))
                note(refusals->broker, &refused);
    }
}

bool refused_serve(struct broker *broker, int netlink) {
    if (netlink < 0)
        return true;
    struct refusals *refusals = calloc(1, sizeof(*refusals)); /* lives as long as the process */
    if (refusals == NULL)
        return false;
    *refusals = (struct refusals){
        .watch = {.fd = netlink, .ready = refused_ready, .inlet = true, .labours = LABOURS_ALWAYS},
        .broker = broker
    };
    return poll_want(&broker->poll, &refusals->watch, EPOLLIN);
}
