/* trace.h: what a recording means for policies: the three answers of `pinfold policy trace`.
 *
 *   widen        the policy that a command is traced under: all that a policy may grant, but for destinations
 *   learn        the smallest policy that this file's rules make from the recording
 *   would-deny   what another policy would have denied, by the code that enforces (why.h)
 *   report       what of a policy was never used
 * Pure. How a learned policy is rounded and collapsed: docs/trace.md.
 */
#pragma once

#include <jansson.h>

#include "policy/audit/reach.h"
#include "policy/audit/recording.h"

/* Widens a loaded policy in place, as far as `site` (may be NULL) lets, and seals it. `any` lets it reach all
 * names; without it no destination, while names and addresses are still recorded. */
void pin_trace_widen(struct pin_policy *policy, const struct pin_policy *site, bool any);

struct pin_trace {
    const struct pin_recording *recording;
    const struct pin_reach *policy; /* of the policy that is judged, or that the learned one extends */
    const char *extends;            /* its name, or its absolute path */
    const char *command;
    enum pin_access workspace;  /* what the traced run had */
    const char *const *secrets; /* that it asked for */
    size_t secret_count;
    bool (*host_has)(const char *path); /* whether the host has the path; NULL: not known */
};

struct pin_learned {
    json_t *policy;   /* the file: {"pinfold": 1, …} */
    json_t *withheld; /* [{"what", "why"}]: used or tried, and left to a person */
    json_t *wanted;   /* [{"what", "edit"}]: tried in vain while it was traced, and granted by the edit */
};

/* False with findings where the policy that was made can't be read back or denies what was recorded. */
bool pin_trace_learn(const struct pin_trace *trace, struct pin_learned *learned, struct pin_findings *found);
void pin_learned_free(struct pin_learned *learned);

/* [{"question", "verdict", "reason", "rule", "place", "edit", "times", "also_denied"}] as `policy why` has
 * them; `also_denied`: the trace denied it too, and no policy of these baselines would not. The caller owns
 * it. */
json_t *pin_trace_would_deny(const struct pin_trace *trace);

/* [{"rule", "value", "place", "unused"}] The caller owns it. */
json_t *pin_trace_unused(const struct pin_trace *trace);
