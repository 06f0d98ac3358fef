/* inside.h: the set-up child: from a fresh process in fresh namespaces to PID 1 behind every wall.
 *
 * The steps are one table, in the order in which privileges are used and given up; tests and `pinfold plan`
 * read it. Between clone3 and exec the child only makes system calls from the plan.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "runtime/build/engine.h"
#include "runtime/build/seccomp/compile.h"
#include "runtime/build/sources.h"
#include "runtime/plan/plan.h"

struct pin_inside {
    const struct pin_plan *plan;
    struct pin_host_sources *sources;
    const struct pin_program *filter;  /* filled in by the time of PIN_SYNC_EQUIPPED; NULL: there is none */
    const struct pin_program *ceiling; /* the same of the policy above an engine's bundle */
    int control;                       /* the child's end of the control socket */
    const struct pin_engine_build *engine; /* NULL: `pinfold run`, with an init of ours */
    struct pin_engine_groups *groups;      /* of an engine's container */
    bool has_loopback;                     /* it is up in the network that the child is born in */
    bool watched;                          /* the filter is one of watch.h */
    const uint64_t *ignored; /* set of signals that the caller has us ignore; filled in as the filter is */
};

/* Never returns: either init runs, or the failure has been sent and the process has ended. */
_Noreturn void pin_inside_run(const struct pin_inside *inside);

/* The names of the steps in their order, ended by NULL. */
const char *const *pin_inside_steps(void);
