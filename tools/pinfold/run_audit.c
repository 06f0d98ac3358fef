#include "tools/pinfold/run_audit.h"

#include <string.h>

#include "base/cleanup.h"
#include "base/names.h"
#include "base/text.h"
#include "base/units.h"

#define RESERVED_BYTES (UINT64_C(64) * 1024) /* for the records that end a run */

enum { ARGUMENTS_MAX = 256, ARGUMENT_TEXT = 512, SOURCE_TEXT = 1024 };

static void set(json_t *object, const char *key, json_t *value) {
    (void)json_object_set_new(object, key, value); /* out of memory: the record then can't be printed */
}

/* Bytes of a caller, or from inside: the log is ASCII, one line a record, and says which bytes they were. */
static json_t *escaped(const char *text, size_t room) {
    char shown[4096];
    return json_string(pin_escape(shown, room < sizeof(shown) ? room : sizeof(shown), text, strlen(text)));
}

/* A caller may have written a secret's value there. */
static json_t *masked(const struct pin_mask *mask, const char *text, size_t room) {
    char shown[ARGUMENT_TEXT];
    size_t size = strlen(text);
    if (mask == NULL)
        return escaped(text, room);
    PIN_FREE uint8_t *bytes = pin_mask_bytes(mask, (const uint8_t *)text, size, &size);
    return bytes != NULL ? json_string(pin_escape(shown, sizeof(shown), bytes, size)) : NULL;
}

static json_t *arguments(const struct pin_mask *mask, const char *const *args, size_t count) {
    json_t *list = json_array();
    for (size_t i = 0; i < count && i < ARGUMENTS_MAX; i++)
        (void)json_array_append_new(list, masked(mask, args[i], ARGUMENT_TEXT));
    return list;
}

static json_t *labels_json(const struct pin_pair *labels, size_t count) {
    json_t *object = json_object();
    for (size_t i = 0; i < count; i++)
        set(object, labels[i].key, escaped(labels[i].value, 2048));
    return object;
}

static bool lists(const char *const *items, size_t count, const char *word) {
    for (size_t i = 0; i < count; i++)
        if (strcmp(items[i], word) == 0)
            return true;
    return false;
}

bool pin_run_audit_wanted(const struct pin_bundle *bundle) {
    return bundle->ext.record_count > 0;
}

static bool write_anew(struct pin_run_audit *audit, const struct pin_audit_event *event,
                       struct pin_error *err) {
    struct pin_error again = {0};
    pin_audit_close(&audit->log);
    if (!pin_audit_open(&audit->log, true, &again) ||
        !pin_audit_write(&audit->log, event, &audit->end, &again)) {
        if (!pin_is_set(err)) /* the first cause is the one to tell */
            *err = again;
        return false;
    }
    pin_error_clear(err);
    return true;
}

static bool counts(const struct pin_run_audit *audit) {
    return audit->bundle != NULL && audit->bundle->ext.audit_failure == PIN_AUDIT_COUNT;
}

/* One write, or one more after the log was opened anew. */
static bool try_event(struct pin_run_audit *audit, const struct pin_audit_event *event,
                      struct pin_error *err) {
    if (audit->log.head >= 0 && pin_audit_write(&audit->log, event, &audit->end, err))
        return true;
    return (audit->stays || counts(audit)) && write_anew(audit, event, err);
}

/* How many are missing before the one that comes now. */
static bool tell_dropped(struct pin_run_audit *audit, struct pin_error *err) {
    if (audit->dropped == 0)
        return true;
    json_t *data = json_pack("{s:I}", "records", (json_int_t)audit->dropped);
    const struct pin_audit_event event = {"dropped", audit->sandbox, audit->labels, data};
    bool ok = try_event(audit, &event, err);
    json_decref(data);
    if (ok)
        audit->dropped = 0;
    return ok;
}

