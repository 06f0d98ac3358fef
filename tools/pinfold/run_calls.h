/* run_calls.h: the system calls that a sandbox's filter denied, where its policy has them recorded
 * (audit.record).
 *
 * The filter then asks instead of denying: the kernel lets through what it lets through, and a thread of the
 * supervisor answers the rest as the filter would (runtime/watch). Each denial is kept once, with its count
 * and the answer of `policy why`. For `run`, kept sandboxes, tool calls and engines alike.
 */
#pragma once

#include <jansson.h>
#include <sys/types.h>

#include "policy/policy.h"
#include "runtime/bundle/bundle.h"

#define PIN_RUN_CALLS_MAX                                                                                    \
    1000 /* of one command: a loop over arguments fills no disk; the rest is counted                         \
          */

struct pin_run_calls; /* NULL: nothing is recorded */

/* Whether the sandbox's policy wants that. */
bool pin_run_calls_wanted(const struct pin_bundle *bundle);

struct pin_run_calls_given {
    const struct pin_policy *policy; /* borrowed, as all of this */
    const struct pin_filter *filter; /* that denies */
    int listener;                    /* open until the end */
    pid_t init;                      /* whose calls don't count; 0: everybody's do */
};

/* The sandbox is built, and its listener open. NULL on failure. */
struct pin_run_calls *pin_run_calls_start(const struct pin_run_calls_given *given, struct pin_error *err);
/* What was denied to that command of a kept sandbox, which is over: a list of {"denied": "syscall", "call",
 * "args", "times", "pointer", "place", "mend" or "reason", "why"}, and {"denied": "syscall", "dropped"} where
 * there was more. The caller owns it. */
json_t *pin_run_calls_take(struct pin_run_calls *calls, uint32_t number);
/* Its processes are dead: the same of all that wasn't taken. NULL is fine. */
json_t *pin_run_calls_end(struct pin_run_calls *calls);
