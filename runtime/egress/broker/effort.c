#include "runtime/egress/broker/effort.h"

#include <time.h>

#include "base/units.h"

#define ENOUGH_NS (5 * PIN_NS_PER_MS)

void effort_open(struct effort *effort) {
    *effort = (struct effort){
        .left = {.per_second = EFFORT_PER_SECOND_NS, .burst = EFFORT_BURST_NS}
    };
}

uint64_t effort_clock(void) {
    struct timespec spent;
    (void)clock_gettime(CLOCK_THREAD_CPUTIME_ID, &spent);
    return (uint64_t)spent.tv_sec * PIN_NS_PER_S + (uint64_t)spent.tv_nsec;
}

void effort_spend(struct effort *effort, uint64_t spent_ns, uint64_t now_ns) {
    uint64_t level = pin_bucket_level(&effort->left, now_ns);
    if (level == UINT64_MAX)
        return;
    effort->left.level -= spent_ns < level ? spent_ns : level;
    effort->is_spent = effort->is_spent || effort->left.level == 0;
}

bool effort_is_spent(struct effort *effort, uint64_t now_ns) {
    if (effort->is_spent && pin_bucket_level(&effort->left, now_ns) >= ENOUGH_NS)
        effort->is_spent = false;
    return effort->is_spent;
}

bool effort_is_plenty(struct effort *effort, uint64_t now_ns) {
    return pin_bucket_level(&effort->left, now_ns) > EFFORT_BURST_NS / 2;
}

int effort_timeout(struct effort *effort, uint64_t now_ns, int limit) {
    if (!effort_is_spent(effort, now_ns))
        return limit;
    uint64_t missing_ns = ENOUGH_NS - pin_bucket_level(&effort->left, now_ns);
    int ms = (int)(missing_ns * (PIN_NS_PER_S / EFFORT_PER_SECOND_NS) / PIN_NS_PER_MS) + 1;
    return limit >= 0 && limit < ms ? limit : ms;
}

void effort_lift(struct effort *effort) {
    *effort = (struct effort){.left = {.per_second = 0}};
}
