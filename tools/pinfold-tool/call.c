/* `pinfold tool call`: a request is read and its arguments checked; then it is a run like any other, of the
 * runner that this program carries. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/io.h"
#include "base/names.h"
#include "runtime/tool/env.h"
#include "runtime/tool/fingerprint.h"
#include "runtime/tool/request.h"
#include "runtime/tool/result.h"
#include "tools/pinfold-tool/configure.h"
#include "tools/pinfold-tool/runners.h"
#include "tools/pinfold-tool/verbs.h"
#include "tools/pinfold-tool/warm.h"
#include "tools/pinfold/one_shot.h"
#include "tools/pinfold/report.h"

struct call_options {
    struct pin_front_options front; /* first: PIN_FRONT_ROW */
    const char *receipt, *organisation, *configuration;
    bool audit_sync;
};

#define CALL_ROW(option, type, member, form, text)                                                           \
    { option, 0, type, offsetof(struct call_options, member), form, text, NULL }

/* clang-format off */
static const struct pin_option options[] = {
    CALL_ROW("configuration", PIN_OPTION_TEXT, configuration, "NAME",
             "the stored configuration (the request's, or the organisation's default)"),
    CALL_ROW("organisation", PIN_OPTION_TEXT, organisation, "O", "whose configuration (the request's, or default)"),
    PIN_FRONT_ROW("policy", 'p', PIN_OPTION_TEXT, policy, "P",
                  "the policy: a built-in or installed name, or a file (the request's, the configuration's, or tool)", NULL),
    PIN_FRONT_ROW("site", 0, PIN_OPTION_TEXT, site, "FILE",
                  "the site's floor and ceiling over every policy (/etc/pinfold/site.json)", NULL),
    PIN_FRONT_ROW("image", 0, PIN_OPTION_TEXT, image, "REF", "the image that the root is made from (host)",
                  NULL),
    PIN_FRONT_ROW("workspace", 'w', PIN_OPTION_TEXT, workspace, "DIR[:ro|:cow]",
                  "show this directory at /workspace: read-write, read-only or copy-on-write", NULL),
    PIN_FRONT_ROW("secret", 0, PIN_OPTION_TEXTS, secrets, "NAME[:env=V|:file]", "hand this secret in", NULL),
    PIN_FRONT_ROW("secret-from-env", 0, PIN_OPTION_TEXTS, secret_variables, "NAME=VARIABLE",
                  "this secret's value is in that variable of pinfold's own environment", NULL),
    PIN_FRONT_ROW("egress", 0, PIN_OPTION_TEXTS, egress, "HOST:PORT", "let connections to this host leave",
                  NULL),
    PIN_FRONT_ROW("memory", 0, PIN_OPTION_SIZE, memory, "N", "at most this much memory", NULL),
    PIN_FRONT_ROW("cpus", 0, PIN_OPTION_CPUS, cpus, "N", "at most this many processors", NULL),
    PIN_FRONT_ROW("pids", 0, PIN_OPTION_COUNT, pids, "N", "at most this many processes and threads", NULL),
    CALL_ROW("receipt", PIN_OPTION_TEXT, receipt, "FILE", "write what was enforced, signed, into this new file"),
    CALL_ROW("audit-sync", PIN_OPTION_FLAG, audit_sync, NULL, "each audit record is on the disk before the call goes on"),
};
/* clang-format on */

struct call {
    struct pin_tool_request request;
    struct pin_arena arena;
    struct pin_call_config config;
    struct pin_tool_env env;
    struct pin_front_options front;
    struct pin_one_shot run;
    char key[PIN_TOOL_KEY_TEXT];
    uint8_t digest[PIN_SHA256_SIZE]; /* of all that shapes the sandbox */
    char note[400];                  /* why it is run cold, where it asked for more */
};

static bool read_request(struct call *call, const char *name, struct pin_findings *found) {
    struct pin_error err = {0};
    size_t size;
    bool is_stdin = name == NULL || strcmp(name, "-") == 0;
    PIN_FREE char *text = is_stdin ? pin_read_all(STDIN_FILENO, PIN_TOOL_REQUEST_MAX, &size, &err)
                                   : pin_read_file_at(AT_FDCWD, name, PIN_TOOL_REQUEST_MAX, &size, &err);
    if (text == NULL) {
        (void)pin_wrap(&err, "read the request");
        pin_find_error(found, &err);
        return false;
    }
    return pin_tool_request_parse(&call->request, text, size, found);
}

static void put_labels(struct call *call) {
    const char **labels = NULL;
    size_t count = 0;
    const char *name;
    json_t *value;
    json_object_foreach(call->request.labels, name, value) {
        const char **label = pin_arena_grow(&call->arena, &labels, &count, sizeof(*labels));
        *label = pin_arena_printf(&call->arena, "%s=%s", name, json_string_value(value));
    }
    call->front.labels = (struct pin_texts){labels, count};
}

