/* order_egress.h: the order over the terms of destinations, where rules meet.
 *
 * Where several rules name a destination, one of them counts (egress_terms.h). Terms that don't cover each
 * other, such as TLS beside HTTP or two budgets, make that choice take something away: then a policy whose
 * rules are all granted by another's may do what that one, choosing, doesn't let through. Pure.
 */
#pragma once

#include "base/arena.h"
#include "policy/policy.h"

/* The rules of `inner` that `outer` grants, one by one, and that count at some destination for which another
 * rule of `outer` does, whose terms don't cover theirs. Their numbers,
 * in the arena; `*count` of them, each once. */
size_t *pin_egress_freer(struct pin_arena *arena, const struct pin_policy *inner,
                         const struct pin_policy *outer, size_t *count);
