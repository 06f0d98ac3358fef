/* What the commands of a kept sandbox were denied: their calls by their cgroups, destinations by the time at
 * which they were refused, as the broker doesn't know whose a connection is. */
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/units.h"
#include "policy/audit/denial.h"
#include "runtime/secrets/secret_spec.h"
#include "tools/pinfold-kept/up_books.h"

bool pin_up_start_calls(struct up *up, struct pin_error *err) {
    if (!pin_run_calls_wanted(up->front.bundle))
        return true;
    const struct pin_run_calls_given given = {pin_front_policy(&up->front), &up->front.bundle->seccomp,
                                              up->sandbox.watch, up->sandbox.init};
    up->calls = pin_run_calls_start(&given, err);
    return up->calls != NULL;
}

static bool record_calls(struct up *up, uint32_t exec, const json_t *calls) {
    const json_t *call;
    size_t i;
    bool ok = true;
    up->audit.exec = exec;
    json_array_foreach(calls, i, call) ok = pin_run_audit_call(&up->audit, call) && ok;
    return ok;
}

void pin_up_end_calls(struct up *up) {
    json_t *left = pin_run_calls_end(up->calls);
    up->calls = NULL;
    (void)record_calls(up, 0, left); /* the fault is kept, and nobody is left to be told */
    json_decref(left);
}

void pin_up_keep_refusal(struct up *up, json_t *event) {
    const char *kind = json_string_value(json_object_get(event, "event"));
    if (kind == NULL || strcmp(kind, "refuse") != 0)
        return;
    if (up->refusals == NULL)
        up->refusals = calloc(1, sizeof(*up->refusals));
    if (up->refusals == NULL)
        return; /* it is in the log, where the policy wants that */
    size_t at = (size_t)(up->refusals->count++ % PIN_DENIALS_MAX);
    json_decref(up->refusals->list[at].event);
    up->refusals->list[at].event = json_incref(event);
    up->refusals->list[at].at_ns = pin_now_ns();
}

void pin_up_forget_refusals(struct up *up) {
    for (size_t i = 0; up->refusals != NULL && i < PIN_DENIALS_MAX; i++)
        json_decref(up->refusals->list[i].event);
    free(up->refusals);
    up->refusals = NULL;
}

/* Oldest first; those that had to make room are counted. */
static void add_refusals(const struct up_refusals *refusals, uint64_t since_ns,
                         struct pin_run_denials *denials) {
    uint64_t first = 0;
    if (refusals == NULL)
        return;
    if (refusals->count > PIN_DENIALS_MAX) {
        first = refusals->count - PIN_DENIALS_MAX;
        if (refusals->list[first % PIN_DENIALS_MAX].at_ns >= since_ns)
            denials->dropped++; /* at least one more */
    }
    for (uint64_t i = first; i < refusals->count; i++)
        if (refusals->list[i % PIN_DENIALS_MAX].at_ns >= since_ns)
            pin_run_denials_egress(denials, refusals->list[i % PIN_DENIALS_MAX].event);
}

bool pin_up_denied(void *self, const struct pin_kept_command *command, struct pin_result *result) {
    struct up *up = self;
    struct pin_run_denials denials = {0};
    const struct pin_run_limits limits = {up->front.bundle, pin_front_policy(&up->front),
                                          command->own_time_ns};
    json_t *calls = pin_run_calls_take(up->calls, command->exec), *call;
    size_t i;
    json_array_foreach(calls, i, call) pin_run_denials_add(&denials, call);
    bool ok = record_calls(up, command->exec, calls);
    json_decref(calls);
    add_refusals(up->refusals, command->started_ns, &denials);
    result->denials = pin_run_denials_finish(&denials, &limits, result);
    return ok;
}

static void ask(const struct up *up, json_t *denied, const char *what, const char *value) {
    PIN_ARENA struct pin_arena arena = {0};
    json_t *why = pin_denial_of(up->front.ceiling, pin_arena_printf(&arena, "%s %s", what, value));
    if (why != NULL)
        (void)json_array_append_new(denied, why);
}

json_t *pin_up_refused(const struct up *up, const struct pin_kept_request *request) {
    char text[PIN_UNITS_TEXT];
    struct pin_secret_spec spec;
    struct pin_error unread = {0}; /* the refusal says it */
    json_t *denied = json_array();
    uint64_t time_ns;
    if (request->has_timeout && !__builtin_mul_overflow(request->timeout_ms, PIN_NS_PER_MS, &time_ns))
        ask(up, denied, "limit wall_time", pin_print_time(text, time_ns));
    for (size_t i = 0; i < request->secret_count; i++)
        if (pin_secret_spec_parse(request->secrets[i], &spec, &unread))
            ask(up, denied, "secret", spec.name);
    return denied;
}

const struct pin_policy *pin_up_egress_policy(const struct up *up) {
    const struct pin_policy *changed = up->live.asked[(up->live.turn + 1) % 2];
    return changed != NULL ? changed : pin_front_policy(&up->front);
}
