/* facts.h: the cgroup hierarchies of this host, and where our groups may be made in them.
 *
 * Gathered before anything is decided: the parser is pure, so that a test can plan for a host that doesn't
 * exist. A controller is in one hierarchy at most, of version 1 or 2; a hybrid host has both versions, and
 * each controller is used where it is. Our groups are BASE/GROUP/N. For root BASE is the top of the hierarchy
 * that this mount shows. For an ordinary user it is the user's own, delegated cgroup. Source: cgroups(7),
 * cgroup_namespaces(7), the kernel's admin-guide/cgroup-v1 and cgroup-v2.rst.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"

enum pin_cgroup_controller {
    PIN_CGROUP_MEMORY,
    PIN_CGROUP_CPU,
    PIN_CGROUP_CPUACCT,
    PIN_CGROUP_PIDS,
    PIN_CGROUP_CPUSET,
    PIN_CGROUP_FREEZER,
    PIN_CGROUP_IO, /* "blkio" in version 1 */
    PIN_CGROUP_HUGETLB,
    PIN_CGROUP_DEVICES,
    PIN_CGROUP_NET_CLS,
    PIN_CGROUP_NET_PRIO,
    PIN_CGROUP_RDMA,
    PIN_CGROUP_MISC,
    PIN_CGROUP_CONTROLLER_COUNT
};
const char *pin_cgroup_controller_name(enum pin_cgroup_controller controller, bool v2);

enum pin_cgroup_kind {
    PIN_CGROUP_NONE,
    PIN_CGROUP_V1,
    PIN_CGROUP_HYBRID,
    PIN_CGROUP_V2,
    PIN_CGROUP_KIND_COUNT
};
const char *pin_cgroup_kind_name(enum pin_cgroup_kind kind); /* "none", "v1", "hybrid", "v2" */

#define PIN_CGROUP_HIERARCHIES 16
#define PIN_CGROUP_PATH 512

struct pin_cgroup_hierarchy {
    bool v2;
    bool read_only;              /* the mount: nothing can be made */
    bool usable;                 /* groups can be made below `base`, as far as is known */
    uint32_t controllers;        /* set of 1u << enum pin_cgroup_controller */
    char mount[PIN_CGROUP_PATH]; /* absolute on the host */
    char shown[PIN_CGROUP_PATH]; /* the cgroup that the mount shows at its top: "/" nearly always */
    char own[PIN_CGROUP_PATH]; /* this process's cgroup, as /proc/self/cgroup has it; "" = not visible here */
    char base[PIN_CGROUP_PATH]; /* absolute on the host; "" = there is none */
};

struct pin_cgroup_facts {
    enum pin_cgroup_kind kind;
    bool privileged; /* root: groups at the top */
    bool swap;       /* the host has swap space; without any, a swap limit of 0 holds by itself */
    char group[32];  /* the folder of our groups: see pin_state_tag() */
    size_t count;
    struct pin_cgroup_hierarchy hierarchies[PIN_CGROUP_HIERARCHIES];
    struct pin_cgroup_hierarchy tracking; /* systemd's of version 1, without controllers, in which it finds
                                             its units; no mount: there is none */
    bool in_unit; /* groups lie below a unit of systemd's, in the hierarchies without controllers too */
    int8_t where[PIN_CGROUP_CONTROLLER_COUNT]; /* index of the hierarchy, or -1 */
    int8_t unified;                            /* index of the v2 hierarchy, or -1 */
    char why[160], hint[160];                  /* of a host on which no group can be made; "" */
};

/* Pure: from the texts of /proc/self/mountinfo and /proc/self/cgroup. Lines that make no sense are passed
 * over; a host without cgroups is no error. The controllers of version 2 aren't in these texts: see
 * pin_cgroup_facts_unified(). */
void pin_cgroup_facts_parse(const char *mountinfo, const char *cgroup, bool privileged, const char *group,
                            struct pin_cgroup_facts *facts);

/* Pure: adds what the file cgroup.controllers of the v2 hierarchy's base says. Controllers of version 1 stay.
 */
void pin_cgroup_facts_unified(struct pin_cgroup_facts *facts, const char *controllers);

/* The same facts for a path that systemd has chosen: groups are at the top of version 2, whoever we are. With
 * version 1 they are in every hierarchy, systemd's own ones included: a unit whose processes are in none of
 * those has ended. */
void pin_cgroup_facts_at_top(struct pin_cgroup_facts *facts);

/* The part of `path`, a line of /proc/PID/cgroup, that lies below what the mount shows at its top: "" for the
 * top itself, NULL when it isn't below it. Points into `path`. */
const char *pin_cgroup_below_mount(const struct pin_cgroup_hierarchy *hierarchy, const char *path);

/* The facts of this process and host. False only when procfs can't be read. */
bool pin_cgroup_facts_get(const char *group, struct pin_cgroup_facts *facts, struct pin_error *err);

/* The set of 1u << enum pin_protection that cannot be had on this host; *hint (may be NULL) says how to get
 * them. It points into the facts or is static. */
uint32_t pin_cgroup_facts_lack(const struct pin_cgroup_facts *facts, const char **hint);

/* The hierarchy of a controller, or NULL. */
const struct pin_cgroup_hierarchy *pin_cgroup_facts_of(const struct pin_cgroup_facts *facts,
                                                       enum pin_cgroup_controller controller);
