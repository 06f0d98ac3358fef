#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/names.h"
#include "base/text.h"
#include "base/units.h"
#include "policy/audit/trace_parts.h"
#include "policy/audit/why.h"
#include "policy/checks.h"
#include "policy/covers.h"
#include "policy/egress_judge.h"
#include "policy/egress_rule.h"
#include "policy/grants.h"
#include "policy/policy_write.h"

static void append(json_t *list, json_t *value) {
    (void)json_array_append_new(list, value);
}

/* --- would-deny --- */

struct judge {
    const struct pin_trace *trace;
    struct pin_arena arena;
    json_t *list;
};

static bool is_told(const json_t *list, const char *question) {
    const json_t *item;
    size_t i;
    json_array_foreach(list, i, item) if (strcmp(json_string_value(json_object_get(item, "question")),
                                                 question) == 0) return true;
    return false;
}

static void ask(struct judge *judge, const struct pin_question *question, uint64_t times, bool also_denied) {
    struct pin_answer answer = pin_why(judge->trace->policy, question, NULL, &judge->arena);
    if (pin_answer_allows(&answer) || is_told(judge->list, question->text))
        return;
    json_t *object = pin_answer_json(question, &answer);
    (void)json_object_set_new(object, "times", json_integer((json_int_t)times));
    (void)json_object_set_new(object, "also_denied", json_boolean(also_denied));
    append(judge->list, object);
}

static void ask_line(struct judge *judge, const char *line, uint64_t times, bool also_denied) {
    struct pin_question question;
    struct pin_error err = {0};
    if (pin_question_parse_line(&question, &judge->arena, line, &err))
        ask(judge, &question, times, also_denied);
}

/* With the arguments that rules look at; those in front of them are given too, and nobody looks. */
static void judge_call(struct judge *judge, const struct pin_recorded_call *call) {
    const struct pin_syscall *row = pin_syscall_find(call->name);
    unsigned mask = judge->trace->recording->looked_at[row - pin_syscalls];
    struct pin_question question = {.kind = PIN_ASK_SYSCALL, .name = call->name};
    const char *text = pin_arena_printf(&judge->arena, "syscall %s", call->name);
    if (pin_syscall_in(&pin_syscall_enosys, row))
        return; /* programs take another way then */
    for (unsigned i = 0; i < PIN_FILTER_ARGS_MAX; i++)
        if (mask >> i != 0) {
            question.args[i] = call->args[i];
            question.arg_count = i + 1;
            text = pin_arena_printf(&judge->arena, "%s 0x%" PRIx64, text, call->args[i]);
        }
    question.text = text;
    ask(judge, &question, call->count, call->denied);
}

/* Devices and the kernel's own are no matter of policies; a write that the trace denied too is no news. */
static void judge_path(struct judge *judge, const struct pin_recorded_path *path) {
    bool kernels = pin_path_beneath(path->path, "/proc") || pin_path_beneath(path->path, "/sys");
    if ((path->uses & PIN_USE_WRITE) == 0 || !pin_is_plain_path(path->path) || kernels)
        return;
    ask_line(judge, pin_arena_printf(&judge->arena, "write %s", path->path), 1, false);
}

static bool is_granted(const struct pin_policy *policy, const char *host) {
    const struct pin_egress_rules rules = {.allow = policy->network.egress,
                                           .allow_count = policy->network.egress_count,
                                           .deny = policy->network.deny,
                                           .deny_count = policy->network.deny_count};
    return host == NULL || pin_egress_judge_name(&rules, host).allowed;
}

static void judge_target(struct judge *judge, const struct pin_recorded_target *target) {
    if (target->port == 0 && is_granted(judge->trace->policy->policy, target->host))
        return; /* which port it was asked for isn't known, and some port is granted */
    ask_line(judge, pin_trace_target_question(&judge->arena, target), target->count, false);
}

static void judge_peaks(struct judge *judge) {
    const struct pin_recording *recording = judge->trace->recording;
    const struct {
        const char *name;
        enum pin_field field;
        uint64_t value;
    } rows[] = {
        {"memory",    PIN_FIELD_MEMORY,         recording->peaks.memory_bytes},
        {"pids",      PIN_FIELD_PIDS,           recording->peaks.pids        },
        {"files",     PIN_FIELD_FILES,          recording->peaks.files       },
        {"wall_time", PIN_FIELD_WALL_TIME,      recording->peaks.wall_ns     },
        {"cpu_time",  PIN_FIELD_CPU_TIME,       recording->peaks.cpu_ns      },
        {"stdout",    PIN_FIELD_STDOUT,         recording->peaks.stdout_bytes},
        {"stderr",    PIN_FIELD_STDERR,         recording->peaks.stderr_bytes},
        {"tmp",       PIN_FIELD_FILESYSTEM_TMP, recording->peaks.tmp_bytes   },
    };
    for (size_t i = 0; i < PIN_COUNT(rows); i++) {
        const struct pin_question question = {
            .kind = PIN_ASK_LIMIT,
            .text = pin_arena_printf(&judge->arena, "limit %s %" PRIu64, rows[i].name, rows[i].value),
            .name = rows[i].name,
            .field = rows[i].field,
            .has_value = true,
            .value = rows[i].value,
        };
        ask(judge, &question, 1, false);
    }
}

