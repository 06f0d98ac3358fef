/* ceiling.h: the operator's policy above a bundle: which one it is, and what becomes of the bundle.
 *
 * `--policy`, else /etc/pinfold/oci.json, is the operator's; `io.pinfold.policy` of the bundle names an
 * installed one, which counts in its place if it is at most the operator's, or where the operator has none.
 * /etc/pinfold/site.json stands above all of them. The container keeps a copy in ROOT/ID/policy.json: later
 * commands hold to what it was made under, whatever the files say by then. Source: docs/engines.md "The
 * ceiling".
 */
#pragma once

#include "policy/policy.h"
#include "runtime/build/hooks.h"
#include "tools/pinfold-oci/common.h"

#define PIN_OCI_SITE_POLICY "/etc/pinfold/oci.json"

/* The operator's policy as it is named; NULL: there is none. */
const char *pin_oci_ceiling_source(const struct pin_oci_options *options);

/* *policy becomes the one that counts, or NULL where there is none; the caller frees it. False with findings:
 * a policy that is asked for and can't be had is no policy to do without. */
bool pin_oci_ceiling_choose(const struct pin_oci_options *options, const struct pin_bundle *bundle,
                            struct pin_policy **policy, struct pin_findings *found);

struct pin_oci_place {  /* of the container's group, where it is to be made */
    bool systemd;       /* makes it */
    const char *cgroup; /* from the top of the hierarchies; NULL: that isn't the bundle's choice */
    const char *own;    /* the group that we ourselves are in; NULL: unknown */
};

/* The law for engines (engine_law.h); the bundle's hooks become the files that their links lead to. */
bool pin_oci_ceiling_admit(struct pin_bundle *bundle, const struct pin_policy *policy,
                           const struct pin_oci_place *place, struct pin_findings *found);

bool pin_oci_ceiling_keep(const struct pin_container *container, const struct pin_policy *policy,
                          struct pin_error *err);
/* What was kept: NULL without a finding where the container was made without a policy. */
struct pin_policy *pin_oci_ceiling_kept(const struct pin_container *container, struct pin_findings *found);

/* Runs the hooks of a verb after `create`, which are judged once more: what their paths lead to may have
 * changed, also by the container's own hand. `watch`: hooks.h. */
bool pin_oci_ceiling_run_hooks(const struct pin_container *container, enum pin_status status,
                               enum pin_hook_stage stage, const struct pin_hook_watch *watch,
                               struct pin_error *err);
