#include "tools/pinfold/run_denials.h"

#include <string.h>

#include "base/names.h"
#include "base/units.h"
#include "policy/audit/denial.h"
#include "runtime/bundle/bundle_places.h"

static void set(json_t *object, const char *key, json_t *value) {
    (void)json_object_set_new(object, key, value); /* out of memory: the field is left out */
}

void pin_run_denials_add(struct pin_run_denials *denials, json_t *object) {
    if (denials->list == NULL)
        denials->list = json_array();
    if (json_array_size(denials->list) < PIN_DENIALS_MAX)
        (void)json_array_append(denials->list, object);
    else
        denials->dropped++;
}

void pin_run_denials_egress(struct pin_run_denials *denials, const json_t *event) {
    const char *kind = json_string_value(json_object_get(event, "event"));
    if (kind == NULL || strcmp(kind, "refuse") != 0)
        return;
    json_t *object = json_pack("{s:s}", "denied", "connect");
    (void)json_object_update_missing(object, (json_t *)(uintptr_t)event);
    (void)json_object_del(object, "event");
    if (json_object_get(object, "rule") == NULL)
        set(object, "pointer", json_string(pin_field_pointer(PIN_FIELD_EGRESS)));
    pin_run_denials_add(denials, object);
    json_decref(object);
}

/* --- limits --- */

struct hit {
    bool is;
    const char *name;
    enum pin_field field;
    uint64_t value;
    bool is_time, is_own;
};

static const char *print(const struct hit *hit, uint64_t value, char text[PIN_UNITS_TEXT]) {
    return hit->is_time ? pin_print_time(text, value) : pin_print_size(text, value);
}

static void explain(json_t *object, const struct pin_policy *policy, const struct hit *hit) {
    char text[PIN_UNITS_TEXT];
    uint64_t more;
    const char *key = strrchr(pin_field_pointer(hit->field), '/') + 1;
    if (__builtin_mul_overflow(hit->value, UINT64_C(2), &more))
        more = UINT64_MAX - 1;
    json_t *why = pin_denial_of_limit(policy, key, print(hit, more, text),
                                      "the command was given less time than the policy grants");
    json_t *edit = json_object_get(why, "edit");
    if (json_is_object(edit))
        (void)json_object_set(object, "mend", edit);
    if (why != NULL)
        set(object, "why", why);
}

static json_t *describe(const struct pin_run_limits *limits, const struct hit *hit) {
    char text[PIN_UNITS_TEXT];
    const char *place =
        hit->is_own ? "the command's own timeout" : pin_bundle_place(&limits->bundle->ext, hit->field);
    json_t *object = json_pack("{s:s, s:s, s:s}", "denied", "limit", "limit", hit->name, "pointer",
                               pin_field_pointer(hit->field));
    if (place != NULL)
        set(object, "place", json_string(place));
    if (hit->value == 0 || hit->value == PIN_UNLIMITED)
        return object;
    set(object, "value", json_string(print(hit, hit->value, text)));
    explain(object, limits->policy, hit);
    return object;
}

static uint64_t memory_of(const struct pin_bundle *bundle) {
    return bundle->resources.has_memory && bundle->resources.memory > 0 ? (uint64_t)bundle->resources.memory
                                                                        : PIN_UNLIMITED;
}

static void add_limits(json_t *list, const struct pin_run_limits *limits, const struct pin_result *result) {
    const struct pin_bundle_ext *ext = &limits->bundle->ext;
    bool timeout = result->status == PIN_STATUS_TIMEOUT, output = result->status == PIN_STATUS_OUTPUT;
    bool cpu = timeout && ext->cpu_time_ns != PIN_UNLIMITED && result->usage.cpu_ns >= ext->cpu_time_ns;
    bool own = limits->own_time_ns != 0 && limits->own_time_ns < ext->wall_time_ns;
    uint64_t wall_ns = own ? limits->own_time_ns : ext->wall_time_ns, memory = memory_of(limits->bundle);
    const struct hit hits[] = {
        {cpu,                                 "time",   PIN_FIELD_CPU_TIME,  ext->cpu_time_ns,  true,  false},
        {timeout && !cpu,                     "time",   PIN_FIELD_WALL_TIME, wall_ns,           true,  own  },
        {result->status == PIN_STATUS_MEMORY, "memory", PIN_FIELD_MEMORY,    memory,            false, false},
        {result->out.truncated && !output,    "stdout", PIN_FIELD_STDOUT,    ext->stdout_bytes, false, false},
        {result->err.truncated && !output,    "stderr", PIN_FIELD_STDERR,    ext->stderr_bytes, false, false},
        {output && result->err.truncated,     "output", PIN_FIELD_STDERR,    ext->stderr_bytes, false, false},
        {output && !result->err.truncated,    "output", PIN_FIELD_STDOUT,    ext->stdout_bytes, false, false},
    };
    for (size_t i = 0; i < PIN_COUNT(hits); i++)
        if (hits[i].is)
            (void)json_array_append_new(list, describe(limits, &hits[i]));
}

json_t *pin_run_denials_finish(struct pin_run_denials *denials, const struct pin_run_limits *limits,
                               const struct pin_result *result) {
    json_t *list = denials->list != NULL ? denials->list : json_array();
    denials->list = NULL;
    if (denials->dropped > 0)
        (void)json_array_append_new(list, json_pack("{s:I}", "dropped", (json_int_t)denials->dropped));
    add_limits(list, limits, result);
    if (json_array_size(list) > 0)
        return list;
    json_decref(list);
    return NULL;
}
