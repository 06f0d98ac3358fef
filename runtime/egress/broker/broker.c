#include "runtime/egress/broker/broker.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <string.h>

int broker_rule_number(const struct broker *broker, const struct pin_egress_rule *rule) {
    const struct pin_egress_rules *rules = &broker->rules;
    if (rule >= rules->allow && rule < rules->allow + rules->allow_count)
        return (int)(rule - rules->allow);
    if (rule >= rules->deny && rule < rules->deny + rules->deny_count)
        return (int)(rules->allow_count + (size_t)(rule - rules->deny));
    return PIN_EGRESS_NO_RULE;
}

static void copy_address(uint8_t to[16], const struct sockaddr_storage *from) {
    const struct sockaddr_in *four = (const void *)from;
    const struct sockaddr_in6 *six = (const void *)from;
    if (from->ss_family == AF_INET6) {
        memcpy(to, &six->sin6_addr, 16);
        return;
    }
    memset(to, 0, 10);
    memset(to + 10, 0xff, 2);
    memcpy(to + 12, &four->sin_addr, 4);
}

bool broker_destination(const struct broker *broker, const struct sockaddr_storage *dialled,
                        struct pin_destination *to) {
    /* The port is at the same place in both. */
    to->port = ntohs(((const struct sockaddr_in *)(const void *)dialled)->sin_port);
    copy_address(to->address, dialled);
    if (!pin_synthetic_is(to->address))
        return pin_address_classify(to->address) != PIN_ADDRESS_LOOPBACK; /* that is the sandbox itself */
    to->host = pin_synthetic_name(broker->names, to->address);
    if (to->host == NULL)
        return false;
    memset(to->address, 0, sizeof(to->address));
    return true;
}

struct pin_egress_event broker_event(const struct broker *broker, enum pin_egress_event_kind kind,
                                     const struct pin_destination *to, const struct pin_verdict *verdict) {
    struct pin_egress_event event = {
        .kind = (uint32_t)kind,
        .reason = (uint32_t)verdict->reason,
        .rule = broker_rule_number(broker, verdict->rule),
        .protocol = (uint32_t)to->protocol,
        .port = to->port,
    };
    memcpy(event.address, to->address, sizeof(event.address));
    size_t size = to->host != NULL ? strnlen(to->host, sizeof(event.name) - 1) : 0;
    if (size > 0)
        memcpy(event.name, to->host, size);
    event.name_size = (uint32_t)size;
    return event;
}

void broker_refuse(struct broker *broker, const struct pin_destination *to,
                   const struct pin_verdict *verdict) {
    struct pin_egress_event event = broker_event(broker, PIN_EGRESS_EVENT_REFUSE, to, verdict);
    report_event(&broker->report, &event, now_ns());
}
