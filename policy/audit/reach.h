/* reach.h: what a policy's filter leaves of each system call, and which line says so.
 *
 * Everything is decided by the filter that pin_policy_filter() resolves, the one that is enforced. Pure; the
 * policy must outlive the reach.
 */
#pragma once

#include "base/arena.h"
#include "base/findings.h"
#include "policy/filter.h"
#include "policy/policy.h"
#include "policy/syscalls.h"

enum pin_reach_kind {
    PIN_REACH_NONE, /* no arguments get through */
    PIN_REACH_SOME, /* some arguments do */
    PIN_REACH_ALL,
    PIN_REACH_KIND_COUNT
};
/* "no", "some arguments", "yes" */
const char *pin_reach_kind_name(enum pin_reach_kind kind);

struct pin_reach {
    struct pin_arena arena;
    const struct pin_policy *policy;
    enum pin_arch arch;
    struct pin_filter filter;   /* sorted by name */
    enum pin_reach_kind *calls; /* pin_syscalls_count of them, in the order of pin_syscalls */
};

#define PIN_REACH __attribute__((cleanup(pin_reach_free)))

/* Fills a zeroed reach; false with findings where the policy has no filter. */
bool pin_reach_make(struct pin_reach *reach, const struct pin_policy *policy, enum pin_arch arch,
                    struct pin_findings *found);
void pin_reach_free(struct pin_reach *reach);

/* Whether a call with this action is made at all. */
bool pin_reach_passes(enum pin_filter_action action);

/* The rules about a call; NULL with a count of 0 when the default counts. */
const struct pin_filter_rule *pin_reach_rules(const struct pin_reach *reach, const char *call, size_t *count);

enum pin_reach_kind pin_reach_of(const struct pin_reach *reach, const char *call);

/* The statement of the policy that gives a call, or keeps it away. */
struct pin_reach_source {
    const char *pointer; /* in the arena: "/syscalls/allow/2" */
    struct pin_place place;
    const char *text; /* "@network", or the baseline's name */
    enum { PIN_REACH_BY_BASELINE, PIN_REACH_BY_ALLOW, PIN_REACH_BY_DENY, PIN_REACH_BY_NOTHING } by;
};
struct pin_reach_source pin_reach_source(const struct pin_reach *reach, struct pin_arena *arena,
                                         const struct pin_syscall *call);

/* "any arguments", or the comparisons of a rule for people: "AF_INET, SOCK_STREAM, 0". In the arena. */
const char *pin_reach_describe(struct pin_arena *arena, const struct pin_filter_rule *rule);
