#include "policy/filter.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/names.h"
#include "policy/syscalls.h"

static const char *const action_names[] = {
    [PIN_FILTER_ALLOW] = "SCMP_ACT_ALLOW",
    [PIN_FILTER_ERRNO] = "SCMP_ACT_ERRNO",
    [PIN_FILTER_KILL_PROCESS] = "SCMP_ACT_KILL_PROCESS",
    [PIN_FILTER_KILL_THREAD] = "SCMP_ACT_KILL_THREAD",
    [PIN_FILTER_TRAP] = "SCMP_ACT_TRAP",
    [PIN_FILTER_TRACE] = "SCMP_ACT_TRACE",
    [PIN_FILTER_LOG] = "SCMP_ACT_LOG",
    [PIN_FILTER_NOTIFY] = "SCMP_ACT_NOTIFY",
};
_Static_assert(PIN_COUNT(action_names) == PIN_FILTER_ACTION_COUNT, "every action has a name");

static const char *const op_names[] = {
    [PIN_FILTER_EQ] = "SCMP_CMP_EQ", [PIN_FILTER_MASKED_EQ] = "SCMP_CMP_MASKED_EQ",
    [PIN_FILTER_NE] = "SCMP_CMP_NE", [PIN_FILTER_LT] = "SCMP_CMP_LT",
    [PIN_FILTER_LE] = "SCMP_CMP_LE", [PIN_FILTER_GE] = "SCMP_CMP_GE",
    [PIN_FILTER_GT] = "SCMP_CMP_GT",
};
_Static_assert(PIN_COUNT(op_names) == PIN_FILTER_OP_COUNT, "every comparison has a name");

static const char *const arch_names[] = {
    [PIN_ARCH_X86_64] = "SCMP_ARCH_X86_64",
    [PIN_ARCH_AARCH64] = "SCMP_ARCH_AARCH64",
};
_Static_assert(PIN_COUNT(arch_names) == PIN_ARCH_COUNT, "every architecture has a name");

enum pin_arch pin_arch_native(void) {
#if defined(__x86_64__)
    return PIN_ARCH_X86_64;
#elif defined(__aarch64__)
    return PIN_ARCH_AARCH64;
#else
#error "no table of system calls for this architecture"
#endif
}

const char *pin_filter_action_name(enum pin_filter_action action) {
    return action_names[action];
}

bool pin_filter_gives_errno(enum pin_filter_action action) {
    return action == PIN_FILTER_ERRNO || action == PIN_FILTER_TRACE;
}

const char *pin_filter_op_name(enum pin_filter_op op) {
    return op_names[op];
}

const char *pin_arch_name(enum pin_arch arch) {
    return arch_names[arch];
}

/* --- what a filter says --- */

static bool arg_matches(const struct pin_filter_arg *arg, uint64_t value) {
    switch (arg->op) {
    case PIN_FILTER_EQ: return value == arg->value;
    case PIN_FILTER_MASKED_EQ: return (value & arg->mask) == arg->value;
    case PIN_FILTER_NE: return value != arg->value;
    case PIN_FILTER_LT: return value < arg->value;
    case PIN_FILTER_LE: return value <= arg->value;
    case PIN_FILTER_GE: return value >= arg->value;
    case PIN_FILTER_GT: return value > arg->value;
    case PIN_FILTER_OP_COUNT: break;
    }
    abort();
}

bool pin_filter_rule_matches(const struct pin_filter_rule *rule, const uint64_t args[PIN_FILTER_ARGS_MAX]) {
    for (size_t i = 0; i < rule->arg_count; i++)
        if (!arg_matches(&rule->args[i], args[rule->args[i].index]))
            return false;
    return true;
}

/* How soon seccomp(2) obeys it where several filters speak. */
static int severity(enum pin_filter_action action) {
    static const int order[] = {
        [PIN_FILTER_ALLOW] = 0,       [PIN_FILTER_LOG] = 1,          [PIN_FILTER_TRACE] = 2,
        [PIN_FILTER_NOTIFY] = 3,      [PIN_FILTER_ERRNO] = 4,        [PIN_FILTER_TRAP] = 5,
        [PIN_FILTER_KILL_THREAD] = 6, [PIN_FILTER_KILL_PROCESS] = 7,
    };
    return order[action];
}

