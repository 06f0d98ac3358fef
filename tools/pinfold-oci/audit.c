#include "tools/pinfold-oci/audit.h"

#include <string.h>

#include "base/sha256.h"
#include "base/text.h"
#include "runtime/audit/log.h"

enum { ARGUMENTS_MAX = 256, TEXT_ROOM = 1024 };

/* Bytes of an engine's user: the log is ASCII, one line a record. */
static json_t *escaped(const char *text) {
    char shown[TEXT_ROOM];
    return json_string(pin_escape(shown, sizeof(shown), text, strlen(text)));
}

bool pin_oci_audit_records(const struct pin_policy *policy, const char *word) {
    for (size_t i = 0; policy != NULL && i < policy->audit.record.count; i++)
        if (strcmp(policy->audit.record.items[i].text, word) == 0)
            return true;
    return false;
}

static json_t *labels_of(const struct pin_bundle *bundle) {
    json_t *labels = json_object();
    for (size_t i = 0; bundle != NULL && i < bundle->ext.label_count; i++)
        (void)json_object_set_new(labels, bundle->ext.labels[i].key, escaped(bundle->ext.labels[i].value));
    return labels;
}

bool pin_oci_audit_write(const char *name, const char *id, const struct pin_bundle *bundle, json_t *data,
                         struct pin_error *err) {
    struct pin_audit log = PIN_AUDIT_NONE;
    char shown[TEXT_ROOM];
    json_t *labels = labels_of(bundle);
    const struct pin_audit_event event = {name, pin_escape(shown, sizeof(shown), id, strlen(id)), labels,
                                          data};
    bool ok = pin_audit_open(&log, true, err) && pin_audit_write(&log, &event, NULL, err);
    pin_audit_close(&log);
    json_decref(labels);
    json_decref(data);
    return ok || pin_wrap(err, "write the audit log");
}

json_t *pin_oci_audit_describe(const struct pin_policy *policy, const struct pin_bundle *bundle) {
    char digest[PIN_DIGEST_TEXT];
    json_t *data = json_object(), *arguments = json_array();
    (void)json_object_set_new(data, "policy", escaped(policy->name));
    (void)json_object_set_new(data, "policy_digest", json_string(pin_digest_print(digest, policy->digest)));
    if (bundle != NULL && bundle->directory != NULL)
        (void)json_object_set_new(data, "bundle", escaped(bundle->directory));
    for (size_t i = 0; bundle != NULL && i < bundle->process.arg_count && i < ARGUMENTS_MAX; i++)
        (void)json_array_append_new(arguments, escaped(bundle->process.args[i]));
    (void)json_object_set_new(data, "argv", arguments);
    return data;
}

bool pin_oci_audit_refusal(const struct pin_policy *policy, const struct pin_bundle *bundle, const char *verb,
                           const char *id, const struct pin_findings *refused, struct pin_error *err) {
    if (!pin_oci_audit_records(policy, "lifecycle"))
        return true;
    json_t *data = pin_oci_audit_describe(policy, bundle), *list = json_array();
    for (size_t i = 0; i < refused->count; i++) {
        const struct pin_error *finding = &refused->list[i];
        json_t *one = json_pack("{s:s}", "kind", pin_error_kind_name(finding->kind));
        (void)json_object_set_new(one, "message", escaped(finding->message));
        (void)json_object_set_new(one, "pointer", escaped(finding->pointer));
        (void)json_object_set_new(one, "hint", escaped(finding->hint));
        (void)json_array_append_new(list, one);
    }
    (void)json_object_set_new(data, "verb", json_string(verb));
    (void)json_object_set_new(data, "findings", list);
    return pin_oci_audit_write("refusal", id, bundle, data, err);
}
