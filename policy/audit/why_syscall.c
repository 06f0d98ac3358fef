#include <inttypes.h>
#include <string.h>

#include "policy/audit/arg_names.h"
#include "policy/audit/why_parts.h"
#include "policy/policy_read.h"
#include "policy/policy_write.h"
#include "policy/syscalls_guard.h"

static bool is_walled(const struct pin_policy *policy) {
    return strcmp(policy->syscalls.baseline, "oci") != 0;
}

/* Whether a rule looks at an argument that the question doesn't give. */
static bool needs_more(const struct pin_filter_rule *rules, size_t count, size_t given) {
    for (size_t i = 0; i < count; i++)
        for (uint8_t j = 0; j < rules[i].arg_count; j++)
            if (rules[i].args[j].index >= given)
                return true;
    return false;
}

static enum pin_answer_verdict verdict_of(const struct pin_filter_verdict *judged) {
    if (pin_reach_passes(judged->action))
        return PIN_ANSWER_ALLOW;
    switch ((int)judged->action) {
    case PIN_FILTER_ERRNO: return PIN_ANSWER_ERRNO;
    case PIN_FILTER_KILL_PROCESS:
    case PIN_FILTER_KILL_THREAD: return PIN_ANSWER_KILL;
    default: return PIN_ANSWER_DENY;
    }
}

static const char *conditions(struct pin_arena *arena, const struct pin_filter_rule *rules, size_t count) {
    const char *text = "";
    size_t shown = 0;
    for (size_t i = 0; i < count && shown < 6; i++)
        if (pin_reach_passes(rules[i].action))
            text = pin_arena_printf(arena, "%s%s(%s)", text, shown++ > 0 ? " or " : "",
                                    pin_reach_describe(arena, &rules[i]));
    return shown < 6 ? text : pin_arena_printf(arena, "%s …", text);
}

static const char *by_text(struct pin_arena *arena, const struct pin_reach_source *source) {
    switch (source->by) {
    case PIN_REACH_BY_DENY: return pin_arena_printf(arena, "syscalls.deny names '%s'", source->text);
    case PIN_REACH_BY_ALLOW: return pin_arena_printf(arena, "syscalls.allow names '%s'", source->text);
    case PIN_REACH_BY_BASELINE: return pin_arena_printf(arena, "the baseline '%s' has it", source->text);
    case PIN_REACH_BY_NOTHING: break;
    }
    return pin_arena_printf(arena, "neither the baseline '%s' nor syscalls.allow names it", source->text);
}

static const char *reason_of(const struct pin_why_context *context, const struct pin_reach_source *source,
                             const struct pin_answer *answer, const struct pin_filter_rule *rules,
                             size_t count) {
    struct pin_arena *arena = context->arena;
    const char *name = context->question->name, *by = by_text(arena, source);
    const struct pin_guard *guard = pin_guard_find(name, is_walled(context->policy));
    bool some = pin_reach_of(context->reach, name) == PIN_REACH_SOME;
    if (answer->verdict == PIN_ANSWER_DEPENDS)
        return pin_arena_printf(arena, "%s, with some arguments: %s", by, conditions(arena, rules, count));
    if (answer->verdict == PIN_ANSWER_ALLOW || !some || source->by == PIN_REACH_BY_DENY)
        return by;
    return pin_arena_printf(arena, "%s, but not with these arguments%s%s", by, guard != NULL ? ": " : "",
                            guard != NULL ? guard->reason : "");
}

/* --- the edit --- */

static bool names_call(const struct pin_syscall_entry *entry, const struct pin_syscall *call) {
    const struct pin_syscall_set *group = pin_syscall_group(entry->name);
    return group != NULL ? pin_syscall_in(group, call) : strcmp(entry->name, call->name) == 0;
}

/* Takes every entry that names the call out of the copy's deny list; their JSON, joined by commas. */
static const char *drop_denials(struct pin_arena *arena, struct pin_policy *copy,
                                const struct pin_syscall *call) {
    const char *text = "";
    size_t kept = 0;
    for (size_t i = 0; i < copy->syscalls.deny_count; i++) {
        struct pin_syscall_entry *entry = &copy->syscalls.deny[i];
        if (names_call(entry, call))
            text = pin_arena_printf(arena, "%s%s%s", text, *text != '\0' ? "," : "",
                                    pin_policy_item_text(arena, PIN_FIELD_SYSCALLS_DENY, entry));
        else
            copy->syscalls.deny[kept++] = *entry;
    }
    copy->syscalls.deny_count = kept;
    return text;
}

