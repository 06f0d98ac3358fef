/* verbs.h: the verbs of `pinfold policy`, one file each. */
#pragma once

#include "tools/pinfold/options.h"

extern const struct pin_verb pin_policy_verb_show;
extern const struct pin_verb pin_policy_verb_lint;
extern const struct pin_verb pin_policy_verb_score;
extern const struct pin_verb pin_policy_verb_explain;
extern const struct pin_verb pin_policy_verb_diff;
extern const struct pin_verb pin_policy_verb_why;
extern const struct pin_verb pin_policy_verb_test;
extern const struct pin_verb pin_policy_verb_syscalls;
extern const struct pin_verb pin_policy_verb_trace;
extern const struct pin_verb pin_policy_verb_schema;