static bool write_event(struct pin_run_audit *audit, const char *name, json_t *data, struct pin_error *err) {
    const struct pin_audit_event event = {name, audit->sandbox, audit->labels, data};
    if (audit->exec != 0 && data != NULL)
        set(data, "exec", json_integer(audit->exec));
    bool ok = data != NULL ? tell_dropped(audit, err) && try_event(audit, &event, err)
                           : pin_fail(err, PIN_ERROR_EXHAUSTED, "no memory for an audit record");
    json_decref(data);
    if (ok || !counts(audit))
        return ok;
    audit->dropped++;
    audit->has_dropped = true;
    pin_error_clear(err);
    return true;
}

static json_t *start_data(const struct pin_bundle *bundle, const char *fingerprint, bool is_kept,
                          const struct pin_mask *mask) {
    const struct pin_bundle_ext *ext = &bundle->ext;
    char digest[PIN_DIGEST_TEXT];
    json_t *data = json_object();
    set(data, "policy", escaped(ext->policy_name != NULL ? ext->policy_name : "", 256));
    set(data, "policy_digest", json_string(pin_digest_print(digest, ext->policy_digest)));
    set(data, "fingerprint", json_string(fingerprint));
    if (ext->image != NULL)
        set(data, "image", escaped(ext->image, SOURCE_TEXT));
    if (ext->workspace.source != NULL)
        set(data, "workspace", escaped(ext->workspace.source, SOURCE_TEXT));
    if (is_kept) { /* each command has a record of its own */
        set(data, "kept", json_true());
        return data;
    }
    set(data, "argv", arguments(mask, bundle->process.args, bundle->process.arg_count));
    if (bundle->process.arg_count > ARGUMENTS_MAX)
        set(data, "arguments", json_integer((json_int_t)bundle->process.arg_count));
    return data;
}

bool pin_run_audit_start(struct pin_run_audit *audit, const struct pin_bundle *bundle, const char *sandbox,
                         const char *fingerprint, const struct pin_mask *mask, bool sync,
                         struct pin_error *err) {
    const struct pin_bundle_ext *ext = &bundle->ext;
    if (!pin_run_audit_wanted(bundle))
        return true;
    audit->lifecycle = lists(ext->record, ext->record_count, "lifecycle");
    audit->egress = lists(ext->record, ext->record_count, "egress");
    audit->sandbox = sandbox;
    audit->bundle = bundle;
    audit->labels = labels_json(ext->labels, ext->label_count);
    audit->log.sync = sync || ext->audit_sync;
    if (!counts(audit) && !pin_audit_open(&audit->log, true, err))
        return false; /* where it counts, the first record finds that out */
    /* a run of which only egress is recorded has a start all the same: it proves that the log can be written
     */
    audit->is_started = write_event(audit, "start", start_data(bundle, fingerprint, audit->stays, mask), err);
    return audit->is_started && (counts(audit) || pin_audit_reserve(&audit->log, RESERVED_BYTES, err));
}

bool pin_run_audit_secrets(struct pin_run_audit *audit, const struct pin_secrets *secrets,
                           struct pin_error *err) {
    for (size_t i = 0; audit->lifecycle && i < secrets->count; i++) {
        const struct pin_secret *secret = &secrets->list[i];
        json_t *data = json_pack("{s:s, s:s, s:s, s:s}", "secret", secret->spec.name, "as",
                                 secret->spec.form == PIN_SECRET_FILE ? "file" : "variable", "target",
                                 secret->spec.target, "from", pin_secret_source_name(secret->source));
        if (!write_event(audit, "secret", data, err))
            return false;
    }
    return true;
}

static bool note(struct pin_run_audit *audit, bool ok, const struct pin_error *err) {
    if (!ok && !pin_is_set(&audit->fault))
        audit->fault = *err;
    return ok;
}

bool pin_run_audit_egress(struct pin_run_audit *audit, const json_t *event) {
    struct pin_error err = {0};
    const char *kind = json_string_value(json_object_get(event, "event"));
    if (!audit->egress || kind == NULL || strcmp(kind, "ready") == 0)
        return true;
    return note(audit, write_event(audit, "egress", json_copy((json_t *)(uintptr_t)event), &err), &err);
}

