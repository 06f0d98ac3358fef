/* leaf.h: a group below a sandbox's own, for one process tree of it that ends alone; and one more hierarchy
 * for a group that exists.
 *
 * A leaf is a struct pin_cgroup in one hierarchy: pids where there is one (its forks can then be stopped),
 * and the unified one on v2. Killing, asking whether it is empty, removing and freeing it are cgroup.h's. Who
 * lives in a leaf is still in the sandbox's groups: the sandbox's limits hold for all leaves together.
 */
#pragma once

#include "runtime/build/cgroup/cgroup.h"

/* NULL with an error; of kind UNSUPPORTED where the parent has no directory. `name` has no slash. */
struct pin_cgroup *pin_cgroup_leaf_create(const struct pin_cgroup *parent, const char *name,
                                          struct pin_error *err);

/* A file into which a process writes "0" to enter, by itself, with all its threads (v1: it has one alone).
 * Its opener's rights count, not the writer's: cgroup_procs_write() since Linux 5.16,
 * __cgroup1_procs_write(). -1 on failure; the caller closes it. */
int pin_cgroup_leaf_entrance(const struct pin_cgroup *leaf, struct pin_error *err);

/* Makes the group's directory in the hierarchy of `controller` too, and moves the process there. True without
 * doing anything where the group is in it already, or where the controller is of v2. */
bool pin_cgroup_join(struct pin_cgroup *group, const struct pin_cgroup_facts *facts,
                     enum pin_cgroup_controller controller, pid_t pid, struct pin_error *err);