static bool put_options(struct call *call, const struct call_options *values, struct pin_findings *found) {
    call->front = values->front;
    pin_tool_env(&call->request, &call->config.stored, &call->arena, &call->env);
    call->front.env_over = call->env.over;
    call->front.env_over_count = call->env.over_count;
    call->front.env_under = call->env.under;
    call->front.env_under_count = call->env.under_count;
    call->front.frames = pin_name_find(pin_front_frames, 4, "fd");
    call->front.on_exit = -1;
    if (call->request.timeout_ns > 0)
        call->front.timeout = (struct pin_number){true, call->request.timeout_ns};
    put_labels(call);
    return pin_call_apply_config(&call->config, &call->request, &call->arena, &call->front, found);
}

static bool plan_call(struct call *call, const struct call_options *values, struct pin_findings *found) {
    size_t count = 0;
    if (!pin_call_configure(&call->config, &call->request, values->organisation, values->configuration,
                            &call->arena, found) ||
        !put_options(call, values, found))
        return false;
    char **argv = pin_runner_argv(call->request.language, PIN_RUNNER_COLD, &call->arena, &count);
    call->run.front.request.records = call->run.front.request.hands_secrets = true;
    return pin_front_bundle(&call->run.front, &call->front, argv, count, found);
}

static bool draw_key(struct call *call, struct pin_error *err) {
    unsigned char bytes[(PIN_TOOL_KEY_TEXT - 1) / 2];
    if (getrandom(bytes, sizeof(bytes), 0) != (ssize_t)sizeof(bytes))
        return pin_fail_errno(err, "draw the call's key");
    for (size_t i = 0; i < sizeof(bytes); i++)
        (void)snprintf(call->key + 2 * i, 3, "%02x", bytes[i]);
    return true;
}

/* The runner's stdin, in memory alone: it holds the tool's arguments. */
static int make_input(const struct call *call, struct pin_error *err) {
    const char *more = pin_runner_preface(call->request.language);
    PIN_CLOSE int input = memfd_create("tool-call", MFD_CLOEXEC);
    PIN_FREE char *packet = pin_tool_request_packet(&call->request, call->key, NULL);
    if (packet == NULL)
        errno = ENOMEM;
    if (input < 0 || packet == NULL) {
        (void)pin_fail_errno(err, "hand the request in");
        return -1;
    }
    if ((more != NULL && !pin_write_all(input, more, strlen(more) + 1, err)) ||
        !pin_write_all(input, packet, strlen(packet), err))
        return -1;
    if (lseek(input, 0, SEEK_SET) != 0) {
        (void)pin_fail_errno(err, "hand the request in");
        return -1;
    }
    return pin_steal_fd(&input);
}

static int print_result(struct call *call) {
    struct pin_error err = {0};
    int code = PIN_REPORT_EXIT, fault = 0;
    if (pin_is_set(&call->run.audit.fault))
        fault = pin_report(&call->run.audit.fault, false);
    if (pin_is_set(&call->run.receipt_fault))
        fault = pin_report(&call->run.receipt_fault, false);
    json_t *json = pin_tool_result_json(&call->run.result, call->key, &code);
    if (json != NULL && call->note[0] != '\0')
        (void)json_array_append_new(json_object_get(json, "notes"), json_string(call->note));
    bool told = json != NULL ? pin_json_print(STDOUT_FILENO, json, &err)
                             : pin_fail(&err, PIN_ERROR_EXHAUSTED, "the result can't be held: memory is out");
    json_decref(json);
    if (!told) /* a result that nobody got is no success */
        fault = pin_report(&err, false);
    return fault != 0 ? fault : code;
}

static struct pin_tool_shape shape_of(const struct call *call) {
    const struct pin_tool_config *stored = &call->config.stored;
    return (struct pin_tool_shape){
        .language = pin_runner_program(call->request.language),
        .organisation = stored->organisation,
        .configuration = stored->name,
        .configuration_digest = stored->name != NULL ? stored->digest : NULL,
        .privileged = call->request.privileged,
    };
}

static bool print_fingerprint(struct call *call, struct pin_error *err) {
    const struct pin_tool_shape shape = shape_of(call);
    return pin_tool_fingerprint(call->run.front.bundle, &shape, PIN_TOOL_SCOPE_SANDBOX, call->digest, err);
}

static int run_planned(struct call *call, const struct call_options *values) {
    struct pin_error err = {0};
    bool ready = print_fingerprint(call, &err) && draw_key(call, &err) &&
                 pin_call_open_sealed(&call->config, &call->env, &call->run.front.sealed, &err);
    PIN_CLOSE int input = ready ? make_input(call, &err) : -1;
    const struct pin_one_shot_settings settings = {
        .output = PIN_OUTPUT_CAPTURE,
        .input = input,
        .fingerprint = true,
        .digest = call->digest,
        .audit_sync = values->audit_sync,
        .receipt = values->receipt,
        .io = PIN_IO_AUTO,
    };
    if (input >= 0 && pin_one_shot_run(&call->run, &settings, &err))
        return print_result(call);
    if (pin_is_set(&call->run.audit.fault))
        (void)pin_report(&call->run.audit.fault, false);
    return pin_report(&err, true);
}

