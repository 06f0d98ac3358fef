/* refusal.h: a request that can't be granted: recorded where its policy wants that, and reported, with the
 * answers of `pinfold policy why` to what it asked for and the policy denies.
 */
#pragma once

#include "base/findings.h"
#include "tools/pinfold/front.h"

/* Returns the exit code. */
int pin_refusal_report(const struct pin_front *front, const struct pin_findings *found, bool audit_sync,
                       bool as_json);
