#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/names.h"
#include "policy/filter_algebra.h"
#include "policy/policy_read.h"
#include "policy/syscalls.h"
#include "policy/syscalls_guard.h"

#define CALLS_MAX 512
#define ANY_CALL "*"

/* What is granted of a call. Most are granted whole or as their guard says, and cost no memory. */
enum extent { EXTENT_NOTHING, EXTENT_WHOLE, EXTENT_GUARDED, EXTENT_RULES };

struct granted {
    enum extent extent;
    const struct pin_guard *guard; /* of GUARDED */
    struct pin_filter_rules rules; /* of RULES */
};

struct resolution {
    const struct pin_policy *policy;
    enum pin_arch arch;
    bool walled;
    const struct pin_syscall_entry *blamed; /* a group with a call that can't be: said once */
    struct pin_arena *arena;
    struct pin_findings *found;
    struct granted granted[CALLS_MAX];
};

/* Where an entry of a list stands, for findings. */
struct entry_at {
    const struct pin_syscall_entry *entry;
    const char *list; /* "allow" or "deny" */
    size_t index;
};

static void find(struct resolution *res, const struct entry_at *at, enum pin_error_kind kind,
                 const char *hint, const char *message) {
    char pointer[sizeof(((struct pin_error *)NULL)->pointer)];
    const struct pin_place *place = &at->entry->place;
    if (place->file == NULL)
        (void)snprintf(pointer, sizeof(pointer), "/syscalls/%s/%zu", at->list, at->index);
    else
        (void)snprintf(pointer, sizeof(pointer), "%s:%u:%u /syscalls/%s/%zu", place->file, place->line,
                       place->column, at->list, at->index);
    (void)pin_find(res->found, kind, pointer, hint, "%s", message);
}

static struct pin_filter_rule rule_of(const char *name, const struct pin_filter_arg *args, uint8_t count) {
    struct pin_filter_rule rule = {.name = name, .action = PIN_FILTER_ALLOW, .arg_count = count};
    if (count > 0)
        memcpy(rule.args, args, count * sizeof(*args));
    return rule;
}

static void add_rule(struct resolution *res, size_t row, const struct pin_filter_arg *args, uint8_t count) {
    struct pin_filter_rules *rules = &res->granted[row].rules;
    struct pin_filter_rule *rule = pin_arena_grow(res->arena, &rules->items, &rules->count, sizeof(*rule));
    *rule = rule_of(pin_syscalls[row].name, args, count);
}

/* Turns what is granted of the call into rules, so that some can be added or taken away. */
static struct pin_filter_rules *as_rules(struct resolution *res, size_t row) {
    struct granted *granted = &res->granted[row];
    enum extent extent = granted->extent;
    granted->extent = EXTENT_RULES;
    if (extent == EXTENT_WHOLE)
        add_rule(res, row, NULL, 0);
    for (size_t i = 0; extent == EXTENT_GUARDED && i < granted->guard->count; i++)
        add_rule(res, row, granted->guard->cases[i].args, granted->guard->cases[i].arg_count);
    return &granted->rules;
}

/* Grants everything of the call but the cases of the guard. */
static void grant_except(struct resolution *res, size_t row, const struct pin_guard *guard) {
    struct pin_filter_rules *rules = as_rules(res, row);
    add_rule(res, row, NULL, 0);
    for (size_t i = 0; i < guard->count; i++) {
        struct pin_filter_rule taken = rule_of(NULL, guard->cases[i].args, guard->cases[i].arg_count);
        if (!pin_filter_subtract(res->arena, rules, &taken))
            rules->count = 0; /* can't be: guards compare 32 bits; and then nothing is granted */
    }
}

/* Grants a call as a bare name does: as far as its guard lets. */
static void grant(struct resolution *res, size_t row) {
    const struct pin_guard *guard = pin_guard_find(pin_syscalls[row].name, res->walled);
    struct granted *granted = &res->granted[row];
    if (guard != NULL && guard->except)
        grant_except(res, row, guard);
    else if (granted->extent == EXTENT_RULES && guard == NULL)
        add_rule(res, row, NULL, 0);
    else if (granted->extent == EXTENT_RULES)
        for (size_t i = 0; i < guard->count; i++)
            add_rule(res, row, guard->cases[i].args, guard->cases[i].arg_count);
    else
        *granted = (struct granted){
            guard == NULL ? EXTENT_WHOLE : EXTENT_GUARDED, guard, {NULL, 0}
        };
}

