/* egress_why.h: the answer of `policy why` in what the broker tells, for every program that has a broker. */
#pragma once

#include <jansson.h>

#include "policy/policy.h"

/* A refusal gets its "why"; other events stay as they are. `event` as of pin_egress_event_json(). */
void pin_egress_why_add(json_t *event, const struct pin_policy *policy);
