/* site.h: what every policy of this machine must keep, and what none may exceed.
 *
 * The site's file is a policy file that starts from a policy which grants all there is: what it doesn't name
 * it doesn't limit. In it "unlimited" may stand for every limit and "*" or "/" for all hosts, secrets, calls,
 * variables or paths. It extends nothing. Its lists of refusals and demands (network.deny, syscalls.deny,
 * environment.refuse, audit.record, audit.require_labels, audit.require_labels_for) are the floor: they are
 * added to each policy. All else is the ceiling: a policy above it is refused. Rules: docs/policy.md "The
 * site's file".
 */
#pragma once

#include "base/findings.h"
#include "policy/policy.h"

#define PIN_SITE_FILE "/etc/pinfold/site.json"

/* `path` NULL is PIN_SITE_FILE, which may be missing: then NULL without a finding. A path that is given must
 * be there. The caller frees it with pin_policy_free(). */
struct pin_policy *pin_site_load(const char *path, struct pin_findings *found);

/* Adds the site's floor to the policy, seals it anew, and holds it against the ceiling: false with findings
 * when it is above: as those of pin_policy_narrower, with the policy's name, and the place of what asks in
 * front of the pointer. A NULL site changes nothing. */
bool pin_site_apply(struct pin_policy *policy, const struct pin_policy *site, struct pin_findings *found);
