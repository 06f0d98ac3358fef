/* openings.h: connections that programs inside are about to open.
 *
 * The kernel holds each back until the broker has dialled: connect(2) then succeeds, or fails with what the
 * network said. What comes faster than it can be told of is accepted at once, as without this: then a failure
 * is a reset. Source: docs/egress.md.
 */
#pragma once

#include "runtime/egress/broker/broker.h"
#include "runtime/egress/broker/raw.h"
#include "runtime/egress/opening_packet.h"

/* -1: absent. */
bool openings_serve(struct broker *broker, int netlink, struct raw raw);
/* Lets it through to the listener. */
void openings_let_in(struct broker *broker, const struct pin_opening *opening);
/* connect(2) fails with this number, or the nearest that can be told; ETIMEDOUT: no answer is one. */
void openings_fail(struct broker *broker, const struct pin_opening *opening, int os_errno);
