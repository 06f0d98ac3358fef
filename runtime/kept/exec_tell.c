/* What is told of a command: its start and its end in the log and the audit log, and its result to whoever
 * waits. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/units.h"
#include "runtime/kept/call.h"

#define TELL_NS (2 * PIN_NS_PER_MS)

/* Refusals by the policy are events; faults of a client's message aren't. */
void pin_exec_tell_refusal(const struct conn *conn, const struct pin_kept_request *request,
                           const struct pin_error *refusal) {
    const struct pin_kept_audit *audit = &conn->kept->given->audit;
    const struct pin_kept_recorded what = {
        .args = request->args,
        .arg_count = request->arg_count,
        .mask = conn->kept->mask != NULL ? conn->kept->mask->mask : NULL,
        .request = request,
    };
    struct pin_error err = {0};
    if (audit->refuse != NULL && refusal->kind == PIN_ERROR_REFUSED)
        (void)audit->refuse(audit->self, &what, refusal, &err); /* it is refused either way */
}

static void log_start(struct exec *exec) {
    char user[32];
    json_t *args = json_array(), *whole;
    for (size_t i = 0; i < exec->request.arg_count; i++)
        (void)json_array_append_new(args, pin_exec_masked(exec, exec->request.args[i], SIZE_MAX));
    whole = json_pack("{s:o, s:s*}", "args", args, "user", pin_exec_user_name(exec, user));
    PIN_FREE char *text = whole == NULL ? NULL : json_dumps(whole, JSON_COMPACT);
    json_decref(whole);
    if (text != NULL)
        (void)pin_log_write(&exec->kept->log, PIN_LOG_START, exec->id, text,
                            strlen(text) < PIN_LOG_PAYLOAD_MAX ? strlen(text) : 0);
    exec->is_logged = true;
    exec->log_start = exec->kept->log.sequence;
}

static void log_end(const struct exec *exec) {
    char text[128];
    int size = snprintf(text, sizeof(text), "{\"status\":\"%s\",\"exit_code\":%d,\"signal\":%d}",
                        pin_status_name(exec->result.status), exec->result.exit_code, exec->result.signal);
    (void)pin_log_write(&exec->kept->log, PIN_LOG_END, exec->id, text, (size_t)size);
}

static void describe(struct exec *exec) {
    const struct pin_kept_given *given = exec->kept->given;
    struct pin_result *result = &exec->result;
    result->sandbox = given->name;
    result->fingerprint = given->fingerprint;
    result->missing = given->missing;
    result->missing_count = given->missing_count;
    result->labels = json_incref(json_object_get(given->facts, "labels"));
    result->usage.wall_ns = pin_now_ns() - exec->started_ns;
    result->stray_bytes = exec->frames.strays.total_bytes;
}

/* What has happened is told all the same, and which record of it there isn't. */
static void add_missing(struct exec *exec, const char *what) {
    struct pin_result *result = &exec->result;
    const char **longer = calloc(result->missing_count + 1, sizeof(*longer));
    if (longer == NULL)
        return;
    for (size_t i = 0; i < result->missing_count; i++)
        longer[i] = result->missing[i];
    longer[result->missing_count++] = what;
    free(exec->missing);
    result->missing = exec->missing = longer;
}

static bool add_denials(struct exec *exec) {
    const struct pin_kept_given *given = exec->kept->given;
    const struct pin_kept_command command = {
        .exec = exec->id,
        .started_ns = exec->started_ns,
        .own_time_ns = exec->request.has_timeout ? exec->request.timeout_ms * PIN_NS_PER_MS : 0,
    };
    pin_kept_settle_egress(exec->kept);
    return given->denied(given->self, &command, &exec->result);
}

/* A broker that died before the command ended was missing for a part of it at least. */
static void add_lost(struct exec *exec) {
    const char *names[PIN_EGRESS_LOST_MAX];
    size_t count = pin_kept_lost(exec->kept, names);
    for (size_t i = 0; i < count; i++)
        add_missing(exec, names[i]);
}

