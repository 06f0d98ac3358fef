/* plan_mounts.h: the part of a plan that makes the root: entries, mounts, devices, masks. Used by plan.c
 * alone. */
#pragma once

#include "base/findings.h"
#include "runtime/plan/plan.h"

void pin_plan_mounts(struct pin_plan *plan, struct pin_findings *found);
