/* plan_parts.h: the parts that every plan has; for plan.c and plan_engine.c alone. */
#pragma once

#include "base/findings.h"
#include "runtime/plan/plan.h"

extern const uint64_t pin_plan_clone_flags[PIN_NS_COUNT]; /* CLONE_NEW* */

void pin_plan_root(struct pin_plan *plan, struct pin_findings *found);
void pin_plan_rlimits(struct pin_plan *plan, struct pin_findings *found);
