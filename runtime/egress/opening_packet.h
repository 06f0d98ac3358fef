/* opening_packet.h: the segment by which a program inside opens a connection, and the answers to it.
 *
 * The segment is kept while the broker dials, and then sent once more, for the kernel to accept the
 * connection; or it is answered as a host would that refuses, or a router that knows no way, so that
 * connect(2) fails as it should. What comes is a packet that a program may have made up; only its addresses,
 * its ports, its number and its options are used. Pure. Source: RFC 9293 3.1 and 3.10.7.3, RFC 792, RFC
 * 4443 3.1.
 */
#pragma once

#include <stdbool.h>

#include "runtime/egress/ip_packet.h"

#define PIN_OPENING_SEGMENT_MAX 60
#define PIN_OPENING_PACKET_MAX (2 * PIN_IP_HEAD_MAX + PIN_OPENING_SEGMENT_MAX)

struct pin_opening {
    struct pin_ip_end from, to;
    uint8_t segment[PIN_OPENING_SEGMENT_MAX]; /* the header with its options; 20 bytes at least */
    size_t size;
};

/* False: it isn't one. */
bool pin_opening_read(const uint8_t *packet, size_t size, struct pin_opening *opening);
bool pin_opening_is(const struct pin_opening *opening, const struct pin_ip_end *from,
                    const struct pin_ip_end *to);

/* Whole packets; their size. */
size_t pin_opening_again(const struct pin_opening *opening, uint8_t packet[PIN_OPENING_PACKET_MAX]);
size_t pin_opening_reset(const struct pin_opening *opening, uint8_t packet[PIN_OPENING_PACKET_MAX]);
/* The host, or with `network` all of its network, can't be reached. */
size_t pin_opening_unreachable(const struct pin_opening *opening, bool network,
                               uint8_t packet[PIN_OPENING_PACKET_MAX]);
