/* inside_table.h: the nftables table of a sandbox, as one netlink batch. Part of inside.h. */
#pragma once

#include "runtime/egress/inside.h"
#include "runtime/egress/netlink.h"

#define PIN_EGRESS_PORT 1 /* of the broker's listeners: low, so that no program inside wants it */
#define PIN_EGRESS_DNS_PORT 53
#define PIN_EGRESS_MARK                                                                                      \
    0x70696e66u /* of every packet that the broker's sockets send; setting it takes a capability */
#define PIN_EGRESS_OPEN_MARK                                                                                 \
    0x70696e6fu /* of a connection's first segment, when the broker sends it again                           \
                 */
#define PIN_EGRESS_LOG_GROUP 7
#define PIN_EGRESS_OPEN_GROUP 8 /* of connections that are held back */

/* One acknowledgement comes back. */
void pin_egress_table(struct pin_netlink *batch, const struct pin_egress_plan *plan);
