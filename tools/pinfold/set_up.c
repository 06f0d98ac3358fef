#include "tools/pinfold/set_up.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/names.h"
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
    bill->cpu_ns = usage->cpu_ns + usage->egress.cpu_ns;
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
    int out = pin_egress_session_fd(egress->session),
        in = pin_egress_session_fd(&egress->publishing->session);
    if (egress->both >= 0)
        return out < 0 && in < 0 ? -1 : egress->both;
    return out >= 0 ? out : in;
}

/* A broker that has died stays readable. */
static void forget_lost(const struct pin_set_up_egress *egress) {
    const struct pin_egress_session *sessions[] = {egress->session, &egress->publishing->session};
    for (size_t i = 0; egress->both >= 0 && i < PIN_COUNT(sessions); i++)
        if (pin_egress_session_fd(sessions[i]) < 0)
            (void)epoll_ctl(egress->both, EPOLL_CTL_DEL, sessions[i]->broker.control,
                            NULL); /* it may be gone */
}

/* To whom sees all, and to the caller who wants it; true. */
static bool hand_on(const struct pin_set_up_egress *egress, json_t *json, json_t **object) {
    if (egress->see != NULL)
        egress->see(egress->self, json);
    if (object != NULL)
        *object = json;
    else
        json_decref(json);
    return true;
}

/* Nobody is denied anything by these: they are seen, whoever wants the others. */
static bool next_published(struct pin_set_up_egress *egress, json_t **object) {
    json_t *json;
    if (!pin_publishing_next(egress->publishing, &json)) {
        forget_lost(egress);
        return false;
    }
    return hand_on(egress, json, object);
}

static bool next_egress(void *self, json_t **object) {
    struct pin_set_up_egress *egress = self;
    struct pin_egress_event event;
    if (!pin_egress_session_next(egress->session, &event))
        return next_published(egress, object);
    if (object == NULL && (egress->wants == NULL || !egress->wants(egress->self, &event)))
        return true;
    json_t *json = pin_egress_event_json(&event, &egress->session->rules);
    return hand_on(egress, json, object);
}

static void settle_egress(void *self) {
    struct pin_set_up_egress *egress = self;
    pin_egress_session_settle(egress->session);
}

size_t pin_set_up_lost(const struct pin_set_up_egress *egress, const char *names[PIN_EGRESS_LOST_MAX]) {
    size_t count = 0;
    if (egress->session == NULL)
        return 0; /* never started */
    if (pin_egress_session_is_lost(egress->session))
        names[count++] = "egress"; /* the network was closed since */
    if (pin_egress_session_is_lost(&egress->publishing->session))
        names[count++] = "publish"; /* and nobody was let in any more */
    return count;
}

static size_t lost_egress(void *self, const char *names[PIN_EGRESS_LOST_MAX]) {
    return pin_set_up_lost(self, names);
}

static bool end_egress(void *self, bool drains) {
    struct pin_set_up_egress *egress = self;
    return pin_egress_session_end(egress->session, drains) && pin_publishing_end(egress->publishing, drains);
}

bool pin_set_up_needs_folder(const struct pin_plan *plan) {
    for (size_t i = 0; i < plan->publish_count; i++)
        if (plan->publish[i].at == PIN_PUBLISH_UNIX)
            return true;
    return false;
}

static bool publish(struct pin_set_up_egress *egress, const struct pin_front *front, int door,
                    const char *program, struct pin_error *err) {
    const struct pin_publishing_plan plan = {
        .program = program,
        .list = front->plan->publish,
        .count = front->plan->publish_count,
        .limits = &front->bundle->ext.egress_limits,
        .door = door,
        .folder = egress->folder,
    };
    return pin_publishing_start(egress->publishing, &plan, err);
}

static bool watch_both(struct pin_set_up_egress *egress, struct pin_error *err) {
    const int fds[] = {egress->session->broker.control, egress->publishing->session.broker.control};
    egress->both = epoll_create1(EPOLL_CLOEXEC);
    for (size_t i = 0; i < PIN_COUNT(fds); i++) {
        struct epoll_event event = {.events = EPOLLIN};
        if (egress->both < 0 || epoll_ctl(egress->both, EPOLL_CTL_ADD, fds[i], &event) != 0)
            return pin_fail_errno(err, "watch the brokers");
    }
    return true;
}

bool pin_set_up_egress_start(struct pin_set_up_egress *egress, const struct pin_front *front,
                             struct pin_sandbox *sandbox, struct pin_egress_ops *ops, struct pin_error *err) {
    char program[PATH_MAX];
    struct pin_egress_setup setup;
    *ops = (struct pin_egress_ops){.self = egress};
    bool out = front->plan->egress, in = front->plan->publish_count > 0;
    egress->both = -1;
    if (!out && !in)
        return true;
    *ops = (struct pin_egress_ops){egress, egress_fd, next_egress, settle_egress, end_egress, lost_egress};
    struct pin_secrets login = {0};
    bool started =
        pin_libexec_find("pinfold-broker", program, err) &&
        (!out || (pin_way_out_find(&front->bundle->ext, &setup, &login, err) &&
                  pin_egress_session_start(egress->session, program, &setup, &sandbox->egress, err))) &&
        (!in || publish(egress, front, sandbox->door, program, err)) &&
        (!out || !in || watch_both(egress, err));
    pin_close_fd(&sandbox->door); /* nobody else joins by it */
    pin_secrets_free(&login);
    return started;
}
