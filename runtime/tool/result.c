#include "runtime/tool/result.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>

#include "runtime/tool/lines.h"
#include "runtime/tool/message.h"

struct outcome {
    enum pin_status status;
    struct pin_tool_message message;
    json_t *func_return; /* owned */
    json_t *notes;
};

static void note(struct outcome *outcome, const char *format, ...) __attribute__((format(printf, 2, 3)));

static void note(struct outcome *outcome, const char *format, ...) {
    char text[256];
    va_list list;
    va_start(list, format);
    (void)vsnprintf(text, sizeof(text), format, list);
    va_end(list);
    (void)json_array_append_new(outcome->notes, json_string(text));
}

static json_t *fault(const char *type, const char *message) {
    json_t *text = json_string(message);
    if (text == NULL) /* cut within a character */
        text = json_string("it ended");
    return json_pack("{s:s, s:o, s:n}", "type", type, "message", text, "traceback");
}

static bool had_oversized_frame(const struct pin_result *result) {
    for (size_t i = 0; i < result->frame_count; i++)
        if (result->frames[i].info.verdict == PIN_FRAME_OVERSIZED)
            return true;
    return false;
}

/* The process has ended, and the function hasn't returned. */
static json_t *explain_silence(const struct pin_result *result, bool frame_came) {
    char text[400];
    if (pin_is_set(&result->error))
        return fault("NotStarted", result->error.message);
    if (frame_came)
        return fault("ForgedResult", "a frame came on the result channel that isn't the runner's");
    if (had_oversized_frame(result))
        return fault("ResultTooLarge", "the result is larger than the policy's resources.frame");
    (void)snprintf(text, sizeof(text), "the process ended with exit code %d before the function returned",
                   result->exit_code);
    return fault("NoResult", text);
}

static json_t *explain_end(const struct pin_result *result) {
    static const char *const texts[] = {
        [PIN_STATUS_TIMEOUT] = "the call took longer than its time limit",
        [PIN_STATUS_MEMORY] = "the call needed more than its memory limit",
        [PIN_STATUS_OUTPUT] = "the call printed more than its output limit",
        [PIN_STATUS_KILLED] = "the process was killed",
        [PIN_STATUS_REFUSED] = "the call never started",
        [PIN_STATUS_COUNT] = NULL,
    };
    static const char *const types[] = {
        [PIN_STATUS_TIMEOUT] = "Timeout",    [PIN_STATUS_MEMORY] = "MemoryLimit",
        [PIN_STATUS_OUTPUT] = "OutputLimit", [PIN_STATUS_KILLED] = "Killed",
        [PIN_STATUS_REFUSED] = "Refused",
    };
    return fault(types[result->status], texts[result->status]);
}

/* The result frame of the descriptor, or that in stdout. */
static const struct pin_frame_record *find_frame(const struct pin_result *result, bool from_fd) {
    for (size_t i = 0; i < result->frame_count; i++)
        if (result->frames[i].from_fd == from_fd && result->frames[i].payload != NULL &&
            result->frames[i].info.kind == PIN_FRAME_RESULT)
            return &result->frames[i];
    return NULL;
}

/* Where stdout is searched: a frame in it stands for the value, if the function returned, or if the process
 * ended as one that has done its work. */
static bool take_letta(struct outcome *outcome, const struct pin_result *result, bool said, bool frame_came) {
    const struct pin_frame_record *frame = find_frame(result, false);
    bool counts = said ? outcome->message.ok : !frame_came && result->status == PIN_STATUS_SUCCESS;
    struct pin_tool_message letta;
    if (frame == NULL || !counts || !pin_tool_message_parse_letta(&letta, frame->payload, frame->info.length))
        return said;
    (void)json_array_extend(outcome->notes, outcome->message.notes);
    note(outcome,
         "the value came in a frame in stdout, as the configuration allows: whoever prints can make it");
    if (letta.agent_state == NULL && outcome->message.agent_state != NULL) {
        (void)json_object_set(letta.json, "agent_state", outcome->message.agent_state);
        letta.agent_state = json_object_get(letta.json, "agent_state");
    }
    pin_tool_message_free(&outcome->message);
    outcome->message = letta;
    return true;
}

