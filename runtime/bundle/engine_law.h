/* engine_law.h: a bundle that an engine brings meets the operator's policy.
 *
 * What the bundle asks for is stated as a policy (pin_bundle_as_policy(), and here what only engines ask for:
 * namespaces that aren't its own, binds, its root's place, hooks, no filter) and compared by the one order
 * over policies; what no policy has a word for is judged by bundle_wall.h. All offending fields are found at
 * once. A bundle that is admitted has the policy's limits where it had none, more masks, the policy's filter
 * beside its own, and its egress. Pure. Source: docs/engines.md "The ceiling".
 */
#pragma once

#include "base/findings.h"
#include "policy/policy.h"
#include "runtime/bundle/bundle.h"

struct pin_engine_caller {
    bool on_host;    /* the ids of its id maps are the host's: it is in no user namespace of its own */
    bool has_broker; /* it can start the broker */
    bool systemd;    /* makes the container's group, so that annotations about its unit count */
    const char
        *cgroup; /* where the bundle wants its group, from the top of the hierarchies; NULL: it doesn't say */
    const char *own; /* the group that the caller itself is in, in the hierarchy in which systemd keeps its
                        units; NULL: unknown */
};

/* Hooks must be named by the file that will be run (pin_oci resolves their links first). False with findings;
 * the bundle is then of no use. */
bool pin_bundle_admit_engine(struct pin_bundle *bundle, const struct pin_policy *ceiling,
                             const struct pin_engine_caller *caller, struct pin_findings *found);

/* The hooks alone, for the verbs that run them later: the links to them may lead elsewhere by then. */
bool pin_bundle_admit_hooks(struct pin_bundle *bundle, const struct pin_policy *ceiling,
                            struct pin_findings *found);

/* The same for new limits of a container that runs: of the bundle, only its resources count. Where one limit
 * means nothing without another, the other is filled in, or asked for. */
bool pin_bundle_admit_update(struct pin_bundle *bundle, const struct pin_policy *ceiling,
                             struct pin_findings *found);
