#include "tools/pinfold/refusal.h"

#include <inttypes.h>
#include <string.h>

#include <jansson.h>

#include "base/units.h"
#include "policy/audit/denial.h"
#include "runtime/secrets/secret_spec.h"
#include "tools/pinfold/report.h"
#include "tools/pinfold/run_audit.h"

struct asked { /* the questions, and those that are denied */
    const struct pin_policy *policy;
    struct pin_arena arena;
    json_t *denied;
};

static void ask(struct asked *asked, const char *what, const char *value) {
    json_t *why = pin_denial_of(asked->policy, pin_arena_printf(&asked->arena, "%s %s", what, value));
    if (why != NULL)
        (void)json_array_append_new(asked->denied, why);
}

static void ask_limits(struct asked *asked, const struct pin_request *request) {
    char text[PIN_UNITS_TEXT];
    if (request->has_memory)
        ask(asked, "limit memory", pin_print_size(text, request->memory_bytes));
    if (request->has_cpus)
        ask(asked, "limit cpus", pin_print_cpus(text, request->millicpus));
    if (request->has_pids)
        ask(asked, "limit pids", pin_arena_printf(&asked->arena, "%" PRIu64, request->pids));
    if (request->has_wall_time)
        ask(asked, "limit wall_time", pin_print_time(text, request->wall_time_ns));
}

static void ask_grants(struct asked *asked, const struct pin_request *request) {
    struct pin_secret_spec spec;
    struct pin_error unread = {0}; /* a finding says it */
    for (size_t i = 0; i < request->egress_count; i++)
        ask(asked, "connect", request->egress[i]);
    for (size_t i = 0; i < request->secret_count; i++)
        if (pin_secret_spec_parse(request->secrets[i], &spec, &unread))
            ask(asked, "secret", spec.name);
}

/* NULL: nothing of that kind was refused. */
static json_t *find_denied(const struct pin_front *front, const struct pin_findings *found) {
    struct asked asked = {.policy = front->ceiling, .denied = json_array()};
    bool refused = false;
    for (size_t i = 0; i < found->count; i++)
        refused |= found->list[i].kind == PIN_ERROR_REFUSED;
    if (refused && front->ceiling != NULL) {
        ask_limits(&asked, &front->request);
        ask_grants(&asked, &front->request);
    }
    pin_arena_free(&asked.arena);
    if (json_array_size(asked.denied) > 0)
        return asked.denied;
    json_decref(asked.denied);
    return NULL;
}

int pin_refusal_report(const struct pin_front *front, const struct pin_findings *found, bool audit_sync,
                       bool as_json) {
    struct pin_error err = {0};
    json_t *denied = find_denied(front, found);
    if (!pin_run_audit_refusal(front, found, denied, audit_sync, &err))
        (void)pin_report(&err, false);
    int code = pin_report_refusal(found, denied, as_json);
    json_decref(denied);
    return code;
}
