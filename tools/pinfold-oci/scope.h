/* scope.h: a container's cgroup from systemd, for engines whose cgroup manager it is.
 *
 * "slice:prefix:name" becomes the unit prefix-name.scope, whose cgroup systemd makes and hands over; the
 * container lies one level below, where systemd's own settings of the unit don't reach. A process of ours
 * holds the unit until the container is in it. On version 1 and on hybrid hosts the container is in the unit
 * in each hierarchy, also in those that systemd makes no groups in (freezer, cpuset), and its limits are
 * written there. Source: systemd's CGROUP_DELEGATION; runc and crun for the form of the path.
 */
#pragma once

#include "tools/pinfold-oci/common.h"

struct pin_oci_scope {
    pid_t holder;               /* 0: none */
    char folder[PATH_MAX];      /* of the holder, absolute; "": the unit's own group */
    char path[PIN_CGROUP_PATH]; /* of the container's group, from "/" */
};

/* By the bundle's cgroupsPath, and with the properties that its annotations ask for. */
bool pin_oci_scope_make(const struct pin_cgroup_facts *cgroups, const struct pin_bundle *bundle,
                        const char *id, struct pin_oci_scope *scope, struct pin_error *err);
/* Where that unit's cgroup is to be, from the top of the hierarchies: a slice lies in those that its name
 * starts with. NULL on failure. */
const char *pin_oci_scope_place(const char *asked, const char *id, struct pin_arena *arena,
                                struct pin_error *err);
/* The holder goes: a unit without a container ends by itself. */
void pin_oci_scope_release(struct pin_oci_scope *scope);
