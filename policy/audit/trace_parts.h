/* trace_parts.h: inside of trace_*.c. */
#pragma once

#include "policy/audit/trace.h"

/* A limit for a peak: `times` as much, rounded up to whole steps, at least one. */
uint64_t pin_trace_room(uint64_t peak, unsigned times, uint64_t step);

/* Notes for the reader, once each: what was used or tried and isn't granted, and why; what was tried in vain,
 * the edit that would grant it (NULL: none) and what else it opens (NULL: nothing). */
void pin_learned_withhold(struct pin_learned *learned, const char *what, const char *why);
void pin_learned_want(struct pin_learned *learned, const char *what, const char *edit, const char *note);

/* {"egress": […]}: the destinations that were reached, under the terms of the policy that is extended. */
json_t *pin_trace_learn_network(const struct pin_trace *trace, struct pin_learned *learned,
                                struct pin_arena *arena);

/* "connect HOST:PORT/udp ADDRESS" as a question; port 443 where only the name was asked for. */
const char *pin_trace_target_question(struct pin_arena *arena, const struct pin_recorded_target *target);
