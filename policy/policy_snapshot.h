/* policy_snapshot.h: a resolved policy with the places that gave it, as one JSON object, and back.
 *
 * {"policy": {…a policy file…}, "places": {"/resources/memory": "web.json:9:29", …}} For what outlives the
 * files that it was resolved from: a kept sandbox keeps the policy that it was made with, whatever becomes of
 * those. Pure.
 */
#pragma once

#include "base/findings.h"
#include "policy/policy.h"

struct json_t;

/* The caller owns it; NULL when memory is out. */
struct json_t *pin_policy_snapshot(const struct pin_policy *policy);

/* NULL with findings; the caller frees it with pin_policy_free(). */
struct pin_policy *pin_policy_from_snapshot(const struct json_t *snapshot, const char *file,
                                            struct pin_findings *found);
