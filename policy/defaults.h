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

/* The name of a variable that every policy starts with; NULL after the last. One that a policy lacks must
 * have been taken away by name. */
const char *pin_policy_default_variable(size_t index);
