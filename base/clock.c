#include "base/clock.h"

#include <time.h>

#include "base/units.h"

uint64_t pin_now_ns(void) {
    struct timespec now;
    (void)clock_gettime(CLOCK_MONOTONIC, &now); /* can't fail for this clock */
    return (uint64_t)now.tv_sec * PIN_NS_PER_S + (uint64_t)now.tv_nsec;
}

uint64_t pin_later(uint64_t from_ns, uint64_t delay_ns) {
    uint64_t sum;
    return __builtin_add_overflow(from_ns, delay_ns, &sum) ? UINT64_MAX : sum;
}
