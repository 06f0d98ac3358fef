/* trace_parts.h: inside of trace_*.c. */
#pragma once

#include "policy/audit/trace.h"

/* A limit for a peak: `times` as much, rounded up to whole steps, at least one. */
uint64_t pin_trace_room(uint64_t peak, unsigned times, uint64_t step);
