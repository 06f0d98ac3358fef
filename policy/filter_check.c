#include <string.h>

#include "policy/filter.h"
#include "policy/filter_algebra.h"

#define ERROR_MAX 4095 /* MAX_ERRNO of the kernel, which cuts greater ones to it */
#define POINTER "/linux/seccomp/syscalls"

static bool same_action(enum pin_filter_action a, uint16_t a_error, enum pin_filter_action b,
                        uint16_t b_error) {
    return a == b && (!pin_filter_gives_errno(a) || a_error == b_error);
}

static void check_errno(enum pin_filter_action action, uint16_t error, const char *what,
                        struct pin_findings *found) {
    if (action == PIN_FILTER_ERRNO && error > ERROR_MAX)
        (void)pin_find(found, PIN_ERROR_INVALID, POINTER, NULL, "%s gives errno %u, and the greatest is %d",
                       what, (unsigned)error, ERROR_MAX);
}

static void check_arg(const struct pin_filter_rule *rule, const struct pin_filter_arg *arg,
                      struct pin_findings *found) {
    if (arg->index >= PIN_FILTER_ARGS_MAX)
        (void)pin_find(found, PIN_ERROR_INVALID, POINTER, NULL,
                       "a rule of '%s' compares argument %u of 0 to %d", rule->name, (unsigned)arg->index,
                       PIN_FILTER_ARGS_MAX - 1);
    if (arg->op >= PIN_FILTER_OP_COUNT)
        (void)pin_find(found, PIN_ERROR_INVALID, POINTER, NULL, "a rule of '%s' has no known comparison",
                       rule->name);
    else if (arg->op == PIN_FILTER_MASKED_EQ && (arg->value & ~arg->mask) != 0)
        (void)pin_find(found, PIN_ERROR_INVALID, POINTER, NULL,
                       "a rule of '%s' can never match: its value has bits outside its mask", rule->name);
}

static bool check_rule(const struct pin_filter *filter, const struct pin_filter_rule *rule,
                       struct pin_findings *found) {
    size_t before = found->count + found->dropped;
    if (rule->arg_count > PIN_FILTER_ARGS_MAX) {
        (void)pin_find(found, PIN_ERROR_INVALID, POINTER, NULL, "a rule of '%s' has %u comparisons",
                       rule->name, (unsigned)rule->arg_count);
        return false;
    }
    unsigned seen = 0;
    for (size_t i = 0; i < rule->arg_count; i++) {
        check_arg(rule, &rule->args[i], found);
        unsigned bit = 1U << (rule->args[i].index & 31U);
        if ((seen & bit) != 0)
            (void)pin_find(found, PIN_ERROR_INVALID, POINTER, "write the alternatives as rules of their own",
                           "a rule of '%s' compares argument %u twice", rule->name,
                           (unsigned)rule->args[i].index);
        seen |= bit;
    }
    check_errno(rule->action, rule->error, rule->name, found);
    if (same_action(rule->action, rule->error, filter->default_action, filter->default_error))
        (void)pin_find(found, PIN_ERROR_INVALID, POINTER, "leave it out",
                       "a rule of '%s' repeats the default", rule->name);
    return found->count + found->dropped == before;
}

static void check_pair(const struct pin_filter_rule *a, const struct pin_filter_rule *b,
                       struct pin_findings *found) {
    if (strcmp(a->name, b->name) == 0 && !same_action(a->action, a->error, b->action, b->error) &&
        !pin_filter_rules_disjoint(a, b))
        (void)pin_find(found, PIN_ERROR_INVALID, POINTER, "make their arguments exclude each other",
                       "two rules of '%s' say different things of the same call", a->name);
}

void pin_filter_check(const struct pin_filter *filter, struct pin_findings *found) {
    bool good = true;
    check_errno(filter->default_action, filter->default_error, "the default", found);
    for (size_t i = 0; i < filter->rule_count; i++)
        good = check_rule(filter, &filter->rules[i], found) && good;
    for (size_t i = 0; i < filter->rule_count && good; i++)
        for (size_t j = i + 1; j < filter->rule_count; j++)
            check_pair(&filter->rules[i], &filter->rules[j], found);
}
