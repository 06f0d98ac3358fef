/* live.h: what may leave a kept sandbox, looked at and changed while it runs.
 *
 * The supervisor's side. A new list must lie below the policy that the sandbox was made with, whatever was
 * asked for at first; the broker cuts what it forbids.
 */
#pragma once

#include <jansson.h>

#include "policy/policy.h"
#include "runtime/egress/published.h"
#include "runtime/kept/request.h"

struct pin_live_egress {         /* zeroed at first */
    struct pin_policy *asked[2]; /* whose lists are in force, or have been until now */
    unsigned turn;
};

/* What the sandbox's network must be prepared for, so that any list below the ceiling can come. */
struct pin_egress_plan pin_live_egress_plan(const struct pin_policy *ceiling);

/* Changes the list if the request says so, and tells what there is; NULL with an error. */
json_t *pin_live_egress_serve(struct pin_live_egress *live, const struct pin_policy *ceiling,
                              struct pin_egress_session *session, struct pin_publishing *publishing,
                              const struct pin_kept_request *request, struct pin_error *err);