json_t *pin_trace_would_deny(const struct pin_trace *trace) {
    struct judge judge = {.trace = trace, .list = json_array()};
    for (size_t i = 0; i < trace->recording->call_count; i++)
        judge_call(&judge, &trace->recording->calls[i]);
    for (size_t i = 0; i < trace->recording->path_count; i++)
        judge_path(&judge, &trace->recording->paths[i]);
    for (size_t i = 0; i < trace->recording->target_count; i++)
        judge_target(&judge, &trace->recording->targets[i]);
    for (size_t i = 0; i < trace->secret_count; i++)
        ask_line(&judge,
                 pin_arena_printf(&judge.arena, "secret %.*s", (int)strcspn(trace->secrets[i], ":"),
                                  trace->secrets[i]),
                 1, false);
    judge_peaks(&judge);
    pin_arena_free(&judge.arena);
    return judge.list;
}

/* --- report --- */

struct report {
    const struct pin_trace *trace;
    const struct pin_policy *policy;
    struct pin_arena arena;
    json_t *list;
};

static void unused(struct report *report, enum pin_field field, size_t index, const void *item,
                   const char *why) {
    char place[PIN_PLACE_TEXT];
    json_t *object =
        json_pack("{s:s, s:o, s:s, s:s}", "rule",
                  pin_arena_printf(&report->arena, "%s/%zu", pin_field_pointer(field), index), "value",
                  json_loads(pin_policy_item_text(&report->arena, field, item), JSON_DECODE_ANY, NULL),
                  "place", pin_place_print(place, pin_policy_item_place(field, item)), "unused", why);
    append(report->list, object);
}

static void unused_value(struct report *report, enum pin_field field, json_t *value, const char *why) {
    char place[PIN_PLACE_TEXT];
    append(report->list,
           json_pack("{s:s, s:o, s:s, s:s}", "rule", pin_field_pointer(field), "value", value, "place",
                     pin_place_print(place, &report->policy->places[field]), "unused", why));
}

static unsigned uses_beneath(const struct report *report, const char *folder) {
    const struct pin_recording *recording = report->trace->recording;
    unsigned uses = 0;
    for (size_t i = 0; i < recording->path_count; i++)
        if (pin_path_beneath(recording->paths[i].path, folder))
            uses |= recording->paths[i].uses;
    return uses;
}

static bool was_made(const struct report *report, const struct pin_syscall *row) {
    const struct pin_recording *recording = report->trace->recording;
    for (size_t i = 0; i < recording->call_count; i++)
        if (!recording->calls[i].denied && strcmp(recording->calls[i].name, row->name) == 0)
            return true;
    return false;
}

static bool entry_was_used(const struct report *report, const struct pin_syscall_entry *entry) {
    const struct pin_syscall_set *group = pin_syscall_group(entry->name);
    for (size_t i = 0; group != NULL && i < group->count; i++)
        if (was_made(report, &pin_syscalls[group->rows[i]]))
            return true;
    const struct pin_syscall *row = pin_syscall_find(entry->name);
    return row != NULL && was_made(report, row);
}

static void report_calls(struct report *report) {
    const struct pin_policy *policy = report->policy;
    const struct pin_syscall_set *baseline = pin_syscall_baseline(policy->syscalls.baseline);
    json_t *never = json_array();
    for (size_t i = 0; i < policy->syscalls.allow_count; i++)
        if (!entry_was_used(report, &policy->syscalls.allow[i]))
            unused(report, PIN_FIELD_SYSCALLS_ALLOW, i, &policy->syscalls.allow[i], "never called");
    for (size_t i = 0; baseline != NULL && i < baseline->count; i++)
        if (!was_made(report, &pin_syscalls[baseline->rows[i]]))
            append(never, json_string(pin_syscalls[baseline->rows[i]].name));
    const char *why = pin_arena_printf(
        &report->arena, "%zu of the %zu calls of the baseline '%s' never called", json_array_size(never),
        baseline != NULL ? baseline->count : 0, policy->syscalls.baseline);
    if (json_array_size(never) > 0)
        unused_value(report, PIN_FIELD_SYSCALLS_BASELINE, never, why);
    else
        json_decref(never);
}

