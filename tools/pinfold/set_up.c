#include "tools/pinfold/set_up.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/units.h"
#include "runtime/host/libexec.h"
#include "tools/pinfold/way_out.h"

void pin_set_up_limits(const struct pin_bundle_ext *ext, struct pin_limits *limits) {
    *limits = (struct pin_limits){
        .wall_time_ns = ext->wall_time_ns,
        .cpu_time_ns = ext->cpu_time_ns,
        .grace_ns = ext->grace_ns,
        .stdout_bytes = ext->stdout_bytes,
        .stderr_bytes = ext->stderr_bytes,
        .frame_bytes = ext->frame_bytes,
        .on_output_cap = ext->on_output_cap,
    };
}

const char *const *pin_set_up_list(struct pin_arena *arena, const char *const *items, size_t count) {
    const char **list = pin_arena_array(arena, count + 1, sizeof(*list));
    for (size_t i = 0; i < count; i++)
        list[i] = items[i];
    return list;
}

size_t pin_set_up_missing(uint32_t missing, const char *names[PIN_PROTECT_COUNT]) {
    size_t count = 0;
    for (int i = 0; i < PIN_PROTECT_COUNT; i++)
        if (missing & (1u << i))
            names[count++] = pin_protection_name((enum pin_protection)i);
    return count;
}

json_t *pin_set_up_labels(const struct pin_bundle_ext *ext) {
    json_t *labels = json_object();
    for (size_t i = 0; i < ext->label_count; i++)
        (void)json_object_set_new(labels, ext->labels[i].key, json_string(ext->labels[i].value));
    return labels;
}

uid_t pin_set_up_owner(const struct pin_slot *slot, uint32_t id_inside) {
    return pin_slot_id_base(slot->number) + id_inside;
}

void pin_set_up_execute(const char *program, const char *const *argv) {
    char path[PATH_MAX];
    struct pin_error unfound = {0};
    if (pin_libexec_find(program, path, &unfound))
        (void)execv(path, (char *const *)(uintptr_t)argv);
}

bool pin_set_up_bill_run(struct pin_bill *bill, const struct pin_result *result, struct pin_error *err) {
    const struct pin_usage *usage = &result->usage;
    if (bill->id[0] == '\0')
        return true;
    bill->kind = "run";
    bill->sandbox = result->sandbox;
    bill->labels = result->labels;
    bill->cpu_ns = usage->cpu_ns;
    bill->wall_ms = usage->wall_ns / PIN_NS_PER_MS;
    bill->memory_byte_ms =
        usage->memory_byte_ms != 0 ? usage->memory_byte_ms : usage->memory_peak_bytes * bill->wall_ms;
    bill->egress_out = usage->egress.bytes_out;
    bill->egress_in = usage->egress.bytes_in;
    bill->runs = 1;
    return pin_bill_write(bill, err);
}

static int egress_fd(void *self) {
    const struct pin_set_up_egress *egress = self;
    return pin_egress_session_fd(egress->session);
}

static bool next_egress(void *self, json_t **object) {
    struct pin_set_up_egress *egress = self;
    struct pin_egress_event event;
    if (!pin_egress_session_next(egress->session, &event))
        return false;
    if (object == NULL && (egress->wants == NULL || !egress->wants(egress->self, &event)))
        return true;
    json_t *json = pin_egress_event_json(&event, &egress->session->rules);
    if (egress->see != NULL)
        egress->see(egress->self, json);
    if (object != NULL)
        *object = json;
    else
        json_decref(json);
    return true;
}

static void end_egress(void *self) {
    struct pin_set_up_egress *egress = self;
    pin_egress_session_end(egress->session);
}

bool pin_set_up_egress_start(struct pin_set_up_egress *egress, const struct pin_front *front,
                             struct pin_sandbox *sandbox, struct pin_egress_ops *ops, struct pin_error *err) {
    char program[PATH_MAX];
    struct pin_egress_setup setup = pin_front_egress(front);
    *ops = (struct pin_egress_ops){.self = egress};
    if (!front->plan->egress)
        return true;
    *ops = (struct pin_egress_ops){egress, egress_fd, next_egress, end_egress};
    struct pin_secrets login = {0};
    bool started = pin_libexec_find("pinfold-broker", program, err) &&
                   pin_way_out_find(&front->bundle->ext, &setup, &login, err) &&
                   pin_egress_session_start(egress->session, program, &setup, &sandbox->egress, err);
    pin_secrets_free(&login);
    return started;
}
