/* order_syscalls.h: the order over the system calls of policies: which one's filter lets more through.
 *
 * What can be seen from the lists is decided from them (the baselines lie in one another); else both filters
 * are resolved for this machine's architecture and compared rule by rule. A comparison that can't be decided
 * counts as wider. Pure.
 */
#pragma once

#include "base/findings.h"
#include "policy/policy.h"

/* As pin_policy_narrower(), for /syscalls but on_deny. */
bool pin_syscalls_narrower(const struct pin_policy *inner, const struct pin_policy *outer,
                           struct pin_findings *found);
