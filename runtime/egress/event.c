#include "runtime/egress/event.h"

#include <stdio.h>
#include <string.h>

#include "base/names.h"

static const char *const event_names[] = {
    [PIN_EGRESS_EVENT_READY] = "ready",       [PIN_EGRESS_EVENT_NAME] = "name",
    [PIN_EGRESS_EVENT_CONNECT] = "connect",   [PIN_EGRESS_EVENT_REFUSE] = "refuse",
    [PIN_EGRESS_EVENT_FAIL] = "fail",         [PIN_EGRESS_EVENT_CLOSE] = "close",
    [PIN_EGRESS_EVENT_REPLACED] = "replaced", [PIN_EGRESS_EVENT_FAULT] = "fault",
    [PIN_EGRESS_EVENT_BYTES] = "bytes",
};
_Static_assert(PIN_COUNT(event_names) == PIN_EGRESS_EVENT_COUNT, "every kind of event has a name");

const char *pin_egress_event_name(enum pin_egress_event_kind kind) {
    return event_names[kind];
}

static bool is_printable(const char *text, size_t size) {
    for (size_t i = 0; i < size; i++)
        if (text[i] <= 0x20 || text[i] > 0x7e)
            return false;
    return true;
}

bool pin_egress_event_valid(const struct pin_egress_event *event, size_t size, size_t rule_count) {
    return size == sizeof(*event) && event->kind >= PIN_EGRESS_EVENT_READY &&
           event->kind < PIN_EGRESS_EVENT_COUNT && event->reason < PIN_EGRESS_REASON_COUNT &&
           event->protocol < PIN_PROTOCOL_COUNT && event->other_protocol <= UINT8_MAX + 1u &&
           event->port <= UINT16_MAX && event->rule >= PIN_EGRESS_NO_RULE &&
           (event->rule < 0 || (size_t)event->rule < rule_count) && event->name_size < sizeof(event->name) &&
           event->name[event->name_size] == '\0' && strlen(event->name) == event->name_size &&
           is_printable(event->name, event->name_size);
}

void pin_egress_usage_add(struct pin_egress_usage *usage, const struct pin_egress_event *event) {
    uint64_t times = event->repeated > 0 ? event->repeated : 1;
    if (event->kind == PIN_EGRESS_EVENT_CONNECT)
        usage->allowed += times;
    if (event->kind == PIN_EGRESS_EVENT_REFUSE)
        usage->denied += times;
    if (event->kind == PIN_EGRESS_EVENT_CLOSE)
        usage->undelivered += event->undelivered;
    if (event->passed_out > usage->bytes_out)
        usage->bytes_out = event->passed_out;
    if (event->passed_in > usage->bytes_in)
        usage->bytes_in = event->passed_in;
}

bool pin_egress_event_mend(const struct pin_egress_event *event, char *to, size_t room) {
    char address[PIN_ADDRESS_TEXT];
    bool mendable = event->reason == PIN_EGRESS_NO_RULES || event->reason == PIN_EGRESS_NOT_LISTED ||
                    event->reason == PIN_EGRESS_PORT || event->reason == PIN_EGRESS_PROTOCOL ||
                    event->reason == PIN_EGRESS_ADDRESS_CLASS || event->reason == PIN_EGRESS_HOST_ADDRESS;
    static const uint8_t none[PIN_ADDRESS_SIZE]; /* of a sum: it names neither */
    bool names_none = event->name_size == 0 && memcmp(event->address, none, sizeof(none)) == 0;
    bool by_address = event->name_size == 0 || event->reason == PIN_EGRESS_ADDRESS_CLASS ||
                      event->reason == PIN_EGRESS_HOST_ADDRESS;
    if (event->kind != PIN_EGRESS_EVENT_REFUSE || !mendable || names_none || event->other_protocol != 0)
        return false;
    const char *what = by_address ? pin_address_print(address, event->address) : event->name;
    const char *protocol = event->protocol == PIN_PROTOCOL_UDP ? ", \"protocol\": \"udp\"" : "";
    /* A question has no port yet: the usual one is a guess that the reader sees. */
    unsigned port = event->port != 0 ? event->port : 443;
    return (size_t)snprintf(to, room, "{\"%s\": \"%s\", \"ports\": [%u]%s}", by_address ? "cidr" : "host",
                            what, port, protocol) < room;
}
