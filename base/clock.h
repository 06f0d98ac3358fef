/* clock.h: moments of CLOCK_MONOTONIC, in nanoseconds; it stands still while the host sleeps.
 */
#pragma once

#include <stdint.h>

uint64_t pin_now_ns(void);
/* UINT64_MAX, a moment that never comes, where the sum is beyond it. */
uint64_t pin_later(uint64_t from_ns, uint64_t delay_ns);
