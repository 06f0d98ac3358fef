#include <stdlib.h>

#include <jansson.h>

#include "base/cleanup.h"
#include "base/units.h"
#include "policy/egress_rule.h"
#include "policy/egress_terms.h"
#include "policy/policy_write.h"
#include "runtime/egress/session.h"

static void set(json_t *object, const char *key, json_t *value) {
    (void)json_object_set_new(object, key, value); /* out of memory: the field is left out */
}

static json_t *counts(const struct pin_egress_status *status) {
    return json_pack("{s:I, s:I, s:I, s:I, s:I}", "open", (json_int_t)status->open, "total",
                     (json_int_t)status->total, "refused", (json_int_t)status->refused, "bytes_out",
                     (json_int_t)status->bytes_out, "bytes_in", (json_int_t)status->bytes_in);
}

static json_t *rule_json(const struct pin_egress_rule *rule, bool deny) {
    char text[512], place[PIN_PLACE_TEXT];
    json_t *object = json_object();
    set(object, "rule", json_string(pin_egress_print(text, sizeof(text), rule)));
    if (!deny && rule->budget != NULL)
        set(object, "budget", json_string(rule->budget->name));
    if (rule->place.file != NULL)
        set(object, "place", json_string(pin_place_print(place, &rule->place)));
    return object;
}

static json_t *rules_json(const struct pin_egress_rule *rules, size_t count, bool deny) {
    json_t *list = json_array();
    for (size_t i = 0; i < count; i++)
        (void)json_array_append_new(list, rule_json(&rules[i], deny));
    return list;
}

static json_t *connection(const struct pin_egress_status *status, const struct pin_egress_rules *rules) {
    char text[512], address[PIN_ADDRESS_TEXT];
    json_t *object = json_pack(
        "{s:I, s:i, s:s, s:I, s:I, s:I}", "id", (json_int_t)status->id, "port", (int)status->port, "protocol",
        pin_protocol_name((enum pin_protocol)status->protocol), "bytes_out", (json_int_t)status->bytes_out,
        "bytes_in", (json_int_t)status->bytes_in, "age_ms", (json_int_t)(status->age_ns / PIN_NS_PER_MS));
    if (status->name_size > 0)
        set(object, "host", json_string(status->name));
    set(object, "address", json_string(pin_address_print(address, status->address)));
    if (status->rule >= 0)
        set(object, "rule", json_string(pin_egress_print(text, sizeof(text), &rules->allow[status->rule])));
    return object;
}

static void add(json_t *to, const struct pin_egress_status *status, const struct pin_egress_rules *rules) {
    json_t *counted;
    switch ((enum pin_egress_status_kind)status->kind) {
    case PIN_EGRESS_STATUS_OPEN:
        (void)json_array_append_new(json_object_get(to, "connections"), connection(status, rules));
        return;
    case PIN_EGRESS_STATUS_RULE:
        counted = counts(status);
        (void)json_object_update(json_array_get(json_object_get(to, "rules"), (size_t)status->rule), counted);
        json_decref(counted);
        return;
    case PIN_EGRESS_STATUS_BUDGET:
        if (status->name_size > 0)
            set(json_object_get(to, "budgets"), status->name, counts(status));
        else
            set(to, "sandbox", counts(status));
        return;
    case PIN_EGRESS_STATUS_MORE: set(to, "more", json_integer((json_int_t)status->open)); return;
    case PIN_EGRESS_STATUS_KIND_COUNT: break;
    }
    abort(); /* checked by pin_egress_status_valid() */
}

json_t *pin_egress_session_status(struct pin_egress_session *session, struct pin_error *err) {
    const struct pin_egress_rules *rules = session->is_replacing ? &session->next : &session->rules;
    size_t count;
    if (pin_egress_session_fd(session) < 0) {
        (void)pin_fail(err, PIN_ERROR_UNSUPPORTED, "the sandbox has no egress broker");
        return NULL;
    }
    PIN_FREE struct pin_egress_status *list = calloc(PIN_EGRESS_STATUS_MAX, sizeof(*list));
    if (list == NULL) {
        (void)pin_fail_errno(err, "ask the egress broker");
        return NULL;
    }
    if (!pin_broker_status(&session->broker, rules->allow_count, list, &count, err))
        return NULL;
    json_t *answer =
        json_pack("{s:o, s:o, s:{}, s:[]}", "rules", rules_json(rules->allow, rules->allow_count, false),
                  "deny", rules_json(rules->deny, rules->deny_count, true), "budgets", "connections");
    for (size_t i = 0; i < count; i++)
        add(answer, &list[i], rules);
    return answer;
}