static bool never_by_argument(struct resolution *res, const struct entry_at *at) {
    size_t count;
    const struct pin_guard_never *nevers = pin_guard_nevers(&count);
    const struct pin_syscall_entry *entry = at->entry;
    struct pin_filter_rule asked = {.arg_count = entry->arg_count};
    memcpy(asked.args, entry->args, sizeof(entry->args));
    for (size_t i = 0; i < count && entry->arg_count > 0; i++) {
        struct pin_filter_rule never = {.arg_count = 1, .args = {nevers[i].arg}};
        if (strcmp(nevers[i].call, entry->name) != 0 || pin_filter_rules_disjoint(&asked, &never))
            continue;
        char message[256];
        (void)snprintf(message, sizeof(message), "'%s' with argument %u of %#llx may not be allowed: it %s",
                       entry->name, (unsigned)never.args[0].index, (unsigned long long)never.args[0].value,
                       nevers[i].reason);
        find(res, at, PIN_ERROR_REFUSED, "compare the argument with exact values, masked to 32 bits",
             message);
        return true;
    }
    return false;
}

static bool never_by_name(struct resolution *res, const struct entry_at *at, const struct pin_syscall *call) {
    char message[256];
    if (call->never == NULL || res->blamed == at->entry)
        return call->never != NULL;
    res->blamed = at->entry;
    const char *within = at->entry->name[0] == '@' ? " of group " : "";
    (void)snprintf(message, sizeof(message), "call '%s'%s%s may not be allowed on baseline '%s': it %s",
                   call->name, within, *within != '\0' ? at->entry->name : "", res->policy->syscalls.baseline,
                   call->never);
    find(res, at, PIN_ERROR_REFUSED,
         *within != '\0'
             ? "name the calls that are needed; only on the baseline \"oci\" may all of it be allowed"
             : "only a policy on the baseline \"oci\" may allow it",
         message);
    return true;
}

static void allow_call(struct resolution *res, const struct entry_at *at, const struct pin_syscall *call) {
    const struct pin_syscall_entry *entry = at->entry;
    bool by_name = strcmp(entry->name, call->name) == 0;
    if (!by_name && call->since != NULL)
        return; /* a group grants what Linux 6.1 has: nobody has looked at what came later */
    if (res->walled && (never_by_name(res, at, call) || never_by_argument(res, at)))
        return;
    size_t row = (size_t)(call - pin_syscalls);
    if (entry->arg_count == 0) {
        grant(res, row);
    } else {
        (void)as_rules(res, row); /* the new rule comes beside them */
        add_rule(res, row, entry->args, entry->arg_count);
    }
}

static void deny_call(struct resolution *res, const struct entry_at *at, const struct pin_syscall *call) {
    const struct pin_syscall_entry *entry = at->entry;
    size_t row = (size_t)(call - pin_syscalls);
    struct pin_filter_rule what = {.name = call->name, .arg_count = entry->arg_count};
    memcpy(what.args, entry->args, sizeof(entry->args));
    if (entry->arg_count == 0)
        res->granted[row] = (struct granted){.extent = EXTENT_NOTHING};
    else if (!pin_filter_subtract(res->arena, as_rules(res, row), &what))
        find(res, at, PIN_ERROR_UNSUPPORTED, "compare exact values, masked to 32 bits",
             "these arguments can't be taken out of what is allowed");
}

static void each_call(struct resolution *res, const struct entry_at *at,
                      void (*apply)(struct resolution *, const struct entry_at *,
                                    const struct pin_syscall *)) {
    const char *name = at->entry->name;
    const struct pin_syscall_set *group = pin_syscall_group(name);
    const struct pin_syscall *call = pin_syscall_find(name);
    char message[160];
    if (strcmp(name, ANY_CALL) == 0) {
        for (size_t i = 0; i < pin_syscalls_count; i++)
            apply(res, at, &pin_syscalls[i]);
    } else if (group != NULL && at->entry->arg_count > 0) {
        find(res, at, PIN_ERROR_INVALID, "name the calls one by one", "a group can't have arguments");
    } else if (group != NULL) {
        for (size_t i = 0; i < group->count; i++)
            apply(res, at, &pin_syscalls[group->rows[i]]);
    } else if (call != NULL) {
        apply(res, at, call);
    } else {
        const char *near = pin_syscall_suggest(name);
        char hint[96] = "docs/syscalls.md lists the calls and groups";
        if (near != NULL)
            (void)snprintf(hint, sizeof(hint), "did you mean \"%s\"?", near);
        (void)snprintf(message, sizeof(message), "no system call %sis called '%.64s'",
                       name[0] == '@' ? "group " : "", name);
        find(res, at, PIN_ERROR_INVALID, hint, message);
    }
}

/* Drops a rule that another one of the call contains; two that are equal leave the first. */
static void simplify(struct pin_filter_rules *rules) {
    for (size_t i = 0; i < rules->count; i++)
        for (size_t j = 0; j < rules->count; j++)
            if (i != j && pin_filter_rule_within(&rules->items[j], &rules->items[i])) {
                memmove(&rules->items[j], &rules->items[j + 1],
                        (rules->count - j - 1) * sizeof(struct pin_filter_rule));
                rules->count--;
                i -= i > j;
                j--;
            }
}

