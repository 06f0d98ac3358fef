/* `pinfold tool call`: a request is read and its arguments checked; then it is a run like any other, of the
 * runner that this program carries, or goes to a sandbox that waits for it. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/names.h"
#include "runtime/tool/fingerprint.h"
#include "runtime/tool/result.h"
#include "tools/pinfold-tool/packet.h"
#include "tools/pinfold-tool/request.h"
#include "tools/pinfold-tool/runners.h"
#include "tools/pinfold-tool/verbs.h"
#include "tools/pinfold-tool/warm.h"
#include "tools/pinfold/one_shot.h"
#include "tools/pinfold/refusal.h"
#include "tools/pinfold/report.h"

static const struct pin_option options[] = {PIN_CALL_ROWS};

struct cold { /* a call that has a sandbox of its own */
    struct pin_call call;
    struct pin_one_shot run;
    char key[PIN_TOOL_KEY_TEXT];
    uint8_t digest[PIN_SHA256_SIZE]; /* of all that shapes the sandbox */
    char note[400];                  /* why it is run cold, where it asked for more */
};

static int print_result(struct cold *cold) {
    struct pin_error err = {0};
    int code = PIN_REPORT_EXIT, fault = 0;
    if (pin_is_set(&cold->run.audit.fault))
        fault = pin_report(&cold->run.audit.fault, false);
    if (pin_is_set(&cold->run.receipt_fault))
        fault = pin_report(&cold->run.receipt_fault, false);
    json_t *json = pin_tool_result_json(&cold->run.result, cold->key, &code);
    if (json != NULL && cold->note[0] != '\0')
        (void)json_array_append_new(json_object_get(json, "notes"), json_string(cold->note));
    pin_call_deps_tell(&cold->call.deps, json);
    bool told = json != NULL ? pin_json_print(STDOUT_FILENO, json, &err)
                             : pin_fail(&err, PIN_ERROR_EXHAUSTED, "the result can't be held: memory is out");
    json_decref(json);
    if (!told) /* a result that nobody got is no success */
        fault = pin_report(&err, false);
    return fault != 0 ? fault : code;
}

static int run_planned(struct cold *cold, const struct pin_call_options *values) {
    struct pin_error err = {0};
    const struct pin_tool_request *request = &cold->call.request;
    bool ready =
        pin_tool_fingerprint(cold->run.front.bundle, &cold->call.shape, PIN_TOOL_SCOPE_SANDBOX, cold->digest,
                             &err) &&
        pin_call_open_sealed(&cold->call.config.stored, &cold->call.env, &cold->run.front.sealed, &err);
    PIN_CLOSE int input = ready ? pin_packet_make(request, PIN_RUNNER_COLD, NULL, cold->key, &err) : -1;
    const struct pin_one_shot_settings settings = {
        .output = PIN_OUTPUT_CAPTURE,
        .input = input,
        .fingerprint = true,
        .digest = cold->digest,
        .audit_sync = values->audit_sync,
        .receipt = values->receipt,
        .io = PIN_IO_AUTO,
    };
    if (input >= 0 && pin_one_shot_run(&cold->run, &settings, &err))
        return print_result(cold);
    if (pin_is_set(&cold->run.audit.fault))
        (void)pin_report(&cold->run.audit.fault, false);
    return pin_report(&err, true);
}

static int run_cold(struct cold *cold, const struct pin_call_options *values, struct pin_findings *found) {
    cold->run.ahead = pin_ahead_start();
    return pin_front_plan(&cold->run.front, found)
               ? run_planned(cold, values)
               : pin_refusal_report(&cold->run.front, found, values->audit_sync, true);
}

static int print_answer(json_t *result, int code) {
    struct pin_error err = {0};
    bool told = pin_json_print(STDOUT_FILENO, result, &err);
    json_decref(result);
    return told ? code : pin_report(&err, false);
}

/* In a sandbox that is there; or else cold, and the next one finds one. */
static int run_warm(struct cold *cold, const struct pin_call_options *values, struct pin_findings *found) {
    struct pin_warm warm = pin_call_warm(&cold->call, &cold->run.front);
    struct pin_error err = {0};
    json_t *result = NULL;
    int code = 0;
    warm.receipt = values->receipt != NULL;
    warm.may_hand = true;
    enum pin_warm_end end = pin_warm_begin(&warm, &err);
    if (end == PIN_WARM_NONE)
        end = pin_warm_call(&warm, &result, &code, &err);
    if (end == PIN_WARM_CANNOT)
        (void)snprintf(cold->note, sizeof(cold->note), "reuse: the call had a sandbox of its own: %s",
                       err.message);
    if (end == PIN_WARM_ANSWERED)
        pin_call_deps_tell(&cold->call.deps, result);
    if (end == PIN_WARM_FAILED)
        code = pin_report(&err, true);
    else
        code = end == PIN_WARM_ANSWERED ? print_answer(result, code) : run_cold(cold, values, found);
    if (pin_warm_wants_more(&warm, end))
        pin_warm_top_up_behind(&warm);
    pin_warm_free(&warm);
    return code;
}

static bool resolve(struct cold *cold, const char *name, const struct pin_call_options *values,
                    struct pin_findings *found) {
    size_t size = 0;
    PIN_FREE char *text = pin_call_read(name, &size, found);
    return text != NULL && pin_call_resolve(&cold->call, &cold->run.front, text, size, values, found);
}

static int run_call(const struct pin_invocation *invocation) {
    const struct pin_call_options *values = invocation->values;
    static struct pin_findings found;
    struct cold cold = {.run = PIN_ONE_SHOT_NONE};
    bool ok =
        resolve(&cold, invocation->argument_count > 0 ? invocation->arguments[0] : NULL, values, &found);
    int code = !ok ? pin_refusal_report(&cold.run.front, &found, values->audit_sync, true)
               : cold.call.request.reuse == PIN_TOOL_REUSE_COLD ? run_cold(&cold, values, &found)
                                                                : run_warm(&cold, values, &found);
    pin_one_shot_free(&cold.run);
    pin_call_release(&cold.call);
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
                   "Exit codes: 0 success, 1 the tool failed, 124 time limit, 137 memory or output limit, "
                   "125 refused, with {\"error\": …} instead of a result.",
    .example = "  echo '{\"language\": \"python\", \"name\": \"add\", \"args\": {\"a\": 1, \"b\": 2},\n"
               "    \"source\": \"def add(a, b): return a + b\"}' | pinfold tool call",
    .options = options,
    .option_count = PIN_COUNT(options),
    .values_size = sizeof(struct pin_call_options),
    .most_arguments = 1,
    .run = run_call,
};