static bool rule_names(const struct pin_filter *filter, const char *name) {
    for (size_t i = 0; i < filter->rule_count; i++)
        if (strcmp(filter->rules[i].name, name) == 0)
            return true;
    return false;
}

/* Whether the filter speaks about the number at all: a kernel of Linux 6.1 has the call, or a rule names it.
 */
static bool knows(const struct pin_filter *filter, enum pin_arch arch, uint32_t number) {
    const struct pin_syscall *call = pin_syscall_at(arch, number);
    return call != NULL && (call->since == NULL || rule_names(filter, call->name));
}

bool pin_filter_hides_unknown(const struct pin_filter *filter) {
    return severity(filter->default_action) >= severity(PIN_FILTER_ERRNO) &&
           !(filter->default_action == PIN_FILTER_ERRNO && filter->default_error == ENOSYS);
}

struct pin_filter_verdict pin_filter_judge(const struct pin_filter *filter, enum pin_arch arch,
                                           uint32_t number, const uint64_t args[PIN_FILTER_ARGS_MAX]) {
    struct pin_filter_verdict verdict = {.action = filter->default_action, .error = filter->default_error};
    const struct pin_syscall *call = pin_syscall_at(arch, number);
    for (size_t i = 0; call != NULL && i < filter->rule_count; i++) {
        const struct pin_filter_rule *rule = &filter->rules[i];
        if (strcmp(rule->name, call->name) == 0 && pin_filter_rule_matches(rule, args) &&
            (verdict.rule == NULL || severity(rule->action) > severity(verdict.action)))
            verdict = (struct pin_filter_verdict){rule->action, rule->error, rule};
    }
    if (verdict.rule == NULL && pin_filter_hides_unknown(filter) && !knows(filter, arch, number))
        verdict = (struct pin_filter_verdict){PIN_FILTER_ERRNO, ENOSYS, NULL};
    return verdict;
}

/* --- one order --- */

static int compare_numbers(uint64_t a, uint64_t b) {
    return (a > b) - (a < b);
}

static int compare_args(const struct pin_filter_arg *a, const struct pin_filter_arg *b) {
    int order = compare_numbers(a->index, b->index);
    if (order == 0)
        order = compare_numbers(a->op, b->op);
    if (order == 0)
        order = compare_numbers(a->mask, b->mask);
    return order != 0 ? order : compare_numbers(a->value, b->value);
}

static int compare_rules(const void *left, const void *right) {
    const struct pin_filter_rule *a = left, *b = right;
    int order = a->name == b->name ? 0 : strcmp(a->name, b->name);
    if (order == 0)
        order = compare_numbers(a->arg_count, b->arg_count);
    for (size_t i = 0; order == 0 && i < a->arg_count; i++)
        order = compare_args(&a->args[i], &b->args[i]);
    if (order == 0)
        order = compare_numbers(a->action, b->action);
    return order != 0 ? order : compare_numbers(a->error, b->error);
}

static int compare_args_void(const void *left, const void *right) {
    return compare_args(left, right);
}

static bool is_sorted(const struct pin_filter *filter) {
    for (size_t i = 1; i < filter->rule_count; i++)
        if (compare_rules(&filter->rules[i - 1], &filter->rules[i]) >= 0)
            return false;
    for (size_t i = 0; i < filter->rule_count; i++)
        for (size_t j = 1; j < filter->rules[i].arg_count; j++)
            if (compare_args(&filter->rules[i].args[j - 1], &filter->rules[i].args[j]) > 0)
                return false;
    return true;
}

void pin_filter_sort(struct pin_filter *filter) {
    if (filter->rule_count == 0 || is_sorted(filter))
        return;
    for (size_t i = 0; i < filter->rule_count; i++)
        if (filter->rules[i].arg_count > 1)
            qsort(filter->rules[i].args, filter->rules[i].arg_count, sizeof(struct pin_filter_arg),
                  compare_args_void);
    qsort(filter->rules, filter->rule_count, sizeof(struct pin_filter_rule), compare_rules);
    size_t kept = 1;
    for (size_t i = 1; i < filter->rule_count; i++)
        if (compare_rules(&filter->rules[kept - 1], &filter->rules[i]) != 0)
            filter->rules[kept++] = filter->rules[i];
    filter->rule_count = kept;
}