bool pin_run_audit_call(struct pin_run_audit *audit, const json_t *denial) {
    struct pin_error err = {0};
    if (!pin_run_audit_is_on(audit))
        return true;
    json_t *data = json_copy((json_t *)(uintptr_t)denial);
    (void)json_object_del(data, "denied");
    return note(audit, write_event(audit, "syscall", data, &err), &err);
}

static json_t *usage_json(const struct pin_usage *usage) {
    return json_pack("{s:I, s:I, s:I, s:I, s:o}", "wall_ms", (json_int_t)(usage->wall_ns / PIN_NS_PER_MS),
                     "cpu_ms", (json_int_t)(usage->cpu_ns / PIN_NS_PER_MS), "memory_peak_bytes",
                     (json_int_t)usage->memory_peak_bytes, "pids_peak", (json_int_t)usage->pids_peak,
                     "egress", pin_egress_usage_json(&usage->egress));
}

static json_t *fault_json(const struct pin_error *error) {
    json_t *object = json_object();
    set(object, "kind", json_string(pin_error_kind_name(error->kind)));
    set(object, "message", escaped(error->message, 1024));
    set(object, "pointer", escaped(error->pointer, 512));
    if (error->hint[0] != '\0')
        set(object, "hint", escaped(error->hint, 512));
    return object;
}

/* The limits that were hit, as the result has them. */
static bool write_limits(struct pin_run_audit *audit, const struct pin_result *result,
                         struct pin_error *err) {
    const json_t *denial;
    size_t i;
    json_array_foreach(result->denials, i, denial) {
        const char *denied = json_string_value(json_object_get(denial, "denied"));
        if (denied == NULL || strcmp(denied, "limit") != 0)
            continue;
        json_t *data = json_copy((json_t *)(uintptr_t)denial);
        (void)json_object_del(data, "denied");
        if (!write_event(audit, "limit", data, err))
            return false;
    }
    return true;
}

static json_t *end_data(const struct pin_result *result, const struct pin_error *error) {
    json_t *data = json_object();
    bool failed = pin_is_set(error);
    set(data, "status", json_string(pin_status_name(failed ? PIN_STATUS_REFUSED : result->status)));
    set(data, "exit_code", json_integer(failed ? PIN_EXIT_REFUSED : result->exit_code));
    set(data, "signal", result->signal != 0 ? json_integer(result->signal) : json_null());
    set(data, "usage", usage_json(&result->usage));
    json_t *missing = json_array();
    for (size_t i = 0; i < result->missing_count; i++)
        (void)json_array_append_new(missing, json_string(result->missing[i]));
    set(data, "missing", missing);
    if (failed || pin_is_set(&result->error))
        set(data, "error", fault_json(failed ? error : &result->error));
    return data;
}

bool pin_run_audit_end(struct pin_run_audit *audit, const struct pin_result *result,
                       const struct pin_error *error) {
    struct pin_error err = {0};
    if (!pin_run_audit_is_on(audit))
        return true;
    bool ok = !audit->lifecycle ||
              (write_limits(audit, result, &err) && write_event(audit, "end", end_data(result, error), &err));
    return note(audit, ok, &err) && !pin_is_set(&audit->fault) && !audit->has_dropped;
}

bool pin_run_audit_exec(struct pin_run_audit *audit, uint32_t exec, const char *const *args, size_t count,
                        const char *user, const struct pin_mask *mask, struct pin_error *err) {
    if (!audit->lifecycle)
        return true;
    audit->exec = exec;
    return write_event(audit, "exec",
                       json_pack("{s:o, s:s*}", "argv", arguments(mask, args, count), "user", user), err);
}