static void report_files(struct report *report) {
    const struct pin_policy *policy = report->policy;
    enum pin_access workspace = policy->filesystem.workspace;
    unsigned uses = uses_beneath(report, "/workspace");
    for (size_t i = 0; i < policy->filesystem.write.count; i++)
        if ((uses_beneath(report, policy->filesystem.write.items[i].text) & PIN_USE_WRITE) == 0)
            unused(report, PIN_FIELD_WRITE, i, &policy->filesystem.write.items[i], "never written");
    for (size_t i = 0; i < policy->filesystem.mount_count; i++) {
        const struct pin_mount_rule *mount = &policy->filesystem.mounts[i];
        unsigned in_mount = uses_beneath(report, mount->target);
        if (in_mount == 0)
            unused(report, PIN_FIELD_MOUNTS, i, mount, "never looked at");
        else if (mount->access == PIN_ACCESS_WRITE && (in_mount & PIN_USE_WRITE) == 0)
            unused(report, PIN_FIELD_MOUNTS, i, mount, "read, and never written");
    }
    if (workspace == PIN_ACCESS_NONE || (uses & PIN_USE_WRITE) != 0)
        return;
    if (report->trace->workspace == PIN_ACCESS_NONE)
        unused_value(report, PIN_FIELD_WORKSPACE_ACCESS, json_string(pin_access_name(workspace)),
                     "the run brought no workspace");
    else if (workspace != PIN_ACCESS_READ)
        unused_value(report, PIN_FIELD_WORKSPACE_ACCESS, json_string(pin_access_name(workspace)),
                     "read at most, and never written");
}

static bool rule_was_used(const struct report *report, const struct pin_egress_rule *rule) {
    const struct pin_recording *recording = report->trace->recording;
    const struct pin_egress_rules alone = {.allow = rule, .allow_count = 1};
    for (size_t i = 0; i < recording->target_count; i++) {
        const struct pin_recorded_target *target = &recording->targets[i];
        struct pin_destination to = {
            .host = target->host, .port = target->port, .protocol = target->protocol};
        memcpy(to.address, target->address, sizeof(to.address));
        if (target->port == 0 ? target->host != NULL && pin_egress_judge_name(&alone, target->host).allowed
                              : pin_egress_judge(&alone, &to).allowed)
            return true;
    }
    return false;
}

static bool was_asked_for(struct report *report, const char *pattern) {
    for (size_t i = 0; i < report->trace->secret_count; i++) {
        const char *name = pin_arena_strndup(&report->arena, report->trace->secrets[i],
                                             strcspn(report->trace->secrets[i], ":"));
        if (pin_glob_match(pattern, name))
            return true;
    }
    return false;
}

static void report_grants(struct report *report) {
    const struct pin_policy *policy = report->policy;
    for (size_t i = 0; i < policy->network.egress_count; i++)
        if (!rule_was_used(report, &policy->network.egress[i]))
            unused(report, PIN_FIELD_EGRESS, i, &policy->network.egress[i], "never wanted");
    for (size_t i = 0; i < policy->secrets.count; i++)
        if (!was_asked_for(report, policy->secrets.items[i].text))
            unused(report, PIN_FIELD_SECRETS, i, &policy->secrets.items[i], "the run didn't ask for it");
}

/* Of a limit more than four times the peak, what would do. */
static void report_limit(struct report *report, enum pin_field field, uint64_t limit, uint64_t peak,
                         uint64_t step, char *(*print)(char to[PIN_UNITS_TEXT], uint64_t value)) {
    char most[PIN_UNITS_TEXT], room[PIN_UNITS_TEXT];
    uint64_t enough = pin_trace_room(peak, 2, step);
    if (limit == PIN_UNLIMITED || limit / 4 < peak || limit <= enough)
        return;
    unused_value(report, field, json_string(print(most, limit)),
                 pin_arena_printf(&report->arena, "the peak was less than a quarter of it: %s would do",
                                  print(room, enough)));
}

static char *print_count(char to[PIN_UNITS_TEXT], uint64_t value) {
    (void)snprintf(to, PIN_UNITS_TEXT, "%" PRIu64, value);
    return to;
}

static void report_limits(struct report *report) {
    const struct pin_recording *recording = report->trace->recording;
    const struct pin_policy *policy = report->policy;
    report_limit(report, PIN_FIELD_MEMORY, policy->resources.memory_bytes, recording->peaks.memory_bytes,
                 64 * PIN_MIB, pin_print_size);
    report_limit(report, PIN_FIELD_PIDS, policy->resources.pids, recording->peaks.pids, 8, print_count);
    report_limit(report, PIN_FIELD_WALL_TIME, policy->resources.wall_time_ns, recording->peaks.wall_ns,
                 10 * PIN_NS_PER_S, pin_print_time);
    report_limit(report, PIN_FIELD_FILESYSTEM_TMP, policy->filesystem.tmp_bytes, recording->peaks.tmp_bytes,
                 16 * PIN_MIB, pin_print_size);
}

json_t *pin_trace_unused(const struct pin_trace *trace) {
    struct report report = {.trace = trace, .policy = trace->policy->policy, .list = json_array()};
    report_calls(&report);
    report_files(&report);
    report_grants(&report);
    report_limits(&report);
    pin_arena_free(&report.arena);
    return report.list;
}