static int report_refusal(const struct call *call, const struct pin_findings *found, bool sync) {
    struct pin_error err = {0};
    if (!pin_run_audit_refusal(&call->run.front, found, sync, &err))
        (void)pin_report(&err, false);
    return pin_report_findings(found, true);
}

static int run_cold(struct call *call, const struct call_options *values, struct pin_findings *found) {
    return pin_front_plan(&call->run.front, found) ? run_planned(call, values)
                                                   : report_refusal(call, found, values->audit_sync);
}

static int print_answer(json_t *result, int code) {
    struct pin_error err = {0};
    bool told = pin_json_print(STDOUT_FILENO, result, &err);
    json_decref(result);
    return told ? code : pin_report(&err, false);
}

/* In a sandbox that is there; or else cold, and the next one finds one. */
static int run_warm(struct call *call, const struct call_options *values, struct pin_findings *found) {
    const struct pin_tool_shape shape = shape_of(call);
    struct pin_warm warm = {&call->request, &call->front,          &call->run.front,
                            &shape,         .arena = &call->arena, .state_dir = -1};
    struct pin_error err = {0};
    json_t *result = NULL;
    int code = 0;
    enum pin_warm_end end = PIN_WARM_NONE;
    if (values->receipt != NULL)
        (void)pin_fail(&err, PIN_ERROR_UNSUPPORTED, "it wants a receipt");
    else if (call->env.sealed_count > 0)
        (void)pin_fail(&err, PIN_ERROR_UNSUPPORTED, "it is handed sealed values");
    if (pin_is_set(&err))
        end = PIN_WARM_CANNOT;
    else if (!pin_warm_begin(&warm, &err)) /* it has named what it can't share */
        end = err.kind == PIN_ERROR_UNSUPPORTED ? PIN_WARM_CANNOT : PIN_WARM_FAILED;
    else
        end = pin_warm_call(&warm, &result, &code, &err);
    if (end == PIN_WARM_CANNOT)
        (void)snprintf(call->note, sizeof(call->note), "reuse: the call had a sandbox of its own: %s",
                       err.message);
    if (end == PIN_WARM_FAILED)
        code = pin_report(&err, true);
    else
        code = end == PIN_WARM_ANSWERED ? print_answer(result, code) : run_cold(call, values, found);
    if (end == PIN_WARM_NONE || (end == PIN_WARM_ANSWERED && warm.scope == PIN_TOOL_SCOPE_POOL))
        pin_warm_top_up_behind(&warm);
    pin_warm_end(&warm);
    return code;
}

static int run_call(const struct pin_invocation *invocation) {
    const struct call_options *values = invocation->values;
    const char *name = invocation->argument_count > 0 ? invocation->arguments[0] : NULL;
    static struct pin_findings found;
    struct call call = {.run = PIN_ONE_SHOT_NONE};
    bool ok = read_request(&call, name, &found) && plan_call(&call, values, &found);
    int code = !ok                                         ? report_refusal(&call, &found, values->audit_sync)
               : call.request.reuse == PIN_TOOL_REUSE_COLD ? run_cold(&call, values, &found)
                                                           : run_warm(&call, values, &found);
    pin_one_shot_free(&call.run);
    pin_call_config_free(&call.config);
    pin_tool_request_free(&call.request);
    pin_arena_free(&call.arena);
    return code;
}

const struct pin_verb pin_tool_verb_call = {
    .name = "tool call",
    .synopsis = "[REQUEST.json|-]",
    .summary = "run one function of a tool, in a sandbox of its own",
    .description = "The request is a JSON object (from standard input without a name): language, source, "
                   "name, args and more. Its arguments are checked by the tool's JSON schema before anything "
                   "is built. The result is one JSON object: status, func_return, agent_state, stdout, "
                   "stderr, sandbox_config_fingerprint, usage, notes.\n"
                   "Exit codes: 0 success, 1 the tool failed, 124 time limit, 137 memory limit, 125 refused, "
                   "with {\"error\": …} instead of a result.",
    .example = "  echo '{\"language\": \"python\", \"name\": \"add\", \"args\": {\"a\": 1, \"b\": 2},\n"
               "    \"source\": \"def add(a, b): return a + b\"}' | pinfold tool call",
    .options = options,
    .option_count = PIN_COUNT(options),
    .values_size = sizeof(struct call_options),
    .most_arguments = 1,
    .run = run_call,
};