bool pin_run_audit_exec_end(struct pin_run_audit *audit, uint32_t exec, const struct pin_result *result,
                            struct pin_error *err) {
    static const struct pin_error none = {0};
    if (!audit->lifecycle)
        return true;
    audit->exec = exec;
    return write_limits(audit, result, err) && write_event(audit, "exec-end", end_data(result, &none), err) &&
           audit->dropped == 0;
}

bool pin_run_audit_exec_refusal(struct pin_run_audit *audit, const char *const *args, size_t count,
                                const struct pin_mask *mask, const struct pin_error *refusal,
                                const json_t *denials, struct pin_error *err) {
    const struct pin_bundle_ext *ext = &audit->bundle->ext;
    char digest[PIN_DIGEST_TEXT];
    if (!audit->lifecycle)
        return true;
    audit->exec = 0;
    json_t *data = json_pack("{s:o, s:s, s:o, s:[o]}", "policy",
                             escaped(ext->policy_name != NULL ? ext->policy_name : "", 256), "policy_digest",
                             pin_digest_print(digest, ext->policy_digest), "argv",
                             arguments(mask, args, count), "findings", fault_json(refusal));
    if (data != NULL && json_array_size(denials) > 0)
        set(data, "denials", json_deep_copy(denials));
    return write_event(audit, "refusal", data, err);
}

bool pin_run_audit_kept_end(struct pin_run_audit *audit, const char *why, const struct pin_usage *usage,
                            const struct pin_error *error, struct pin_error *err) {
    if (!pin_run_audit_is_on(audit) || !audit->lifecycle)
        return true;
    audit->exec = 0;
    json_t *data = json_pack("{s:s, s:o}", "why", why, "usage", usage_json(usage));
    if (pin_is_set(error))
        set(data, "error", fault_json(error));
    return write_event(audit, "end", data, err);
}

bool pin_run_audit_remove(const char *sandbox, const json_t *labels, struct pin_error *err) {
    struct pin_run_audit audit = PIN_RUN_AUDIT_NONE;
    audit.sandbox = sandbox;
    audit.labels = json_deep_copy(labels);
    bool ok = pin_audit_open(&audit.log, true, err) && write_event(&audit, "remove", json_object(), err);
    pin_run_audit_close(&audit);
    return ok;
}

void pin_run_audit_close(struct pin_run_audit *audit) {
    pin_audit_close(&audit->log);
    json_decref(audit->labels);
    audit->labels = NULL;
}

static bool wants_refusals(const struct pin_policy *policy) {
    for (size_t i = 0; policy != NULL && i < policy->audit.record.count; i++)
        if (strcmp(policy->audit.record.items[i].text, "lifecycle") == 0)
            return true;
    return false;
}

bool pin_run_audit_refusal(const struct pin_front *front, const struct pin_findings *found,
                           const json_t *denials, bool sync, struct pin_error *err) {
    struct pin_run_audit audit = PIN_RUN_AUDIT_NONE;
    const struct pin_request *request = &front->request;
    char digest[PIN_DIGEST_TEXT];
    if (!wants_refusals(front->ceiling))
        return true;
    audit.labels = labels_json(request->labels, request->label_count < 64 ? request->label_count : 64);
    audit.log.sync = sync;
    json_t *data = json_object(), *findings = json_array();
    set(data, "policy", escaped(front->ceiling->name, 256));
    set(data, "policy_digest", json_string(pin_digest_print(digest, front->ceiling->digest)));
    set(data, "argv", arguments(NULL, request->args, request->arg_count));
    for (size_t i = 0; i < found->count; i++)
        (void)json_array_append_new(findings, fault_json(&found->list[i]));
    set(data, "findings", findings);
    if (denials != NULL)
        set(data, "denials", json_deep_copy(denials));
    if (found->dropped > 0)
        set(data, "more_findings", json_integer((json_int_t)found->dropped));
    bool ok = pin_audit_open(&audit.log, true, err);
    if (ok)
        ok = write_event(&audit, "refusal", data, err);
    else
        json_decref(data);
    pin_run_audit_close(&audit);
    return ok || pin_wrap(err, "the refusal isn't in the audit log");
}
