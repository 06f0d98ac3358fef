/* defaults.h: the values that a policy starts from.
 *
 * Every policy starts from those of the profile `tool`, which its file repeats (a test compares the two); a
 * site's file starts from a policy that grants all there is, and takes away.
 */
#pragma once

#include "policy/policy.h"

/* Fill a zeroed policy. */
void pin_policy_set_defaults(struct pin_policy *policy);
void pin_policy_set_everything(struct pin_policy *policy);
