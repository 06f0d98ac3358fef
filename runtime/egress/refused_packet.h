/* refused_packet.h: where a refused packet wanted to go.
 *
 * Reads one netlink message of nfnetlink_log and the packet in it, which a program inside has made up as it
 * liked. Pure; no allocation. Source: nfnetlink_log.h, RFC 791 3.1, RFC 8200 3.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct pin_refused_packet {
    uint8_t address[16];
    uint8_t protocol; /* IPPROTO_… */
    uint16_t port;    /* 0: the protocol has none */
};

bool pin_refused_packet_read(const uint8_t *packet, size_t size, struct pin_refused_packet *refused);

/* The next message of a datagram; moves `*at`. False at its end. `*packet` is NULL for a message of another
 * kind. */
bool pin_refused_next(const uint8_t **at, const uint8_t *end, const uint8_t **packet, size_t *size);
