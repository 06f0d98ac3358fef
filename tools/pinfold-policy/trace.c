#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/io.h"
#include "base/names.h"
#include "base/text.h"
#include "policy/audit/trace.h"
#include "runtime/watch/watcher.h"
#include "tools/pinfold-policy/input.h"
#include "tools/pinfold-policy/verbs.h"
#include "tools/pinfold/input.h"
#include "tools/pinfold/one_shot.h"
#include "tools/pinfold/report.h"

struct trace_options {
    struct pin_front_options front; /* first: PIN_FRONT_ROWS */
    int mode;
    bool egress_any;
    const char *output, *input;
};

static const char *const modes[] = {"learn", "would-deny", "report", NULL};
enum { MODE_LEARN, MODE_WOULD_DENY, MODE_REPORT };

static const struct pin_option options[] = {
    PIN_FRONT_ROWS,
    {"mode",       'm', PIN_OPTION_CHOICE, offsetof(struct trace_options, mode),       NULL,
      "what is made of the recording (learn)",                     modes},
    {"egress-any", 0,   PIN_OPTION_FLAG,   offsetof(struct trace_options, egress_any), NULL,
      "let every name be reached; without it there is no network", NULL },
    {"output",     'o', PIN_OPTION_TEXT,   offsetof(struct trace_options, output),     "FILE",
      "write the learned policy into this new file",               NULL },
    {"stdin",      0,   PIN_OPTION_TEXT,   offsetof(struct trace_options, input),      "FILE|-",
      "what the command reads (nothing)",                          NULL },
};

struct tracing {
    const struct trace_options *values;
    struct pin_one_shot run;
    struct pin_recording recording; /* the watcher's while the command runs */
    struct pin_recording targets;   /* the broker's, meanwhile */
    struct pin_watcher *watcher;
    struct pin_input judged; /* the policy as it would be enforced */
};

/* --- the run --- */

static void widen(void *self, struct pin_policy *policy, const struct pin_policy *site) {
    const struct tracing *tracing = self;
    pin_trace_widen(policy, site, tracing->values->egress_any);
}

static bool start_watching(void *self, struct pin_one_shot *run, struct pin_error *err) {
    struct tracing *tracing = self;
    const struct pin_watcher_options watcher = {
        .listener = run->sandbox.watch,
        .init = run->sandbox.init,
        .filter = &run->front.bundle->seccomp,
        .arch = pin_arch_native(),
        .recording = &tracing->recording,
    };
    tracing->watcher = pin_watcher_start(&watcher, err);
    return tracing->watcher != NULL;
}

static void end_watching(void *self) {
    struct tracing *tracing = self;
    pin_watcher_end(tracing->watcher);
    tracing->watcher = NULL;
}

/* What the broker says: a name that was asked for has no port yet. */
static void note_egress(void *self, const struct pin_egress_event *event) {
    struct tracing *tracing = self;
    struct pin_recorded_target target = {
        .host = event->name_size > 0 ? event->name : NULL,
        .port = (uint16_t)event->port,
        .protocol = (enum pin_protocol)event->protocol,
        .reached = event->kind == PIN_EGRESS_EVENT_CONNECT,
        .count = event->repeated > 0 ? event->repeated : 1,
    };
    bool wanted = event->kind == PIN_EGRESS_EVENT_CONNECT || event->kind == PIN_EGRESS_EVENT_FAIL ||
                  event->kind == PIN_EGRESS_EVENT_REFUSE;
    if (!wanted || event->reason == PIN_EGRESS_BAD_NAME || event->other_protocol != 0)
        return;
    if (event->kind == PIN_EGRESS_EVENT_REFUSE && event->reason >= PIN_EGRESS_TLS_NAME &&
        event->reason <= PIN_EGRESS_NOT_HTTP)
        target.refused = pin_egress_reason_name((enum pin_egress_reason)event->reason);
    memcpy(target.address, event->address, sizeof(target.address));
    pin_recording_target(&tracing->targets, &target);
}

/* What the command prints goes to standard error: standard output is for the answer. */
static int redirect(struct pin_error *err) {
    PIN_CLOSE int answer = fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, 3);
    (void)fflush(stdout);
    if (answer < 0 || dup2(STDERR_FILENO, STDOUT_FILENO) < 0) {
        (void)pin_fail_errno(err, "send the command's output to standard error");
        return -1;
    }
    return pin_steal_fd(&answer);
}

