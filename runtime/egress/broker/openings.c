#include "runtime/egress/broker/openings.h"

#include <errno.h>
#include <stddef.h>
#include <stdlib.h>
#include <sys/socket.h>

#include "runtime/egress/broker/entry.h"
#include "runtime/egress/refused_packet.h"

struct openings {
    struct watch watch;
    struct broker *broker;
    struct raw raw;
    unsigned let_in; /* while the last ones were read */
};

void openings_let_in(struct broker *broker, const struct pin_opening *opening) {
    uint8_t packet[PIN_OPENING_PACKET_MAX];
    raw_send(broker->openings->raw, &opening->to, packet, pin_opening_again(opening, packet));
    broker->openings->let_in++;
}

void openings_fail(struct broker *broker, const struct pin_opening *opening, int os_errno) {
    uint8_t packet[PIN_OPENING_PACKET_MAX];
    size_t size;
    switch (os_errno) {
    case ETIMEDOUT: return;
    case ENETUNREACH: size = pin_opening_unreachable(opening, true, packet); break;
    case EHOSTUNREACH: size = pin_opening_unreachable(opening, false, packet); break;
    default: size = pin_opening_reset(opening, packet);
    }
    raw_send(broker->openings->raw, &opening->from, packet, size);
}

/* What was let in at once waits to be accepted already: a round of its own would only cost time. What else
 * has come is still there in the next one. */
static void openings_ready(struct watch *watch, uint32_t events) {
    (void)events;
    struct openings *openings = container_of(watch, struct openings, watch);
    _Alignas(8) uint8_t data[4096];
    ssize_t size = recv(openings->watch.fd, data, sizeof(data), MSG_DONTWAIT);
    if (size <= 0)
        return; /* ENOBUFS: what was lost is sent again after a second */
    const uint8_t *at = data, *packet;
    size_t packet_size;
    struct pin_opening opening;
    openings->let_in = 0;
    while (pin_refused_next(&at, data + size, &packet, &packet_size))
        if (packet != NULL && pin_opening_read(packet, packet_size, &opening))
            entry_open(openings->broker, &opening);
    entry_accept(openings->broker, openings->broker->sockets[PIN_EGRESS_TCP], openings->let_in);
}

bool openings_serve(struct broker *broker, int netlink, struct raw raw) {
    if (netlink < 0)
        return true;
    struct openings *openings = calloc(1, sizeof(*openings)); /* lives as long as the process */
    if (openings == NULL)
        return false;
    *openings = (struct openings){
        .watch = {.fd = netlink,
                  .ready = openings_ready,
                  .urgent = true,
                  .inlet = true,
                  .labours = LABOURS_ALWAYS},
        .broker = broker,
        .raw = raw
    };
    broker->openings = openings;
    return poll_want(&broker->poll, &openings->watch, EPOLLIN);
}
