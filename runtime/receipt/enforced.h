/* enforced.h: what the kernel says about a sandbox that has been set up.
 *
 * Nothing here is taken from the plan or the policy: it is read from /proc/PID of init, and from its cgroups,
 * after the last wall is up and before the command is started. docs/audit.md "Receipts".
 */
#pragma once

#include <sys/types.h>

#include <jansson.h>

#include "base/error.h"
#include "runtime/build/cgroup/cgroup.h"

/* Waits until init says on its control socket that it is ready, and leaves the message there. False, without
 * an error, when something else came first: whoever reads the socket will find out. */
bool pin_enforced_await(int control, struct pin_error *err);

/* The facts, which the caller owns. `group` may be NULL. NULL with an error where one can't be read. */
json_t *pin_enforced_read(pid_t init, const struct pin_cgroup *group, struct pin_error *err);