static void judge(struct outcome *outcome, const struct pin_result *result, const char *key) {
    const struct pin_frame_record *frame = find_frame(result, true);
    bool said =
        frame != NULL && pin_tool_message_parse(&outcome->message, frame->payload, frame->info.length, key);
    said = take_letta(outcome, result, said, frame != NULL);
    bool ended = result->status == PIN_STATUS_SUCCESS || result->status == PIN_STATUS_ERROR;
    outcome->status = ended ? PIN_STATUS_ERROR : result->status;
    if (!ended)
        outcome->func_return = explain_end(result);
    else if (!said)
        outcome->func_return = explain_silence(result, frame != NULL);
    else {
        outcome->status = outcome->message.ok ? PIN_STATUS_SUCCESS : PIN_STATUS_ERROR;
        outcome->func_return = json_incref(outcome->message.func_return);
    }
}

static void add_notes(struct outcome *outcome, const struct pin_result *result, bool replaced) {
    (void)json_array_extend(outcome->notes, outcome->message.notes);
    if (result->out.truncated)
        note(outcome, "stdout: cut after %zu bytes of %" PRIu64, result->out.size, result->out.total_bytes);
    if (result->err.truncated)
        note(outcome, "stderr: cut after %zu bytes of %" PRIu64, result->err.size, result->err.total_bytes);
    if (replaced)
        note(outcome, "stdout, stderr: bytes that are no UTF-8 became U+FFFD");
    for (size_t i = 0; i < result->missing_count; i++)
        note(outcome, "the sandbox went without an optional protection: %s", result->missing[i]);
    if (pin_is_set(&result->error) && result->status != PIN_STATUS_SUCCESS &&
        result->status != PIN_STATUS_ERROR) /* a limit, and more: that the kernel doesn't let a process go */
        note(outcome, "%s", result->error.message);
    if (result->stray_bytes > 0)
        note(outcome, "%" PRIu64 " bytes came on the result channel that are no frame", result->stray_bytes);
}

static json_t *usage_of(const struct pin_result *result) {
    json_t *whole = pin_result_json_end(result);
    json_t *usage = json_incref(json_object_get(whole, "usage"));
    json_decref(whole);
    return usage;
}

static json_t *or_null(json_t *value) {
    return value == NULL ? json_null() : json_incref(value);
}

/* As a command's: the limits' own, 1 for a tool that failed. */
static int exit_code_of(enum pin_status status, const struct pin_result *result) {
    if (status == PIN_STATUS_SUCCESS)
        return 0;
    return status == PIN_STATUS_ERROR ? 1 : result->exit_code;
}

json_t *pin_tool_result_json(const struct pin_result *result, const char *key, int *exit_code) {
    struct outcome outcome = {.notes = json_array()};
    bool replaced = false;
    judge(&outcome, result, key);
    json_t *out = pin_tool_lines(result->out.data, result->out.size, &replaced);
    json_t *err = pin_tool_lines(result->err.data, result->err.size, &replaced);
    add_notes(&outcome, result, replaced);
    *exit_code = exit_code_of(outcome.status, result);
    json_t *object = json_pack(
        "{s:s, s:o, s:o, s:o, s:o, s:s, s:o, s:o}", "status", pin_status_name(outcome.status), "func_return",
        outcome.func_return != NULL ? outcome.func_return : json_null(), "agent_state",
        or_null(outcome.message.agent_state), "stdout", out, "stderr", err, "sandbox_config_fingerprint",
        result->fingerprint, "usage", usage_of(result), "notes", outcome.notes);
    if (object != NULL && result->denials != NULL)
        (void)json_object_set(object, "denials", result->denials);
    pin_tool_message_free(&outcome.message);
    return object;
}
