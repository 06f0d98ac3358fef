#include <stdlib.h>
#include <string.h>

#include <jansson.h>

#include "base/cleanup.h"
#include "base/units.h"
#include "runtime/egress/published.h"

static json_t *one(const struct pin_published *published) {
    return json_pack("{s:i, s:s}", "port", (int)published->asked.port, "at", published->at);
}

json_t *pin_publishing_list(const struct pin_publishing *publishing) {
    json_t *list = json_array();
    for (size_t i = 0; i < publishing->count; i++)
        if (!publishing->list[i].closed)
            (void)json_array_append_new(list, one(&publishing->list[i]));
    return list;
}

/* An event names a port by its rule, and both have the same number. */
static json_t *event_json(const struct pin_publishing *publishing, const struct pin_egress_event *event) {
    json_t *object = pin_egress_event_json(event, &publishing->session.rules);
    (void)json_object_del(object, "rule");
    (void)json_object_del(object, "place");
    (void)json_object_del(object, "mend");
    if (event->rule >= 0 && (size_t)event->rule < publishing->count)
        (void)json_object_set_new(object, "published",
                                  json_string(publishing->list[event->rule].at)); /* lost: out of memory */
    return object;
}

bool pin_publishing_next(struct pin_publishing *publishing, json_t **event) {
    struct pin_egress_event read;
    if (publishing->told < publishing->count && publishing->session.started) {
        const struct pin_published *published = &publishing->list[publishing->told++];
        *event = json_pack("{s:s, s:i, s:s, s:s}", "event", "published", "port", (int)published->asked.port,
                           "protocol", "tcp", "published", published->at);
        return true;
    }
    if (!pin_egress_session_next(&publishing->session, &read))
        return false;
    *event = event_json(publishing, &read);
    return true;
}

/* Those that are closed aren't listed. */
static size_t place_in_list(const struct pin_publishing *publishing, size_t rule) {
    size_t place = 0;
    for (size_t i = 0; i < rule; i++)
        place += !publishing->list[i].closed;
    return place;
}

static void count(json_t *ports, size_t place, const struct pin_egress_status *status) {
    json_t *counted =
        json_pack("{s:I, s:I, s:I, s:I, s:I}", "open", (json_int_t)status->open, "total",
                  (json_int_t)status->total, "refused", (json_int_t)status->refused, "bytes_out",
                  (json_int_t)status->bytes_out, "bytes_in", (json_int_t)status->bytes_in);
    (void)json_object_update(json_array_get(ports, place), counted);
    json_decref(counted);
}

json_t *pin_publishing_status(struct pin_publishing *publishing, struct pin_error *err) {
    size_t found;
    PIN_FREE struct pin_egress_status *list = calloc(PIN_EGRESS_STATUS_MAX, sizeof(*list));
    if (list == NULL) {
        (void)pin_fail_errno(err, "ask about the published ports");
        return NULL;
    }
    if (!pin_broker_status(&publishing->session.broker, publishing->count, list, &found, err))
        return NULL;
    json_t *ports = pin_publishing_list(publishing);
    for (size_t i = 0; i < found; i++)
        if (list[i].kind == PIN_EGRESS_STATUS_RULE && list[i].rule >= 0 &&
            !publishing->list[list[i].rule].closed)
            count(ports, place_in_list(publishing, (size_t)list[i].rule), &list[i]);
    return ports;
}

json_t *pin_publishing_totals(const struct pin_publishing *publishing) {
    const struct pin_egress_usage *usage = &publishing->session.usage;
    return json_pack("{s:o, s:I, s:I, s:I, s:I}", "ports", pin_publishing_list(publishing), "allowed",
                     (json_int_t)usage->allowed, "refused", (json_int_t)usage->denied, "bytes_out",
                     (json_int_t)usage->bytes_out, "bytes_in", (json_int_t)usage->bytes_in);
}
