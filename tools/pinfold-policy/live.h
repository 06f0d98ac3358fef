/* live.h: assertions about a policy, tried in real sandboxes.
 *
 * Each one is a run of `pinfold run` under a policy that extends the one that is tested by one read-only
 * mount: the prober. What the offline answer and the kernel say differently is a difference; where the kernel
 * has reasons of its own (no such file, not root), or nothing can be tried (a secret, a host outside), the
 * assertion is not tried, and the reason is said.
 */
#pragma once

#include "policy/audit/cases.h"

struct pin_live_count {
    size_t tried, skipped;
};

/* Sets `live` of the cases that turned out otherwise, and appends a line for each that wasn't tried to
 * `notes`. `policy` is a name or an absolute path. False when no sandbox can be run at all. */
bool pin_live_try(struct pin_cases *cases, const char *policy, const struct pin_reach *reach,
                  struct pin_buffer *notes, struct pin_live_count *count, struct pin_error *err);