static bool open_input(const char *name, int *input, struct pin_error *err) {
    *input = -1;
    if (name == NULL)
        return true;
    *input = pin_input_open(name, err);
    return *input >= 0;
}

static void take_peaks(struct tracing *tracing) {
    const struct pin_result *result = &tracing->run.result;
    struct pin_recording *recording = &tracing->recording;
    recording->peaks.memory_bytes = result->usage.memory_peak_bytes;
    recording->peaks.pids = result->usage.pids_peak;
    recording->peaks.wall_ns = result->usage.wall_ns;
    recording->peaks.cpu_ns = result->usage.cpu_ns;
    recording->peaks.stdout_bytes = result->out.total_bytes;
    recording->peaks.stderr_bytes = result->err.total_bytes;
    for (size_t i = 0; i < tracing->targets.target_count; i++)
        pin_recording_target(recording, &tracing->targets.targets[i]);
}

static bool run_command(struct tracing *tracing, struct pin_error *err) {
    const struct pin_one_shot_watch watch = {tracing, start_watching, end_watching, note_egress};
    struct pin_one_shot_settings settings = {.output = PIN_OUTPUT_PASS, .watch = &watch};
    PIN_CLOSE int input = -1, answer = redirect(err);
    if (answer < 0 || !open_input(tracing->values->input, &input, err))
        return false;
    settings.input = input;
    bool ok = pin_one_shot_run(&tracing->run, &settings, err);
    (void)dup2(answer, STDOUT_FILENO);
    if (ok)
        take_peaks(tracing);
    return ok;
}

/* --- the answers --- */

static bool host_has(const char *path) {
    return faccessat(AT_FDCWD, path, F_OK, AT_SYMLINK_NOFOLLOW) == 0;
}

static const char *command_text(struct pin_arena *arena, char *const *args, size_t count) {
    const char *text = "";
    for (size_t i = 0; i < count && strlen(text) < 200; i++) {
        char shown[256];
        (void)pin_escape(shown, sizeof(shown), args[i], strlen(args[i]));
        text = pin_arena_printf(arena, "%s%s%s", text, i > 0 ? " " : "", shown);
    }
    return text;
}

/* "name" stays, a path becomes one that holds from everywhere. */
static const char *extends_of(struct pin_arena *arena, const char *policy) {
    char whole[PATH_MAX];
    if (policy == NULL)
        return "tool";
    if (strpbrk(policy, "/.") == NULL || realpath(policy, whole) == NULL)
        return policy;
    return pin_arena_strdup(arena, whole);
}

static struct pin_trace trace_of(struct tracing *tracing, const struct pin_invocation *invocation) {
    const struct pin_front_options *front = &tracing->values->front;
    struct pin_arena *arena = &tracing->run.front.arena;
    return (struct pin_trace){
        .recording = &tracing->recording,
        .policy = &tracing->judged.reach,
        .extends = extends_of(arena, front->policy),
        .command = command_text(arena, invocation->arguments, invocation->argument_count),
        .workspace = tracing->run.front.request.workspace.source != NULL
                         ? tracing->run.front.request.workspace.access
                         : PIN_ACCESS_NONE,
        .secrets = front->secrets.items,
        .secret_count = front->secrets.count,
        .host_has = host_has,
    };
}

static void note_list(const json_t *list, const char *head, const char *second) {
    const json_t *item;
    size_t i;
    if (json_array_size(list) > 0)
        (void)fprintf(stderr, "# %s\n", head);
    json_array_foreach(list, i, item) {
        const json_t *value = json_object_get(item, second);
        PIN_FREE char *text = json_dumps(value, JSON_COMPACT | JSON_ENCODE_ANY);
        (void)fprintf(stderr, "#   %s: %s\n", json_string_value(json_object_get(item, "what")),
                      json_is_string(value) ? json_string_value(value) : text);
    }
}

static bool write_new(const char *path, const json_t *policy, struct pin_error *err) {
    PIN_FREE char *text = json_dumps(policy, JSON_INDENT(1));
    PIN_CLOSE int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOCTTY, 0644);
    if (text == NULL || fd < 0)
        return pin_fail_errno(err, "make '%s'", path);
    return pin_write_all(fd, text, strlen(text), err) && pin_write_all(fd, "\n", 1, err);
}

