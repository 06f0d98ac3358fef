/* stats.h: what a container uses, as `events` prints it, with runc's keys.
 *
 * What the kernel doesn't count in this version of its cgroups is left out, as runc leaves it out.
 */
#pragma once

#include <stddef.h>

#include <jansson.h>

#include "runtime/build/cgroup/cgroup.h"

/* The member `data` of an event of type "stats", a new reference. */
json_t *pin_oci_stats(const struct pin_cgroup *group, const struct pin_cgroup_usage *used, size_t processes);
