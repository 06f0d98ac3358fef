#include <netinet/in.h>
#include <string.h>

#include <jansson.h>

#include "base/names.h"
#include "policy/egress_rule.h"
#include "policy/policy_write.h"
#include "runtime/egress/session.h"

static const struct pin_egress_rule *find_rule(const struct pin_egress_rules *rules, int number) {
    if (number < 0)
        return NULL;
    size_t at = (size_t)number;
    if (at < rules->allow_count)
        return &rules->allow[at];
    return at - rules->allow_count < rules->deny_count ? &rules->deny[at - rules->allow_count] : NULL;
}

static void set(json_t *object, const char *key, json_t *value) {
    (void)json_object_set_new(object, key, value); /* out of memory: the field is left out */
}

/* Of what no rule can name. */
static json_t *print_other(unsigned number) {
    static const char *const names[] = {
        [IPPROTO_ICMP] = "icmp", [IPPROTO_IGMP] = "igmp",       [IPPROTO_DCCP] = "dccp",
        [IPPROTO_SCTP] = "sctp", [IPPROTO_UDPLITE] = "udplite", [IPPROTO_ICMPV6] = "ipv6-icmp",
    };
    const char *name = number < PIN_COUNT(names) ? names[number] : NULL;
    return name != NULL ? json_string(name) : json_sprintf("ip-%u", number);
}

static void add_destination(json_t *object, const struct pin_egress_event *event) {
    static const uint8_t none[PIN_ADDRESS_SIZE];
    char address[PIN_ADDRESS_TEXT];
    if (event->name_size > 0)
        set(object, "host", json_string(event->name));
    if (memcmp(event->address, none, sizeof(none)) != 0)
        set(object, "address", json_string(pin_address_print(address, event->address)));
    if (event->port != 0)
        set(object, "port", json_integer((json_int_t)event->port));
    if (event->other_protocol != 0)
        set(object, "protocol", print_other(event->other_protocol - 1));
    else if (event->port != 0)
        set(object, "protocol", json_string(pin_protocol_name((enum pin_protocol)event->protocol)));
}

static void add_totals(json_t *object, const struct pin_egress_event *event) {
    set(object, "bytes_out", json_integer((json_int_t)event->bytes_out));
    set(object, "bytes_in", json_integer((json_int_t)event->bytes_in));
    if (event->undelivered > 0)
        set(object, "undelivered", json_integer((json_int_t)event->undelivered));
    set(object, "duration_ms", json_integer((json_int_t)(event->duration_ns / 1000000)));
}

/* The line that decided: of the rule, or of the list that has none for it. */
static void add_place(json_t *object, const struct pin_egress_event *event,
                      const struct pin_egress_rule *rule, const struct pin_egress_rules *rules) {
    char place[PIN_PLACE_TEXT];
    if (rule != NULL && rule->place.file != NULL)
        set(object, "place", json_string(pin_place_print(place, &rule->place)));
    else if (event->kind == PIN_EGRESS_EVENT_REFUSE && rule == NULL && rules->place != NULL)
        set(object, "place", json_string(rules->place));
}

json_t *pin_egress_event_json(const struct pin_egress_event *event, const struct pin_egress_rules *rules) {
    char text[512];
    enum pin_egress_event_kind kind = (enum pin_egress_event_kind)event->kind;
    const struct pin_egress_rule *rule = find_rule(rules, event->rule);
    json_t *object = json_object();
    set(object, "event", json_string(pin_egress_event_name(kind)));
    if (kind == PIN_EGRESS_EVENT_REFUSE)
        set(object, "reason", json_string(pin_egress_reason_name((enum pin_egress_reason)event->reason)));
    add_destination(object, event);
    if (rule != NULL)
        set(object, "rule", json_string(pin_egress_print(text, sizeof(text), rule)));
    add_place(object, event, rule, rules);
    if (event->os_errno != 0 && kind == PIN_EGRESS_EVENT_FAIL)
        set(object, "error", json_string(strerrorname_np(event->os_errno)));
    if (kind == PIN_EGRESS_EVENT_CLOSE)
        add_totals(object, event);
    if (event->repeated > 1)
        set(object, "times", json_integer((json_int_t)event->repeated));
    if (pin_egress_event_mend(event, text, sizeof(text)))
        set(object, "mend", json_loads(text, 0, NULL));
    return object;
}