static void record_end(struct exec *exec) {
    const struct pin_kept_audit *audit = &exec->kept->given->audit;
    struct pin_error err = {0};
    bool told = add_denials(exec);
    if ((exec->is_recorded && !audit->end(audit->self, exec->id, &exec->result, &err)) || !told)
        add_missing(exec, "audit");
    if (!pin_exec_remove_secret_files(exec))
        add_missing(exec, "secrets");
    if (exec->is_unlogged)
        add_missing(exec, "log");
    add_lost(exec);
}

/* The log has what couldn't be written. */
static void note_output_error(struct exec *exec) {
    struct pin_error err = {0};
    if (exec->output_error == 0)
        return;
    errno = exec->output_error;
    (void)pin_fail_errno(&err, "write the command's output");
    pin_result_note(&exec->result, &err);
}

static json_t *say_started(const struct exec *exec) {
    return json_pack("{s:I, s:s, s:I, s:I}", "id", (json_int_t)exec->request_id, "event", "started", "exec",
                     (json_int_t)exec->id, "seq", (json_int_t)exec->log_start);
}

static void on_telling(void *self) {
    struct exec *exec = self;
    exec->telling = NULL;
    if (exec->conn != NULL)
        pin_conn_send(exec->conn, say_started(exec));
}

/* Who gets the output with the result does nothing before that: it needn't be woken twice for a short
 * command. */
void pin_exec_tell_started(struct exec *exec) {
    struct pin_error err = {0};
    if (exec->request.output == PIN_OUTPUT_CAPTURE && !exec->request.detach)
        exec->telling =
            pin_loop_at(exec->kept->loop, pin_later(pin_now_ns(), TELL_NS), on_telling, exec, &err);
    if (exec->telling == NULL)
        on_telling(exec);
}

static void tell_result(struct exec *exec, json_t *result) {
    json_t *told = json_pack("{s:I, s:I, s:O}", "id", (json_int_t)exec->request_id, "exec",
                             (json_int_t)exec->id, "result", result);
    bool begins = exec->telling != NULL;
    pin_timer_cancel(&exec->telling);
    if (exec->conn == NULL) /* a detached one that has started has nobody */
        json_decref(told);
    else if (begins)
        pin_conn_send_both(exec->conn, say_started(exec), told);
    else
        pin_conn_send(exec->conn, told);
}

static bool record_start(struct exec *exec, struct pin_error *err) {
    const struct pin_kept_audit *audit = &exec->kept->given->audit;
    char user[32];
    const struct pin_kept_recorded what = {
        .args = exec->request.args,
        .arg_count = exec->request.arg_count,
        .user = pin_exec_user_name(exec, user),
        .secrets = &exec->secrets,
        .mask = pin_exec_mask(exec),
    };
    if (audit->begin == NULL)
        return true;
    exec->is_recorded = audit->begin(audit->self, exec->id, &what, err);
    return exec->is_recorded;
}

bool pin_exec_tell_log(struct exec *exec, struct pin_error *err) {
    log_start(exec);
    return record_start(exec, err);
}

void pin_exec_tell_end(struct exec *exec) {
    struct pin_kept *kept = exec->kept;
    struct pin_error err = {0};
    note_output_error(exec);
    describe(exec);
    record_end(exec);
    if (!exec->is_logged)
        log_start(exec);
    log_end(exec);
    pin_log_rest(&kept->log);
    kept->ended[exec->id % ENDS_KEPT] =
        (struct ended){exec->id, exec->result.status, exec->result.exit_code, exec->result.signal};
    if (exec->request.output == PIN_OUTPUT_STREAM && exec->sinks[0] != NULL)
        (void)pin_stream_exit(&exec->stream, &exec->result, &err);
    json_t *result = exec->request.output == PIN_OUTPUT_CAPTURE ? pin_result_json(&exec->result)
                                                                : pin_result_json_end(&exec->result);
    pin_verbs_wake(kept, exec->id, result);
    tell_result(exec, result);
    json_decref(result);
}
