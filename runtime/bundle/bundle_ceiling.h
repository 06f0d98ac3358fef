/* bundle_ceiling.h: a bundle from outside meets the policy.
 *
 * What a bundle asks for beyond the policy is refused, whole, with every field named; what it leaves open
 * gets the policy's value. What a policy has a word for is compared by the one order over policies
 * (policy_order.h); for the rest see bundle_wall.h. The filter is always the policy's own: it takes the place
 * of the bundle's. Source: docs/bundle.md "The ceiling".
 */
#pragma once

#include "images/rootfs.h"
#include "runtime/bundle/request.h"

/* What the bundle permits, as a policy: a copy of the ceiling in which every field that the bundle speaks of
 * has the bundle's value. Binds that the host image has too aren't mounts of the bundle's own where `host`
 * is its root (NULL: the ceiling doesn't list the host image). It borrows nothing; the caller frees it. */
struct pin_policy *pin_bundle_as_policy(const struct pin_bundle *bundle, const struct pin_policy *ceiling,
                                        const struct pin_rootfs *host);

/* For readers: a value that isn't the ceiling's own is the bundle's word, and stands in "config.json". */
void pin_bundle_state_places(struct pin_policy *asked, const struct pin_policy *ceiling);

/* The part of it that speaks of memory, processors, processes and limits. */
void pin_bundle_state_resources(struct pin_policy *asked, const struct pin_bundle *bundle);

/* A bind whose source is relative is below the bundle. */
void pin_bundle_make_sources_absolute(struct pin_bundle *bundle);

/* Judges a bundle that was read from a directory, lets the request have its say (command, environment,
 * labels, workspace, limits: all below the ceiling), and fills in what is open. False with findings; the
 * bundle is then of no use. */
bool pin_bundle_admit(struct pin_bundle *bundle, const struct pin_policy *ceiling,
                      const struct pin_request *request, struct pin_findings *found);
