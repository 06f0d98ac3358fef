/* cpuset.h: version 1 makes cpusets empty, and no process may enter an empty one; for this folder alone. */
#pragma once

#include "runtime/build/cgroup/group.h"

/* Gives the group and the folders above it, below `base`, the processors and memory nodes of their parents
 * where they have none. Source: admin-guide/cgroup-v1/cpusets.rst. */
bool pin_cgroup_cpuset_inherit(const struct pin_cgroup *group, const char *base, struct pin_error *err);
