#include "policy/order_syscalls.h"

#include <stdio.h>
#include <string.h>

#include "base/names.h"
#include "policy/covers.h"
#include "policy/filter_algebra.h"
#include "policy/policy_read.h"
#include "policy/policy_write.h"
#include "policy/words.h"

static bool all_covered(const struct pin_policy *inner, const struct pin_policy *outer,
                        enum pin_field field) {
    const struct pin_field_row *row = pin_field_row(field);
    struct pin_list items = pin_list_of(inner, row), by = pin_list_of(outer, row);
    pin_covers *covers = pin_covers_of(row);
    for (size_t i = 0; i < items.count; i++) {
        size_t j = 0;
        while (j < by.count && !covers(pin_list_at(&by, j), pin_list_at(&items, i)))
            j++;
        if (j == by.count)
            return false;
    }
    return true;
}

/* A filter is (baseline + allow) - deny: it can't grow when the first two don't and the third doesn't
 * shrink. */
static bool narrower_by_lists(const struct pin_policy *inner, const struct pin_policy *outer, bool any) {
    int low = pin_name_find(pin_baseline_words, PIN_BASELINE_WORDS, inner->syscalls.baseline);
    int high = pin_name_find(pin_baseline_words, PIN_BASELINE_WORDS, outer->syscalls.baseline);
    return (any || low <= high) && all_covered(inner, outer, PIN_FIELD_SYSCALLS_ALLOW) &&
           all_covered(outer, inner, PIN_FIELD_SYSCALLS_DENY);
}

static bool lets_through(enum pin_filter_action action) {
    return action == PIN_FILTER_ALLOW || action == PIN_FILTER_LOG || action == PIN_FILTER_NOTIFY ||
           action == PIN_FILTER_TRACE;
}

/* The first rule of the call, or the place where it would stand: a resolved filter is sorted by name. */
static size_t first_rule(const struct pin_filter *filter, const char *name) {
    size_t low = 0, high = filter->rule_count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (strcmp(filter->rules[middle].name, name) < 0)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static bool names(const struct pin_filter *filter, size_t index, const char *name) {
    return index < filter->rule_count && strcmp(filter->rules[index].name, name) == 0;
}

/* Whether all that an inner rule lets through is let through by one outer rule, or by several together. */
static bool rule_is_within(struct pin_arena *arena, const struct pin_filter_rule *rule,
                           const struct pin_filter *outer) {
    size_t first = first_rule(outer, rule->name);
    for (size_t i = first; names(outer, i, rule->name); i++)
        if (lets_through(outer->rules[i].action) && pin_filter_rule_within(rule, &outer->rules[i]))
            return true;
    struct pin_filter_rules left = {pin_arena_memdup(arena, rule, sizeof(*rule)), 1};
    for (size_t i = first; names(outer, i, rule->name) && left.count > 0; i++)
        if (lets_through(outer->rules[i].action) && !pin_filter_subtract(arena, &left, &outer->rules[i]))
            return false;
    return left.count == 0;
}

static void find_wider(const struct pin_filter_rule *rule, const struct pin_policy *outer,
                       struct pin_findings *found) {
    char hint[128], place[PIN_PLACE_TEXT];
    (void)snprintf(hint, sizeof(hint), "the ceiling is at %s",
                   pin_place_print(place, &outer->places[PIN_FIELD_SYSCALLS_BASELINE]));
    (void)pin_find(found, PIN_ERROR_REFUSED, "/syscalls", hint,
                   "asks for the system call '%s'%s, which '%s' does not grant", rule->name,
                   rule->arg_count > 0 ? " with these arguments" : "", outer->name);
}

static bool filters_narrower(struct pin_arena *arena, const struct pin_filter *inner,
                             const struct pin_filter *filter, const struct pin_policy *outer,
                             struct pin_findings *found) {
    bool narrower = true;
    for (size_t i = 0; i < inner->rule_count; i++) {
        if (!lets_through(inner->rules[i].action) || rule_is_within(arena, &inner->rules[i], filter))
            continue;
        find_wider(&inner->rules[i], outer, found);
        narrower = false;
    }
    return narrower;
}

/* An outer policy that allows any call refuses only what its `deny` names. */
static struct pin_policy *inner_without_denied(const struct pin_policy *inner,
                                               const struct pin_policy *outer) {
    struct pin_policy *copy = pin_policy_copy(inner);
    size_t own = inner->syscalls.deny_count, count = own + outer->syscalls.deny_count;
    struct pin_syscall_entry *deny = pin_arena_array(&copy->arena, count, sizeof(*deny));
    for (size_t i = 0; i < count; i++)
        deny[i] = i < own ? inner->syscalls.deny[i] : outer->syscalls.deny[i - own];
    copy->syscalls.deny = deny;
    copy->syscalls.deny_count = count;
    return copy;
}

static bool narrower_by_filters(const struct pin_policy *inner, const struct pin_policy *outer,
                                struct pin_findings *found) {
    PIN_ARENA struct pin_arena arena = {0};
    struct pin_filter low = {0}, high = {0};
    return pin_policy_filter(inner, pin_arch_native(), &arena, &low, found) &&
           pin_policy_filter(outer, pin_arch_native(), &arena, &high, found) &&
           filters_narrower(&arena, &low, &high, outer, found);
}

static bool narrower_than_any(const struct pin_policy *inner, const struct pin_policy *outer,
                              struct pin_findings *found) {
    PIN_ARENA struct pin_arena arena = {0};
    struct pin_filter low = {0}, high = {0};
    struct pin_policy *rest = inner_without_denied(inner, outer);
    bool narrower = pin_policy_filter(inner, pin_arch_native(), &arena, &low, found) &&
                    pin_policy_filter(rest, pin_arch_native(), &arena, &high, found) &&
                    filters_narrower(&arena, &low, &high, outer, found);
    pin_policy_free(rest);
    return narrower;
}

/* Only a site's file can say so. */
static bool allows_any(const struct pin_policy *policy) {
    for (size_t i = 0; i < policy->syscalls.allow_count; i++)
        if (strcmp(policy->syscalls.allow[i].name, "*") == 0)
            return true;
    return false;
}

bool pin_syscalls_narrower(const struct pin_policy *inner, const struct pin_policy *outer,
                           struct pin_findings *found) {
    bool any = allows_any(outer);
    if (narrower_by_lists(inner, outer, any))
        return true;
    if (allows_any(inner)) {
        (void)pin_find(found, PIN_ERROR_REFUSED, pin_field_pointer(PIN_FIELD_SYSCALLS_ALLOW), NULL,
                       "asks for all system calls, which '%s' does not grant", outer->name);
        return false;
    }
    return any ? narrower_than_any(inner, outer, found) : narrower_by_filters(inner, outer, found);
}
