/* grants.h: what a policy grants and limits, one by one, each with the place that gave it. Pure. */
#pragma once

#include "policy/policy.h"

const struct pin_place *pin_policy_item_place(enum pin_field field, const void *item);

/* One grant or limit of the effective policy: its JSON pointer ("/network/egress/2"), its value as JSON, and
 * the place that gave it. */
typedef void pin_grant_visitor(void *context, const char *pointer, const char *value,
                               const struct pin_place *place);
void pin_policy_each_grant(const struct pin_policy *policy, pin_grant_visitor *visitor, void *context);

/* Whether the path may be written in a run, by its Landlock rules (runtime/bundle): `filesystem.write` and
 * the workspace's access. What is mounted there may keep it from that. */
bool pin_policy_lets_write(const struct pin_policy *policy, const char *path);
