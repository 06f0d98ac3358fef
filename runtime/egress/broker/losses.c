#include "runtime/egress/broker/losses.h"

#include <sys/socket.h>

#include <linux/sock_diag.h>

#include "base/names.h"
#include "base/units.h"

#define DNS_PORT 53

/* Since the socket was made; a netlink socket counts as one of UDP does. */
static bool read_dropped(int fd, uint32_t *dropped) {
    uint32_t facts[SK_MEMINFO_VARS] = {0};
    socklen_t size = sizeof(facts);
    if (fd < 0 || getsockopt(fd, SOL_SOCKET, SO_MEMINFO, facts, &size) != 0)
        return false;
    *dropped = facts[SK_MEMINFO_DROPS];
    return true;
}

static void tell(struct broker *broker, enum pin_egress_socket socket, struct pin_egress_event event) {
    uint32_t *told = &broker->dropped[socket], now;
    if (!read_dropped(broker->sockets[socket], &now) || now == *told)
        return;
    event.kind = PIN_EGRESS_EVENT_REFUSE;
    event.rule = PIN_EGRESS_NO_RULE;
    event.repeated = now - *told; /* the counter may go round */
    *told = now;
    report_event(&broker->report, &event, now_ns());
}

void losses_tell(struct broker *broker) {
    /* What the questions asked for isn't known, and what the packets were refused for only in general. */
    tell(broker, PIN_EGRESS_DNS_UDP,
         (struct pin_egress_event){
             .reason = PIN_EGRESS_BUDGET, .protocol = PIN_PROTOCOL_UDP, .port = DNS_PORT});
    tell(broker, PIN_EGRESS_REFUSED, (struct pin_egress_event){.reason = PIN_EGRESS_NOT_LISTED});
    broker->losses_ns = now_ns();
}

void losses_tick(struct broker *broker, uint64_t now) {
    if (elapsed_ns(now, broker->losses_ns) >= PIN_NS_PER_S)
        losses_tell(broker);
}
