#include "runtime/egress/status.h"

#include <string.h>

bool pin_egress_status_valid(const struct pin_egress_status *status, size_t rule_count) {
    if (status->kind < PIN_EGRESS_STATUS_OPEN || status->kind >= PIN_EGRESS_STATUS_KIND_COUNT ||
        status->rule < PIN_EGRESS_NO_RULE || (status->rule >= 0 && (size_t)status->rule >= rule_count) ||
        status->protocol >= PIN_PROTOCOL_COUNT || status->port > UINT16_MAX ||
        status->name_size >= sizeof(status->name) || status->name[status->name_size] != '\0')
        return false;
    for (uint32_t i = 0; i < status->name_size; i++)
        if (status->name[i] <= ' ' || status->name[i] > '~')
            return false;
    return true;
}
