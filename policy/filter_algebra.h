/* filter_algebra.h: sets of arguments, as the rules of a filter describe them.
 *
 * A rule is a conjunction of comparisons; an array of rules is their union. Pure.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "base/arena.h"
#include "policy/filter.h"

/* Whether no call can match both: some argument would have to be two things. False when that isn't certain.
 */
bool pin_filter_rules_disjoint(const struct pin_filter_rule *a, const struct pin_filter_rule *b);

/* Whether every call that matches `inner` matches `outer`. False when that isn't certain. */
bool pin_filter_rule_within(const struct pin_filter_rule *inner, const struct pin_filter_rule *outer);

struct pin_filter_rules {
    struct pin_filter_rule *items;
    size_t count;
};

#define PIN_FILTER_SUBTRACT_MAX 4096 /* rules */

/* Takes every call that matches `what` out of `from`, exactly; comparisons of 32 bits split into at most 32
 * rules. False if the result can't be written as rules, or is too long; `from` is then unchanged. */
bool pin_filter_subtract(struct pin_arena *arena, struct pin_filter_rules *from,
                         const struct pin_filter_rule *what);
