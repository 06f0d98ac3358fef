/* fill.h: what a bundle leaves open gets the policy's value.
 *
 * The same for a bundle that is being resolved, which leaves everything open, and for one that came from
 * outside. Nothing that the bundle says is changed. Inside of runtime/bundle only.
 */
#pragma once

#include "policy/policy.h"
#include "runtime/bundle/bundle.h"

/* Each of them, for its part of the bundle. */
void pin_fill_rlimits(struct pin_bundle *bundle, const struct pin_policy *policy);
#define PIN_CPU_PERIOD_US 100000 /* the kernel's own default */
void pin_fill_memory(struct pin_bundle_resources *to, const struct pin_policy *policy);
void pin_fill_resources(struct pin_bundle *bundle, const struct pin_policy *policy);
void pin_fill_limits(struct pin_bundle_ext *ext, const struct pin_policy *policy);
/* Masked and read-only paths of /proc and /sys: the bundle's, and ours that it lacks. */
void pin_fill_masks(struct pin_bundle *bundle);
/* Masks for what tells of the host and engines leave in sight. */
void pin_fill_telling_masks(struct pin_bundle *bundle);
/* What the policy lets be written, and the workspace; ext.workspace is set already. */
void pin_fill_landlock(struct pin_bundle *bundle, const struct pin_policy *policy);
/* The workspace alone, where the bundle has a list of its own that was written without it. */
void pin_fill_workspace_landlock(struct pin_bundle *bundle);
/* The policy's egress, audit, ids and optional protections. */
void pin_fill_grants(struct pin_bundle *bundle, const struct pin_policy *policy);
