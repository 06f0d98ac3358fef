/* How a command line names a rule; apart from egress_rule.c because of the list of public suffixes. */
#include <stdio.h>
#include <string.h>

#include "base/text.h"
#include "policy/egress_rule.h"
#include "policy/host_grant.h"

static bool parse_target(const char *target, size_t size, struct pin_arena *arena,
                         struct pin_egress_rule *rule, struct pin_error *err) {
    char text[PIN_HOST_WRITTEN_MAX + 2], canonical[PIN_HOST_MAX + 2];
    if (size >= sizeof(text))
        return pin_fail(err, PIN_ERROR_INVALID, "the destination is too long");
    memcpy(text, target, size);
    text[size] = '\0';
    bool bracketed = size > 2 && text[0] == '[' && text[size - 1] == ']';
    if (bracketed) {
        text[size - 1] = '\0';
        return pin_cidr_parse(text + 1, rule->address, &rule->prefix, err);
    }
    if (strchr(text, '/') != NULL || text[strspn(text, "0123456789.")] == '\0')
        return pin_cidr_parse(text, rule->address, &rule->prefix, err);
    if (!pin_host_grant(text, canonical, err))
        return false;
    rule->host = pin_arena_strdup(arena, canonical);
    return true;
}

bool pin_egress_parse(const char *text, struct pin_arena *arena, struct pin_egress_rule *rule,
                      struct pin_error *err) {
    struct pin_egress_rule parsed = {.protocol = PIN_PROTOCOL_TCP};
    struct pin_port_range range;
    char shown[96], ports[16];
    const char *colon = strrchr(text, ':');
    (void)pin_escape(shown, sizeof(shown), text, strlen(text));
    if (colon == NULL || colon == text) {
        (void)pin_fail(err, PIN_ERROR_USAGE, "'%s' has no port", shown);
        return pin_hint(err, "write HOST:PORT");
    }
    const char *slash = strchr(colon, '/');
    size_t length = slash != NULL ? (size_t)(slash - colon - 1) : strlen(colon + 1);
    int protocol = slash != NULL ? pin_protocol_find(slash + 1) : PIN_PROTOCOL_TCP;
    (void)snprintf(ports, sizeof(ports), "%.*s", (int)(length < sizeof(ports) ? length : 0), colon + 1);
    if (protocol < 0 || !pin_ports_parse(ports, &range))
        return pin_fail(err, PIN_ERROR_USAGE, "'%s' does not end in a port from 1 to 65535", shown);
    if (!parse_target(text, (size_t)(colon - text), arena, &parsed, err))
        return false;
    parsed.protocol = (enum pin_protocol)protocol;
    parsed.ports = pin_arena_memdup(arena, &range, sizeof(range));
    parsed.port_count = 1;
    *rule = parsed;
    return true;
}
