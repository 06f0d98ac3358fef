/* ip_packet.h: the parts that whole IP packets for a raw socket have in common.
 *
 * Pure. Both ends are of one family. Source: RFC 791 3.1, RFC 8200 3 and 8.1, RFC 1071.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#define PIN_IP_HEAD_MAX 40

struct pin_ip_end {
    uint8_t address[16]; /* IPv4 mapped */
    uint16_t port;
};

/* Writes the header of a packet with `size` bytes behind it; returns the header's size. */
size_t pin_ip_put_head(uint8_t *to, const struct pin_ip_end *from, const struct pin_ip_end *end,
                       uint8_t protocol, size_t size);
/* Over these bytes, and in front of them the addresses, the protocol and the size; `protocol` 0: over the
 * bytes alone. */
uint16_t pin_ip_checksum(const struct pin_ip_end *from, const struct pin_ip_end *end, uint8_t protocol,
                         const uint8_t *data, size_t size);
/* The ICMP error of this family that answers a packet of `from` to `to`, with `size` bytes behind its header
 * of which the first eight are `quoted`: from where it was sent to, in a whole packet. */
#define PIN_IP_QUOTED 8
#define PIN_IP_ERROR_MAX (PIN_IP_HEAD_MAX + 8 + PIN_IP_HEAD_MAX + PIN_IP_QUOTED)
struct pin_ip_error { /* destination unreachable, and why: the code of each family */
    uint8_t four, six;
};
size_t pin_ip_unreachable(uint8_t packet[PIN_IP_ERROR_MAX], const struct pin_ip_end *from,
                          const struct pin_ip_end *to, uint8_t protocol, const uint8_t *quoted, size_t size,
                          struct pin_ip_error why);
void pin_ip_put16(uint8_t *to, size_t value);