static json_t *whole(struct tracing *tracing, const char *key, json_t *answer) {
    return json_pack("{s:s, s:o, s:i, s:o}", "mode",
                     modes[tracing->values->mode < 0 ? 0 : tracing->values->mode], key, answer, "exit_code",
                     tracing->run.result.exit_code, "recorded", pin_recording_json(&tracing->recording));
}

static int print_learned(struct tracing *tracing, const struct pin_learned *learned) {
    const struct trace_options *values = tracing->values;
    struct pin_error err = {0};
    int code = tracing->run.result.exit_code == 0 ? PIN_AUDIT_GOOD : PIN_AUDIT_BAD;
    if (values->output != NULL && !write_new(values->output, learned->policy, &err))
        return pin_report(&err, values->front.json);
    if (values->front.json) {
        json_t *object = whole(tracing, "policy", json_incref(learned->policy));
        (void)json_object_set(object, "withheld", learned->withheld);
        (void)json_object_set(object, "wanted", learned->wanted);
        return pin_output_json(object, code);
    }
    note_list(learned->withheld, "not granted: for you to decide", "why");
    note_list(learned->wanted, "tried in vain; would be granted by", "edit");
    if (code != PIN_AUDIT_GOOD)
        (void)fprintf(stderr, "# the command ended with exit code %d: learn from a run that does its work\n",
                      tracing->run.result.exit_code);
    return values->output != NULL ? code : pin_output_json(json_incref(learned->policy), code);
}

static int answer_learn(struct tracing *tracing, const struct pin_trace *trace) {
    static struct pin_findings found;
    struct pin_learned learned;
    int code = pin_trace_learn(trace, &learned, &found)
                   ? print_learned(tracing, &learned)
                   : pin_report_findings(&found, tracing->values->front.json);
    pin_learned_free(&learned);
    return code;
}

static size_t count_unless(const json_t *list, const char *key) {
    const json_t *item;
    size_t i, count = 0;
    json_array_foreach(list, i, item) count += !json_is_true(json_object_get(item, key));
    return count;
}

static void print_text(struct pin_buffer *to, const json_t *item, const char *const *keys,
                       const char *const *heads, size_t count) {
    for (size_t i = 0; i < count; i++) {
        const json_t *value = json_object_get(item, keys[i]);
        if (value == NULL || json_is_null(value))
            continue;
        PIN_FREE char *text = json_dumps(value, JSON_COMPACT | JSON_ENCODE_ANY);
        pin_buffer_printf(to, "%s%s\n", heads[i], json_is_string(value) ? json_string_value(value) : text);
    }
}

static int answer_would_deny(struct tracing *tracing, const struct pin_trace *trace) {
    static const char *const keys[] = {"question", "reason", "rule", "place", "edit", "note"};
    static const char *const heads[] = {
        "", "  because  ", "  rule     ", "  place    ", "  edit     ", "  note     "};
    struct pin_buffer text = {0};
    json_t *list = pin_trace_would_deny(trace), *item;
    size_t i;
    int code = count_unless(list, "also_denied") > 0 ? PIN_AUDIT_BAD : PIN_AUDIT_GOOD;
    if (tracing->values->front.json)
        return pin_output_json(whole(tracing, "would_deny", list), code);
    json_array_foreach(list, i, item) print_text(&text, item, keys, heads, PIN_COUNT(keys));
    if (json_array_size(list) == 0)
        pin_buffer_add(&text, "the policy would have denied nothing\n");
    json_decref(list);
    return pin_output_text(&text, code);
}

static int answer_report(struct tracing *tracing, const struct pin_trace *trace) {
    static const char *const keys[] = {"rule", "value", "place", "unused"};
    static const char *const heads[] = {"", "  grants   ", "  place    ", "  unused   "};
    struct pin_buffer text = {0};
    json_t *list = pin_trace_unused(trace), *item;
    size_t i;
    int code = json_array_size(list) > 0 ? PIN_AUDIT_BAD : PIN_AUDIT_GOOD;
    if (tracing->values->front.json)
        return pin_output_json(whole(tracing, "unused", list), code);
    json_array_foreach(list, i, item) print_text(&text, item, keys, heads, PIN_COUNT(keys));
    if (json_array_size(list) == 0)
        pin_buffer_add(&text, "every grant was used\n");
    json_decref(list);
    return pin_output_text(&text, code);
}

