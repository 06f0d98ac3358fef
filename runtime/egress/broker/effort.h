/* effort.h: how much of a processor programs inside may make the broker spend, beside moving their bytes.
 *
 * What asks for it (questions, openings, refusals) is cheap to send and is paid for outside the sandbox's own
 * share. So the time of that work is measured, and past half of one processor, after a first half of a
 * second, what asks waits: then it fills its socket, in the sandbox's own time. Pure but for the clock of
 * the thread.
 */
#pragma once

#include "runtime/egress/bucket.h"

#define EFFORT_PER_SECOND_NS UINT64_C(500000000)
#define EFFORT_BURST_NS EFFORT_PER_SECOND_NS

struct effort {
    struct pin_bucket left; /* nanoseconds of processor time */
    bool is_spent;
};

void effort_open(struct effort *effort);
uint64_t effort_clock(void); /* the thread's processor time, ns */
void effort_spend(struct effort *effort, uint64_t spent_ns, uint64_t now_ns);
/* From when nothing is left until there is enough for a few rounds. */
bool effort_is_spent(struct effort *effort, uint64_t now_ns);
/* More than half of what may be spent at once is there. */
bool effort_is_plenty(struct effort *effort, uint64_t now_ns);
/* When to look again, in ms, at most `limit` (-1: none). */
int effort_timeout(struct effort *effort, uint64_t now_ns, int limit);
/* There is no bound any more: nothing inside can ask. */
void effort_lift(struct effort *effort);
