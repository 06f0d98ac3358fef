/* raw.h: packets that the broker puts together itself, with addresses that aren't its own, into the sandbox.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "runtime/egress/ip_packet.h"

struct raw { /* raw sockets of the sandbox's network namespace; borrowed */
    int v4, v6;
};

/* A packet that can't be sent is lost, as it may be on any network: whoever waits for it asks again. */
void raw_send(struct raw raw, const struct pin_ip_end *to, const uint8_t *packet, size_t size);
