/* run_denials.h: what was denied while a run lasted, each with the answer of `pinfold policy why` ("why"):
 * what denied it, the line that says so, and the smallest edit that would allow it.
 *
 * For the audit log and the "denials" of a result: docs/results.md. Bounded: a loop inside fills no memory.
 */
#pragma once

#include <jansson.h>

#include "policy/policy.h"
#include "runtime/bundle/bundle.h"
#include "runtime/supervise/result.h"

#define PIN_DENIALS_MAX 256

struct pin_run_denials { /* zeroed at first */
    json_t *list;        /* NULL: none yet */
    uint64_t dropped;    /* for want of room */
};

/* Keeps the object too, where there is room. */
void pin_run_denials_add(struct pin_run_denials *denials, json_t *object);
/* An event of the broker's (runtime/egress/session.h): only refusals are kept. */
void pin_run_denials_egress(struct pin_run_denials *denials, const json_t *event);

struct pin_run_limits { /* that held, borrowed */
    const struct pin_bundle *bundle;
    const struct pin_policy *policy;
    uint64_t own_time_ns; /* what the command itself was given, below the policy; 0: nothing of its own */
};

/* The whole list, at its end the limits that were hit, with an edit that doubles the limit: how much would
 * have been enough, nobody knows. The caller owns it. NULL: nothing was denied. */
json_t *pin_run_denials_finish(struct pin_run_denials *denials, const struct pin_run_limits *limits,
                               const struct pin_result *result);
