/* lease.h: a slot of the state directory, taken for one sandbox after what dead owners left has been cleared.
 */
#pragma once

#include "runtime/build/cgroup/cgroup.h"
#include "runtime/state/slots.h"

/* Clears what dead owners left. What couldn't be cleared is told on standard error. */
bool pin_lease_sweep(int state_dir, struct pin_cgroup_facts *cgroups, struct pin_error *err);

/* Sweeps, claims a slot, and records where its cgroup will be when that doesn't follow from the slot's
 * number. What couldn't be cleared is no reason to refuse this run. */
bool pin_lease_take(int state_dir, struct pin_cgroup_facts *cgroups, struct pin_slot *slot,
                    struct pin_error *err);
