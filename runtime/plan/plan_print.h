/* plan_print.h: a plan for people and for programs.
 *
 * The JSON is stable: {"plan": 1, "privileged", "namespaces", "uid_map", "gid_map", "root", "operations",
 * "limits", "rlimits", "capabilities", "landlock", "seccomp", "process", "steps", "missing"}. docs/plan.md
 * describes it.
 */
#pragma once

#include <stdio.h>

#include <jansson.h>

#include "runtime/plan/plan.h"

/* A new reference. `steps`: the builder's, ended by NULL. */
json_t *pin_plan_to_json(const struct pin_plan *plan, const char *const *steps);

void pin_plan_print(const struct pin_plan *plan, const char *const *steps, FILE *to);
