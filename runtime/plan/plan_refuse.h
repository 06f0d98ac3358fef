/* plan_refuse.h: the fields of a bundle that this builder doesn't carry out: each is refused by name, none
 * ignored. */
#pragma once

#include "base/findings.h"
#include "runtime/bundle/bundle.h"

void pin_plan_refuse(const struct pin_bundle *bundle, struct pin_findings *found);
