/* losses.h: what was sent to the broker faster than it reads, and what the kernel has dropped therefore:
 * questions, and reports of refused packets. Each is a refusal, and counted as one; the kernel knows how
 * many.
 */
#pragma once

#include "runtime/egress/broker/broker.h"

/* Looks each second. */
void losses_tick(struct broker *broker, uint64_t now_ns);
/* What there is by now. */
void losses_tell(struct broker *broker);
