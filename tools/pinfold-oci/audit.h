/* audit.h: what becomes of an engine's container, in the audit log.
 *
 * Only where the container's policy records it. Events, as docs/audit.md has them: create, start, exec,
 * end, refusal, egress.
 */
#pragma once

#include <jansson.h>

#include "policy/policy.h"
#include "tools/pinfold-oci/common.h"

/* Whether the policy records "lifecycle", "egress"; NULL records nothing. */
bool pin_oci_audit_records(const struct pin_policy *policy, const char *word);

/* Writes an event of the container; `data` is taken over. False: it isn't in the log. */
bool pin_oci_audit_write(const char *name, const char *id, const struct pin_bundle *bundle, json_t *data,
                         struct pin_error *err);

/* {"policy", "policy_digest", "bundle", "argv"} */
json_t *pin_oci_audit_describe(const struct pin_policy *policy, const struct pin_bundle *bundle);

/* What was refused, with every finding. */
bool pin_oci_audit_refusal(const struct pin_policy *policy, const struct pin_bundle *bundle, const char *verb,
                           const char *id, const struct pin_findings *refused, struct pin_error *err);
