/* leaf.h: a group below a sandbox's own, for one process tree of it that ends alone; and one more hierarchy
 * for a group that exists.
 *
 * A leaf is a struct pin_cgroup with one directory on v2. On v1 it is in pids (its forks can be stopped
 * there), in memory and in cpuacct, so that it counts what its processes use. Killing, asking whether it is
 * empty, removing and freeing it are cgroup.h's. Who lives in a leaf is still in the sandbox's groups: the
 * sandbox's limits hold for all leaves together.
 */
#pragma once

#include "runtime/build/cgroup/cgroup.h"

#define PIN_CGROUP_LEAF_DIRS 3

/* NULL with an error; of kind UNSUPPORTED where the parent has no directory. `name` has no slash. */
struct pin_cgroup *pin_cgroup_leaf_create(const struct pin_cgroup *parent, const char *name,
                                          struct pin_error *err);

/* Files into each of which a process writes "0" to enter, by itself, with all its threads (v1: it has one
 * alone). Their opener's rights count, not the writer's: cgroup_procs_write() since Linux 5.16,
 * __cgroup1_procs_write(). Their number, or -1; the caller closes them. */
int pin_cgroup_leaf_entrances(const struct pin_cgroup *leaf, int files[PIN_CGROUP_LEAF_DIRS],
                              struct pin_error *err);

/* Makes an empty leaf count from here for one more process tree: its peak of memory is set back, and *start
 * is what has to be taken off its CPU time. False where the next tree's figures would be blurred by those
 * before: there was more than one process at a time, one was killed for want of memory, more memory is still
 * charged than PIN_CGROUP_LEAF_LEFT, or the kernel can't set peaks back (v2; v1 always can). It must not have
 * been killed: a killed one lets nobody fork. */
#define PIN_CGROUP_LEAF_LEFT                                                                                 \
    ((uint64_t)512 * 1024) /* the kernel charges some pages ahead for each processor */
bool pin_cgroup_leaf_renew(const struct pin_cgroup *leaf, struct pin_cgroup_usage *start);

/* From here on what it counts is read from files that stay open, for a leaf that is used more than once: up
 * to five descriptors, closed with it. False when memory is out. */
bool pin_cgroup_leaf_keep_open(struct pin_cgroup *leaf);

/* On v2: moves init, the one process there is, into a leaf of its own, so that leaves count what they use. */
bool pin_cgroup_leaf_prepare(const struct pin_cgroup *parent, pid_t init, struct pin_error *err);

/* Makes the group's directory in the hierarchy of `controller` too, and moves the process there. True without
 * doing anything where the group is in it already, or where the controller is of v2. */
bool pin_cgroup_join(struct pin_cgroup *group, const struct pin_cgroup_facts *facts,
                     enum pin_cgroup_controller controller, pid_t pid, struct pin_error *err);
