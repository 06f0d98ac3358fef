#include "policy/audit/reach.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/names.h"
#include "policy/audit/arg_names.h"
#include "policy/policy_read.h"

static const char *const kind_names[] = {
    [PIN_REACH_NONE] = "no",
    [PIN_REACH_SOME] = "some arguments",
    [PIN_REACH_ALL] = "yes",
};
_Static_assert(PIN_COUNT(kind_names) == PIN_REACH_KIND_COUNT, "every kind has a name");

const char *pin_reach_kind_name(enum pin_reach_kind kind) {
    return kind_names[kind];
}

bool pin_reach_passes(enum pin_filter_action action) {
    switch (action) {
    case PIN_FILTER_ALLOW:
    case PIN_FILTER_LOG:
    case PIN_FILTER_TRACE:
    case PIN_FILTER_NOTIFY: return true;
    case PIN_FILTER_ERRNO:
    case PIN_FILTER_KILL_PROCESS:
    case PIN_FILTER_KILL_THREAD:
    case PIN_FILTER_TRAP:
    case PIN_FILTER_ACTION_COUNT: return false;
    }
    abort();
}

/* The first rule whose name isn't smaller. */
static size_t lower_bound(const struct pin_filter *filter, const char *call) {
    size_t low = 0, high = filter->rule_count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (strcmp(filter->rules[middle].name, call) < 0)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

const struct pin_filter_rule *pin_reach_rules(const struct pin_reach *reach, const char *call,
                                              size_t *count) {
    const struct pin_filter *filter = &reach->filter;
    size_t first = lower_bound(filter, call), end = first;
    while (end < filter->rule_count && strcmp(filter->rules[end].name, call) == 0)
        end++;
    *count = end - first;
    return *count > 0 ? &filter->rules[first] : NULL;
}

static enum pin_reach_kind kind_of(const struct pin_reach *reach, const char *call) {
    size_t count;
    const struct pin_filter_rule *rules = pin_reach_rules(reach, call, &count);
    bool passes = !reach->filter.present || pin_reach_passes(reach->filter.default_action);
    bool some = passes, all = passes;
    for (size_t i = 0; i < count; i++) {
        bool lets = pin_reach_passes(rules[i].action);
        if (rules[i].arg_count == 0)
            return lets ? PIN_REACH_ALL : PIN_REACH_NONE;
        some = some || lets;
        all = all && lets;
    }
    return all ? PIN_REACH_ALL : some ? PIN_REACH_SOME : PIN_REACH_NONE;
}

static void fill_calls(struct pin_reach *reach) {
    reach->calls = pin_arena_array(&reach->arena, pin_syscalls_count, sizeof(*reach->calls));
    for (size_t i = 0; i < pin_syscalls_count; i++)
        reach->calls[i] =
            pin_syscalls[i].number[reach->arch] < 0 ? PIN_REACH_NONE : kind_of(reach, pin_syscalls[i].name);
}

bool pin_reach_make(struct pin_reach *reach, const struct pin_policy *policy, enum pin_arch arch,
                    struct pin_findings *found) {
    reach->policy = policy;
    reach->arch = arch;
    if (!pin_policy_filter(policy, arch, &reach->arena, &reach->filter, found))
        return false;
    fill_calls(reach);
    return true;
}

void pin_reach_free(struct pin_reach *reach) {
    pin_arena_free(&reach->arena);
}

enum pin_reach_kind pin_reach_of(const struct pin_reach *reach, const char *call) {
    const struct pin_syscall *row = pin_syscall_find(call);
    return row != NULL ? reach->calls[row - pin_syscalls] : PIN_REACH_NONE;
}

static bool names_call(const struct pin_syscall_entry *entry, const struct pin_syscall *call) {
    const struct pin_syscall_set *group = pin_syscall_group(entry->name);
    if (strcmp(entry->name, "*") == 0)
        return true;
    return group != NULL ? pin_syscall_in(group, call) : strcmp(entry->name, call->name) == 0;
}

static bool find_entry(struct pin_arena *arena, const struct pin_syscall_entry *entries, size_t count,
                       const char *list, const struct pin_syscall *call, struct pin_reach_source *source) {
    for (size_t i = 0; i < count; i++) {
        if (!names_call(&entries[i], call))
            continue;
        source->pointer = pin_arena_printf(arena, "/syscalls/%s/%zu", list, i);
        source->place = entries[i].place;
        source->text = entries[i].name;
        return true;
    }
    return false;
}

struct pin_reach_source pin_reach_source(const struct pin_reach *reach, struct pin_arena *arena,
                                         const struct pin_syscall *call) {
    const struct pin_policy *policy = reach->policy;
    const struct pin_syscall_set *baseline = pin_syscall_baseline(policy->syscalls.baseline);
    struct pin_reach_source source = {.pointer = "/syscalls/baseline",
                                      .place = policy->places[PIN_FIELD_SYSCALLS_BASELINE],
                                      .text = policy->syscalls.baseline,
                                      .by = PIN_REACH_BY_NOTHING};
    bool denied = reach->calls[call - pin_syscalls] != PIN_REACH_ALL;
    if (denied &&
        find_entry(arena, policy->syscalls.deny, policy->syscalls.deny_count, "deny", call, &source))
        source.by = PIN_REACH_BY_DENY;
    else if (find_entry(arena, policy->syscalls.allow, policy->syscalls.allow_count, "allow", call, &source))
        source.by = PIN_REACH_BY_ALLOW;
    else if (baseline != NULL && pin_syscall_in(baseline, call))
        source.by = PIN_REACH_BY_BASELINE;
    return source;
}

static const char *const op_signs[] = {
    [PIN_FILTER_EQ] = "=",  [PIN_FILTER_MASKED_EQ] = "=", [PIN_FILTER_NE] = "!=", [PIN_FILTER_LT] = "<",
    [PIN_FILTER_LE] = "<=", [PIN_FILTER_GE] = ">=",       [PIN_FILTER_GT] = ">",
};
_Static_assert(PIN_COUNT(op_signs) == PIN_FILTER_OP_COUNT, "every comparison has a sign");

/* What leaves some of the lowest bits open is a run of numbers, and what leaves one bit open may be two
 * names; NULL where neither says it. */
static const char *describe_open_bits(struct pin_arena *arena, const char *call,
                                      const struct pin_filter_arg *arg) {
    uint64_t open = arg->mask ^ UINT32_MAX;
    const char *one = pin_arg_name(call, arg->index, arg->value);
    const char *other = pin_arg_name(call, arg->index, arg->value | open);
    if (arg->op != PIN_FILTER_MASKED_EQ || open == 0 || open > UINT32_MAX)
        return NULL;
    if ((open & (open - 1)) == 0 && one != NULL && other != NULL)
        return pin_arena_printf(arena, "%s or %s", one, other);
    if ((open & (open + 1)) == 0 && open < 16)
        return pin_arena_printf(arena, "argument %u = %" PRIu64 " to %" PRIu64, arg->index, arg->value,
                                arg->value + open);
    return NULL;
}

static const char *describe_arg(struct pin_arena *arena, const char *call, const struct pin_filter_arg *arg) {
    const char *bits = describe_open_bits(arena, call, arg);
    if (bits != NULL)
        return bits;
    const char *name = pin_arg_name(call, arg->index, arg->value);
    bool whole = arg->op == PIN_FILTER_EQ || (arg->op == PIN_FILTER_MASKED_EQ && arg->mask == UINT32_MAX);
    const char *value = name != NULL        ? name
                        : arg->value < 4096 ? pin_arena_printf(arena, "%" PRIu64, arg->value)
                                            : pin_arena_printf(arena, "0x%" PRIx64, arg->value);
    if (whole && name != NULL)
        return name;
    if (whole)
        return pin_arena_printf(arena, "argument %u = %s", arg->index, value);
    if (arg->op == PIN_FILTER_MASKED_EQ && name != NULL && arg->mask < 0x10000)
        return name; /* the bits of a type or kind, and its name */
    if (arg->op == PIN_FILTER_MASKED_EQ && arg->value == 0)
        return pin_arena_printf(arena, "argument %u without bits 0x%" PRIx64, arg->index, arg->mask);
    if (arg->op == PIN_FILTER_MASKED_EQ)
        return pin_arena_printf(arena, "argument %u & 0x%" PRIx64 " = %s", arg->index, arg->mask, value);
    return pin_arena_printf(arena, "argument %u %s %s", arg->index, op_signs[arg->op], value);
}

const char *pin_reach_describe(struct pin_arena *arena, const struct pin_filter_rule *rule) {
    const char *text = "";
    for (uint8_t i = 0; i < rule->arg_count; i++)
        text = pin_arena_printf(arena, "%s%s%s", text, i > 0 ? ", " : "",
                                describe_arg(arena, rule->name, &rule->args[i]));
    return rule->arg_count > 0 ? text : "any arguments";
}
