/* report.h: the broker's events on their way out, with a bound on how many.
 *
 * What happens again and again becomes one record with a count; past a rate, records of one kind are added up
 * in one without a name. So no loop inside fills the audit log, and no event goes uncounted. Never blocks but
 * at the end: what the socket doesn't take is counted and said later.
 */
#pragma once

#include "runtime/egress/bucket.h"
#include "runtime/egress/event.h"

#define REPORT_RECENT 64
#define REPORT_QUEUE 32

struct report {
    int socket;
    bool waits;                       /* for whoever reads, at the end: nothing could be said later */
    struct pin_bucket rate, refusals; /* these count in both */
    struct recent {
        struct pin_egress_event event; /* `repeated` counts what was held back */
        uint64_t since_ns;             /* 0: an empty place */
    } recent[REPORT_RECENT];
    struct pin_egress_event sums[PIN_EGRESS_EVENT_COUNT]; /* past the rate; `repeated` 0: none */
    uint64_t flushed_ns;
    uint64_t passed_out, passed_in;              /* since the start; every record says it */
    uint64_t told_out, told_in;                  /* by the last one */
    struct pin_egress_event queue[REPORT_QUEUE]; /* sent together: each datagram wakes the supervisor */
    size_t queued;
    uint64_t queued_ns; /* since when the first one waits */
};

void report_open(struct report *report, int socket);
void report_event(struct report *report, const struct pin_egress_event *event, uint64_t now_ns);
/* Sends what was held back long enough. */
void report_tick(struct report *report, uint64_t now_ns);
/* Sends all that was held back, then this at once: what comes before it is told of in other terms. */
void report_turn(struct report *report, const struct pin_egress_event *event, uint64_t now_ns);
/* … the same without a last one. */
void report_settle(struct report *report, uint64_t now_ns);
/* … or all of it. */
void report_flush(struct report *report);
/* … and waits until there is room for it: the last word. Who doesn't read it ends the process. */
void report_close(struct report *report);
/* When to tick again, in ms, at most `limit` (-1: none). */
int report_timeout(const struct report *report, uint64_t now_ns, int limit);
