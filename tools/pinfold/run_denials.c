#include "tools/pinfold/run_denials.h"

#include <string.h>

#include "base/names.h"
#include "base/units.h"
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
    bool is_time;
};

/* {"resources": {KEY: twice the value}} */
static json_t *twice(const struct hit *hit) {
    char text[PIN_UNITS_TEXT];
    uint64_t more;
    const char *key = strrchr(pin_field_pointer(hit->field), '/') + 1;
    if (__builtin_mul_overflow(hit->value, UINT64_C(2), &more))
        more = UINT64_MAX - 1;
    (void)(hit->is_time ? pin_print_time(text, more) : pin_print_size(text, more));
    return json_pack("{s:{s:s}}", "resources", key, text);
}

static json_t *describe(const struct pin_bundle_ext *ext, const struct hit *hit) {
    char text[PIN_UNITS_TEXT];
    const char *place = pin_bundle_place(ext, hit->field);
    json_t *object = json_pack("{s:s, s:s}", "limit", hit->name, "pointer", pin_field_pointer(hit->field));
    if (place != NULL)
        set(object, "place", json_string(place));
    if (hit->value == 0 || hit->value == PIN_UNLIMITED)
        return object;
    set(object, "value",
        json_string(hit->is_time ? pin_print_time(text, hit->value) : pin_print_size(text, hit->value)));
    set(object, "mend", twice(hit));
    return object;
}

static uint64_t memory_of(const struct pin_bundle *bundle) {
    return bundle->resources.has_memory && bundle->resources.memory > 0 ? (uint64_t)bundle->resources.memory
                                                                        : PIN_UNLIMITED;
}

json_t *pin_run_limits_hit(const struct pin_bundle *bundle, const struct pin_result *result) {
    const struct pin_bundle_ext *ext = &bundle->ext;
    bool timeout = result->status == PIN_STATUS_TIMEOUT, output = result->status == PIN_STATUS_OUTPUT;
    bool cpu = timeout && ext->cpu_time_ns != PIN_UNLIMITED && result->usage.cpu_ns >= ext->cpu_time_ns;
    const struct hit hits[] = {
        {cpu,                                 "time",   PIN_FIELD_CPU_TIME,  ext->cpu_time_ns,  true },
        {timeout && !cpu,                     "time",   PIN_FIELD_WALL_TIME, ext->wall_time_ns, true },
        {result->status == PIN_STATUS_MEMORY, "memory", PIN_FIELD_MEMORY,    memory_of(bundle), false},
        {result->out.truncated && !output,    "stdout", PIN_FIELD_STDOUT,    ext->stdout_bytes, false},
        {result->err.truncated && !output,    "stderr", PIN_FIELD_STDERR,    ext->stderr_bytes, false},
        {output && result->err.truncated,     "output", PIN_FIELD_STDERR,    ext->stderr_bytes, false},
        {output && !result->err.truncated,    "output", PIN_FIELD_STDOUT,    ext->stdout_bytes, false},
    };
    json_t *list = json_array();
    for (size_t i = 0; i < PIN_COUNT(hits); i++)
        if (hits[i].is)
            (void)json_array_append_new(list, describe(ext, &hits[i]));
    return list;
}

json_t *pin_run_denials_finish(struct pin_run_denials *denials, const struct pin_bundle *bundle,
                               const struct pin_result *result) {
    json_t *limits = pin_run_limits_hit(bundle, result), *limit;
    size_t i;
    json_array_foreach(limits, i, limit) {
        json_t *object = json_pack("{s:s}", "denied", "limit");
        (void)json_object_update(object, limit);
        pin_run_denials_add(denials, object);
        json_decref(object);
    }
    json_decref(limits);
    if (denials->dropped > 0)
        (void)json_array_append_new(denials->list,
                                    json_pack("{s:I}", "dropped", (json_int_t)denials->dropped));
    json_t *list = denials->list;
    denials->list = NULL;
    return list;
}
