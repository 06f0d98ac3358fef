/* run_calls.h: the system calls that a run's filter denied, where its policy has them recorded
 * (audit.record).
 *
 * The filter then asks instead of denying: the kernel lets through what it lets through, and the supervisor
 * answers the rest as the filter would (runtime/watch). Each denial is kept once, with its count and its
 * verdict.
 */
#pragma once

#include <jansson.h>

#include "runtime/build/build.h"
#include "tools/pinfold/front.h"

struct pin_run_calls; /* what one run owns; NULL: nothing is recorded */

/* Whether the run's policy wants that. */
bool pin_run_calls_wanted(const struct pin_bundle *bundle);

/* The sandbox is built, and its listener open. NULL on failure. */
struct pin_run_calls *pin_run_calls_start(const struct pin_front *front, const struct pin_sandbox *sandbox,
                                          struct pin_error *err);
/* Its processes are dead: a list of {"denied": "syscall", "call", "args", "times", "pointer", "place",
 * "mend"}, which the caller owns. NULL is fine. */
json_t *pin_run_calls_end(struct pin_run_calls *calls);
