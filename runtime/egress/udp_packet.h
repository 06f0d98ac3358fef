/* udp_packet.h: a UDP datagram as a whole IP packet, for a raw socket.
 *
 * Pure. Source: RFC 768, RFC 791 3.1, RFC 8200 3 and 8.1.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#define PIN_UDP_HEADERS_MAX 48
#define PIN_UDP_DATA_MAX 65000 /* of one datagram: it fits either kind of packet */

struct pin_udp_end {
    uint8_t address[16]; /* IPv4 mapped; both ends are of one family */
    uint16_t port;
};

/* Writes the headers into the bytes that end where `data` begins; returns how many. */
size_t pin_udp_packet_head(const struct pin_udp_end *from, const struct pin_udp_end *to, uint8_t *data,
                           size_t size);