static size_t count_rules(const struct granted *granted) {
    switch (granted->extent) {
    case EXTENT_NOTHING: return 0;
    case EXTENT_WHOLE: return 1;
    case EXTENT_GUARDED: return granted->guard->count + granted->guard->idle_count;
    case EXTENT_RULES: return granted->rules.count;
    }
    abort();
}

static struct pin_filter_rule guarded_rule(const struct pin_guard *guard, size_t i) {
    bool idle = i >= guard->count;
    const struct pin_guard_case *from = idle ? &guard->idle[i - guard->count] : &guard->cases[i];
    struct pin_filter_rule rule = rule_of(guard->call, from->args, from->arg_count);
    if (idle)
        rule.action = PIN_FILTER_ERRNO; /* 0: success */
    return rule;
}

/* Writes the rules of one call; returns how many. */
static size_t write_call(const struct granted *granted, const struct pin_syscall *call,
                         struct pin_filter_rule *to) {
    size_t count = count_rules(granted);
    if (count == 0 && call->since == NULL && pin_syscall_in(&pin_syscall_enosys, call)) {
        *to = (struct pin_filter_rule){.name = call->name, .action = PIN_FILTER_ERRNO, .error = ENOSYS};
        return 1;
    }
    for (size_t i = 0; i < count; i++) {
        if (granted->extent == EXTENT_RULES)
            to[i] = granted->rules.items[i];
        else if (granted->extent == EXTENT_GUARDED)
            to[i] = guarded_rule(granted->guard, i);
        else
            to[i] = rule_of(call->name, NULL, 0);
    }
    return count;
}

/* The calls come by their names: with the few rules of each in order, so are all. */
static size_t write_sorted(const struct granted *granted, const struct pin_syscall *call,
                           struct pin_filter_rule *to) {
    struct pin_filter one = {.rules = to, .rule_count = write_call(granted, call, to)};
    if (one.rule_count > 1 || (one.rule_count == 1 && to->arg_count > 1))
        pin_filter_sort(&one);
    return one.rule_count;
}

static void write_rules(struct resolution *res, struct pin_filter *filter) {
    size_t total = pin_syscall_enosys.count;
    for (size_t row = 0; row < pin_syscalls_count; row++) {
        if (res->granted[row].extent == EXTENT_RULES)
            simplify(&res->granted[row].rules);
        total += count_rules(&res->granted[row]);
    }
    filter->rules = pin_arena_array(res->arena, total, sizeof(struct pin_filter_rule));
    for (size_t row = 0; row < pin_syscalls_count; row++)
        if (pin_syscalls[row].number[res->arch] >= 0)
            filter->rule_count +=
                write_sorted(&res->granted[row], &pin_syscalls[row], &filter->rules[filter->rule_count]);
    pin_filter_sort(filter); /* finds nothing left to do */
}

static bool start_from_baseline(struct resolution *res) {
    const char *name = res->policy->syscalls.baseline;
    const struct pin_syscall_set *baseline = pin_syscall_baseline(name);
    if (baseline == NULL) {
        (void)pin_find(res->found, PIN_ERROR_INVALID, "/syscalls/baseline",
                       "one of \"strict\", \"tool\", \"build\" and \"oci\"", "no baseline is called '%s'",
                       name);
        return false;
    }
    res->walled = strcmp(name, "oci") != 0;
    for (size_t i = 0; i < baseline->count; i++)
        if (pin_syscalls[baseline->rows[i]].since == NULL)
            grant(res, baseline->rows[i]);
    return true;
}

bool pin_policy_filter(const struct pin_policy *policy, enum pin_arch arch, struct pin_arena *arena,
                       struct pin_filter *filter, struct pin_findings *found) {
    struct resolution *res = pin_arena_alloc(arena, sizeof(*res));
    *res = (struct resolution){.policy = policy, .arch = arch, .arena = arena, .found = found};
    size_t before = found->count + found->dropped;
    if (!start_from_baseline(res))
        return false;
    for (size_t i = 0; i < policy->syscalls.allow_count; i++)
        each_call(res, &(struct entry_at){&policy->syscalls.allow[i], "allow", i}, allow_call);
    for (size_t i = 0; i < policy->syscalls.deny_count; i++)
        each_call(res, &(struct entry_at){&policy->syscalls.deny[i], "deny", i}, deny_call);
    if (found->count + found->dropped > before)
        return false;
    bool kill = policy->syscalls.on_deny == PIN_ON_DENY_KILL;
    struct pin_filter result = {.present = true,
                                .default_action = kill ? PIN_FILTER_KILL_PROCESS : PIN_FILTER_ERRNO,
                                .default_error = kill ? 0 : EPERM};
    result.archs[arch] = true;
    write_rules(res, &result);
    *filter = result;
    return true;
}
