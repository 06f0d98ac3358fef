#include "tools/pinfold/egress_why.h"

#include <string.h>

#include "policy/audit/denial.h"

void pin_egress_why_add(json_t *event, const struct pin_policy *policy) {
    const char *kind = json_string_value(json_object_get(event, "event"));
    const char *protocol = json_string_value(json_object_get(event, "protocol"));
    if (kind == NULL || strcmp(kind, "refuse") != 0)
        return;
    if (protocol != NULL && pin_protocol_find(protocol) < 0)
        return; /* no policy grants it, so there is nothing to ask one for */
    const struct pin_denied_connection what = {
        .host = json_string_value(json_object_get(event, "host")),
        .address = json_string_value(json_object_get(event, "address")),
        .port = (unsigned)json_integer_value(json_object_get(event, "port")),
        .udp = protocol != NULL && strcmp(protocol, "udp") == 0,
        .reason = json_string_value(json_object_get(event, "reason")),
    };
    json_t *why = pin_denial_of_connection(policy, &what);
    if (why == NULL)
        return;
    /* the broker, which names what its rules lack, knows of no site */
    if (policy->site != NULL && !json_is_object(json_object_get(why, "edit")))
        (void)json_object_del(event, "mend");
    (void)json_object_set_new(event, "why", why);
}