static int answer(struct tracing *tracing, const struct pin_invocation *invocation) {
    const struct pin_trace trace = trace_of(tracing, invocation);
    switch (tracing->values->mode) {
    case MODE_WOULD_DENY: return answer_would_deny(tracing, &trace);
    case MODE_REPORT: return answer_report(tracing, &trace);
    default: return answer_learn(tracing, &trace);
    }
}

/* --- the verb --- */

static bool check_options(const struct trace_options *values, struct pin_findings *found) {
    const struct {
        bool given;
        const char *name, *hint;
    } rows[] = {
        {values->front.bundle != NULL,                        "--bundle", "trace the command that the bundle would run"},
        {values->front.tty,                                   "--tty",    "a traced command has no terminal"           },
        {values->output != NULL && values->mode > MODE_LEARN, "--output", "it is of --mode learn"                      },
    };
    for (size_t i = 0; i < PIN_COUNT(rows); i++)
        if (rows[i].given)
            (void)pin_find(found, PIN_ERROR_USAGE, rows[i].name, rows[i].hint, "%s can't be used here",
                           rows[i].name);
    return !pin_found_any(found);
}

static bool prepare(struct tracing *tracing, const struct pin_invocation *invocation,
                    struct pin_findings *found) {
    struct pin_front_options front = tracing->values->front;
    const struct pin_input_options judged = {.site = front.site};
    front.adjust = widen;
    front.adjust_self = tracing;
    tracing->run.front.request.records = tracing->run.front.request.hands_secrets = true;
    tracing->run.front.request.publishes = true;
    if (!check_options(tracing->values, found) ||
        !pin_input_load(&tracing->judged, front.policy, &judged, found) ||
        !pin_front_bundle(&tracing->run.front, &front, invocation->arguments, invocation->argument_count,
                          found) ||
        !pin_front_plan(&tracing->run.front, found))
        return false;
    const struct pin_policy *policies[] = {tracing->judged.policy, tracing->run.front.ceiling};
    pin_recording_open(&tracing->recording, policies, PIN_COUNT(policies));
    pin_recording_open(&tracing->targets, NULL, 0);
    return true;
}

static int run_trace(const struct pin_invocation *invocation) {
    static struct pin_findings found;
    struct pin_error err = {0};
    struct tracing tracing = {.values = invocation->values, .run = PIN_ONE_SHOT_NONE};
    bool json = tracing.values->front.json;
    int code;
    if (!prepare(&tracing, invocation, &found))
        code = pin_report_findings(&found, json);
    else if (!run_command(&tracing, &err))
        code = pin_report(&err, json);
    else
        code = answer(&tracing, invocation);
    pin_one_shot_free(&tracing.run);
    pin_input_free(&tracing.judged);
    pin_recording_free(&tracing.recording);
    pin_recording_free(&tracing.targets);
    return code;
}

const struct pin_verb pin_policy_verb_trace = {
    .name = "policy trace",
    .synopsis = "-- CMD ARG…",
    .options_end = 1,
    .summary = "learn a policy from a run, or hold a run against one",
    .description =
        "Runs the command in a sandbox in which all may be done that a policy may grant, but for the "
        "network,\n"
        "and records its system calls, the paths and destinations that it names, and what it uses at most.\n"
        "  --mode learn       the smallest policy for it, as a file that extends --policy\n"
        "  --mode would-deny  what --policy would have denied, each with the edit that would allow it\n"
        "  --mode report      which grants of --policy were never used\n"
        "What the command prints goes to standard error. Exit code 0: the command succeeded, nothing would "
        "be\n"
        "denied, all is used; 1: not so; 2: wrong usage, or no sandbox. docs/trace.md has the rules.",
    .example = "  pinfold policy trace --workspace . -o make.json -- make\n"
               "  pinfold run --policy ./make.json --workspace . -- make\n"
               "  pinfold policy trace --mode would-deny --policy ./make.json --workspace . -- make check",
    .options = options,
    .option_count = PIN_COUNT(options),
    .values_size = sizeof(struct trace_options),
    .least_arguments = 1,
    .most_arguments = SIZE_MAX,
    .run = run_trace,
};
