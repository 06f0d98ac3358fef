/* udp_packet.h: a UDP datagram as a whole IP packet, for a raw socket.
 *
 * Pure. Source: RFC 768.
 */
#pragma once

#include <stdbool.h>

#include "runtime/egress/ip_packet.h"

#define PIN_UDP_HEADERS_MAX 48
#define PIN_UDP_DATA_MAX 65527 /* of one datagram; IPv4 has room for 20 bytes less */

/* How much of it fits into one packet of this family on a loopback, whose packets have 64 KiB at most. */
size_t pin_udp_packet_most(const struct pin_ip_end *to);

/* What the sender of a datagram of `size` bytes is told: that its destination is forbidden, or that nobody is
 * there. */
size_t pin_udp_packet_refusal(const struct pin_ip_end *from, const struct pin_ip_end *to, size_t size,
                              bool forbidden, uint8_t packet[PIN_IP_ERROR_MAX]);

/* Writes the headers into the bytes that end where `data` begins; returns how many. */
size_t pin_udp_packet_head(const struct pin_ip_end *from, const struct pin_ip_end *to, uint8_t *data,
                           size_t size);