/* The call with the arguments that were asked about, as far as its guard looks at them. */
static struct pin_syscall_entry wanted_entry(const struct pin_why_context *context) {
    const struct pin_question *question = context->question;
    const struct pin_guard *guard = pin_guard_find(question->name, is_walled(context->policy));
    struct pin_syscall_entry entry = {.name = question->name};
    bool looked[PIN_FILTER_ARGS_MAX] = {false};
    for (size_t i = 0; guard != NULL && i < guard->count; i++)
        for (uint8_t j = 0; j < guard->cases[i].arg_count; j++)
            looked[guard->cases[i].args[j].index] = true;
    for (size_t i = 0; i < question->arg_count; i++)
        if (looked[i])
            entry.args[entry.arg_count++] = (struct pin_filter_arg){.index = (uint8_t)i,
                                                                    .op = PIN_FILTER_MASKED_EQ,
                                                                    .mask = UINT32_MAX,
                                                                    .value = question->args[i] & UINT32_MAX};
    return entry;
}

static bool lets(const struct pin_why_context *context, const struct pin_policy *policy,
                 struct pin_findings *found) {
    PIN_REACH struct pin_reach reach = {0};
    const struct pin_question *question = context->question;
    if (!pin_reach_make(&reach, policy, context->reach->arch, found))
        return false;
    int number = pin_syscall_number(reach.arch, question->name);
    if (question->arg_count == 0)
        return pin_reach_of(&reach, question->name) != PIN_REACH_NONE;
    return pin_reach_passes(
        pin_filter_judge(&reach.filter, reach.arch, (uint32_t)number, question->args).action);
}

static void append_allow(struct pin_policy *copy, const struct pin_syscall_entry *entry) {
    size_t count = copy->syscalls.allow_count;
    struct pin_syscall_entry *allow = pin_arena_array(&copy->arena, count + 1, sizeof(*allow));
    if (count > 0)
        memcpy(allow, copy->syscalls.allow, count * sizeof(*allow));
    allow[count] = *entry;
    copy->syscalls.allow = allow;
    copy->syscalls.allow_count = count + 1;
}

/* The edit is tried on a copy: what comes back is what would be enforced. */
static void suggest(const struct pin_why_context *context, const struct pin_syscall *call,
                    struct pin_answer *answer) {
    struct pin_arena *arena = context->arena;
    struct pin_findings found = {0};
    struct pin_policy *copy = pin_policy_copy(context->policy);
    const char *removed = drop_denials(arena, copy, call), *text = "";
    if (*removed != '\0') {
        text = pin_arena_printf(arena, "\"deny\":{\"remove\":[%s]}", removed);
        if (removed[1] == '@')
            answer->caution = "the group's other calls are no longer denied either";
    }
    bool enough = *removed != '\0' && lets(context, copy, &found);
    if (!enough) {
        struct pin_syscall_entry entry = wanted_entry(context);
        append_allow(copy, &entry);
        text = pin_arena_printf(arena, "%s%s\"allow\":{\"add\":[%s]}", text, *text != '\0' ? "," : "",
                                pin_policy_item_text(arena, PIN_FIELD_SYSCALLS_ALLOW, &entry));
        enough = lets(context, copy, &found);
    }
    if (enough)
        answer->edit = pin_arena_printf(arena, "{\"syscalls\":{%s}}", text);
    else
        answer->caution = found.count > 0 ? pin_arena_printf(arena, "no edit: %s", found.list[0].message)
                                          : "no edit of syscalls.allow grants these arguments";
    pin_policy_free(copy);
}

/* --- the answer --- */

static struct pin_answer judge(const struct pin_why_context *context, const struct pin_syscall *call) {
    const struct pin_reach *reach = context->reach;
    const struct pin_question *question = context->question;
    struct pin_answer answer = {.verdict = PIN_ANSWER_DEPENDS};
    size_t count;
    const struct pin_filter_rule *rules = pin_reach_rules(reach, call->name, &count);
    struct pin_reach_source source = pin_reach_source(reach, context->arena, call);
    bool some = reach->calls[call - pin_syscalls] == PIN_REACH_SOME;
    if (!some || !needs_more(rules, count, question->arg_count)) {
        struct pin_filter_verdict judged = pin_filter_judge(
            &reach->filter, reach->arch, (uint32_t)call->number[reach->arch], question->args);
        answer.verdict = verdict_of(&judged);
        answer.error = judged.error;
    }
    answer.rule = source.pointer;
    answer.place = source.place;
    answer.reason = reason_of(context, &source, &answer, rules, count);
    return answer;
}

struct pin_answer pin_why_syscall(const struct pin_why_context *context) {
    const struct pin_syscall *call = pin_syscall_find(context->question->name);
    if (call->number[context->reach->arch] < 0)
        return (struct pin_answer){.verdict = PIN_ANSWER_DENY,
                                   .reason = pin_arena_printf(context->arena, "%s has no such system call",
                                                              pin_arch_name(context->reach->arch))};
    struct pin_answer answer = judge(context, call);
    if (answer.verdict != PIN_ANSWER_ALLOW && answer.verdict != PIN_ANSWER_DEPENDS)
        suggest(context, call, &answer);
    return answer;
}
