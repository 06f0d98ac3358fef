/* host.h: what this host can do, gathered before anything is decided.
 *
 * A plan is made from these facts alone, so that a test can plan for a host that doesn't exist. Gathering
 * makes a few cheap system calls and changes nothing. Facts about cgroups are gathered by
 * runtime/build/cgroup.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"
#include "policy/policy.h"

struct pin_subids {
    uint32_t start, count; /* 0, 0: none */
};

#define PIN_HOST_RLIMITS 16 /* RLIM_NLIMITS of Linux */

struct pin_host {
    uint32_t uid, gid; /* the caller's, effective */
    bool privileged;  /* CAP_SYS_ADMIN, CAP_SETUID and CAP_SETGID over the host: id ranges and idmapped mounts
                       */
    int landlock_abi; /* 0: none */
    bool time_namespaces;
    uint64_t hard_limits[PIN_HOST_RLIMITS]; /* the caller's own, by RLIMIT_*; UINT64_MAX: none */
    bool raises_limits;                     /* CAP_SYS_RESOURCE: a sandbox may be given more than those */
    bool swaps;                             /* there is swap space */
    uint32_t lacks;                         /* set of 1u << enum pin_protection that can't be had here */
    const char *lacks_hint;                 /* how to get those of the cgroups; NULL: nothing is known */
    struct pin_subids subuids, subgids;     /* see pin_host_subids() */
};

/* All but the facts about cgroups and the subordinate ids. */
void pin_host_get(struct pin_host *host);

/* The subordinate ids of the user (by name or number) in a file like /etc/subuid, the largest range; none is
 * no error. Read only when a policy asks for more than one id. Source: subuid(5). */
bool pin_host_subids(const char *file, uint32_t uid, struct pin_subids *ids, struct pin_error *err);
