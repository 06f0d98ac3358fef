/* flows.h: UDP for rules that name it: one flow for each pair of a program's port and a destination.
 *
 * The first datagram of a flow is judged, its name resolved and screened, and a connected socket made; later
 * ones go through. Answers go back as packets that the broker puts together, because they must come from the
 * address that the program has sent to. A flow that is idle ends.
 */
#pragma once

#include "runtime/egress/broker/broker.h"

/* -1: absent; without `udp` none are served. */
bool flows_serve(struct broker *broker, int udp, int raw4, int raw6);
/* A datagram to port 53 of a destination that a rule names is no question to us. True: it was taken. */
bool flows_are_open(const struct broker *broker);
void flows_tick(struct broker *broker, uint64_t now);
void flows_judge_again(struct broker *broker);
