/* status.h: what a broker says of itself when it is asked: one record a connection, a rule, a budget.
 *
 * Fixed size, host byte order, as event.h; the supervisor checks each one before it reads more than the kind.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "runtime/egress/event.h"

#define PIN_EGRESS_STATUS_MAX 512 /* records; those that find no room are counted by the last one */

enum pin_egress_status_kind {
    PIN_EGRESS_STATUS_OPEN = 1, /* a connection or flow */
    PIN_EGRESS_STATUS_RULE,     /* `rule`: its number in the allow list */
    PIN_EGRESS_STATUS_BUDGET,   /* `name`: the budget's; '': the whole sandbox */
    PIN_EGRESS_STATUS_MORE,     /* `open` connections that aren't listed */
    PIN_EGRESS_STATUS_KIND_COUNT
};

struct pin_egress_status {
    uint32_t kind;
    int32_t rule; /* PIN_EGRESS_NO_RULE: none */
    uint32_t protocol, port;
    uint64_t open, total, refused; /* of a rule or budget */
    uint64_t bytes_out, bytes_in, age_ns, id;
    uint8_t address[16];
    uint32_t name_size;
    char name[PIN_EGRESS_NAME_MAX];
};

bool pin_egress_status_valid(const struct pin_egress_status *status, size_t rule_count);
