#include "policy/egress_judge.h"

#include <string.h>

#include "base/names.h"
#include "policy/egress_rule.h"
#include "policy/egress_terms.h"
#include "policy/host_name.h"

static const char *const reason_names[] = {
    [PIN_EGRESS_ALLOWED] = "allowed",
    [PIN_EGRESS_NO_RULES] = "no-rules",
    [PIN_EGRESS_NOT_LISTED] = "not-listed",
    [PIN_EGRESS_PORT] = "port",
    [PIN_EGRESS_PROTOCOL] = "protocol",
    [PIN_EGRESS_DENY_RULE] = "deny-rule",
    [PIN_EGRESS_ADDRESS_CLASS] = "address-class",
    [PIN_EGRESS_HOST_ADDRESS] = "host-address",
    [PIN_EGRESS_BAD_NAME] = "bad-name",
    [PIN_EGRESS_NOT_RESOLVED] = "not-resolved",
    [PIN_EGRESS_TLS_NAME] = "tls-name",
    [PIN_EGRESS_NOT_TLS] = "not-tls",
    [PIN_EGRESS_HTTP_HOST] = "http-host",
    [PIN_EGRESS_NOT_HTTP] = "not-http",
    [PIN_EGRESS_BUDGET] = "budget",
};
_Static_assert(PIN_COUNT(reason_names) == PIN_EGRESS_REASON_COUNT, "every reason has a name");

const char *pin_egress_reason_name(enum pin_egress_reason reason) {
    return reason_names[reason];
}

/* No wildcard grants the host's loopback. */
static bool covers_name(const struct pin_egress_rule *rule, const char *host) {
    if (rule->host[0] == '*' && strcmp(host, PIN_HOST_INTERNAL) == 0)
        return false;
    return pin_host_match(rule->host, host);
}

/* One that refuses means it, too. */
static bool denies_place(const struct pin_egress_rule *rule, const struct pin_destination *to) {
    if (to->host != NULL)
        return rule->host != NULL && pin_host_match(rule->host, to->host);
    return pin_egress_contains(rule, to->address);
}

static bool covers_place(const struct pin_egress_rule *rule, const struct pin_destination *to) {
    if (to->host != NULL)
        return rule->host != NULL && covers_name(rule, to->host);
    return pin_egress_contains(rule, to->address);
}

/* Of a rule whose range has the address: what keeps the rule from granting it. */
static enum pin_egress_reason why_closed(const struct pin_egress_rule *rule,
                                         const struct pin_destination *to) {
    if (to->host != NULL)
        return PIN_EGRESS_ALLOWED;
    if (!pin_egress_opens(rule, to->address))
        return PIN_EGRESS_ADDRESS_CLASS;
    bool is_loopback = pin_address_classify(to->address) == PIN_ADDRESS_LOOPBACK;
    return to->is_own && !is_loopback && rule->prefix < 128 ? PIN_EGRESS_HOST_ADDRESS : PIN_EGRESS_ALLOWED;
}

static enum pin_egress_reason apply(const struct pin_egress_rule *rule, const struct pin_destination *to) {
    if (to->port == 0 || !pin_ports_include(rule, to->port))
        return PIN_EGRESS_PORT;
    return rule->protocol != to->protocol ? PIN_EGRESS_PROTOCOL : why_closed(rule, to);
}

static const struct pin_egress_rule *find_deny(const struct pin_egress_rules *rules,
                                               const struct pin_destination *to) {
    struct pin_destination inside = *to; /* where a translator would lead */
    bool carries =
        rules->deny_count > 0 && to->host == NULL && pin_address_carried(inside.address, to->address);
    for (size_t i = 0; i < rules->deny_count; i++) {
        const struct pin_egress_rule *rule = &rules->deny[i];
        bool covers = denies_place(rule, to) || (carries && denies_place(rule, &inside));
        if (covers && (rule->port_count == 0 || pin_ports_include(rule, to->port)))
            return rule;
    }
    return NULL;
}

static struct pin_verdict not_listed(const struct pin_egress_rules *rules) {
    return (struct pin_verdict){
        .reason = rules->allow_count == 0 ? PIN_EGRESS_NO_RULES : PIN_EGRESS_NOT_LISTED,
    };
}

/* The reasons stand in this order; of several ports the last one is told. */
static bool is_nearer(enum pin_egress_reason reason, enum pin_egress_reason than) {
    return reason > than || (reason == PIN_EGRESS_PORT && than == PIN_EGRESS_PORT);
}

static struct pin_verdict find_allow(const struct pin_egress_rules *rules, const struct pin_destination *to) {
    struct pin_verdict nearest = not_listed(rules);
    for (size_t i = 0; i < rules->allow_count; i++) {
        const struct pin_egress_rule *rule = &rules->allow[i];
        if (!covers_place(rule, to))
            continue;
        enum pin_egress_reason reason = apply(rule, to);
        if (reason == PIN_EGRESS_ALLOWED) {
            if (!nearest.allowed || pin_egress_terms_before(rule, nearest.rule, to->port))
                nearest = (struct pin_verdict){.allowed = true, .reason = PIN_EGRESS_ALLOWED, .rule = rule};
        } else if (!nearest.allowed && is_nearer(reason, nearest.reason)) {
            nearest = (struct pin_verdict){.reason = reason, .rule = rule};
        }
    }
    return nearest;
}

struct pin_verdict pin_egress_judge(const struct pin_egress_rules *rules, const struct pin_destination *to) {
    const struct pin_egress_rule *deny = find_deny(rules, to);
    if (deny != NULL)
        return (struct pin_verdict){.reason = PIN_EGRESS_DENY_RULE, .rule = deny};
    return find_allow(rules, to);
}

/* The first port from `port` on that `deny` leaves alone. */
static uint32_t port_after(const struct pin_egress_rule *deny, uint32_t port) {
    if (deny->port_count == 0)
        return UINT16_MAX + 1;
    for (size_t i = 0; i < deny->port_count; i++)
        if (port >= deny->ports[i].first && port <= deny->ports[i].last)
            return (uint32_t)deny->ports[i].last + 1;
    return port;
}

static bool range_is_left(const struct pin_egress_rules *rules, struct pin_port_range range,
                          const char *host) {
    for (uint32_t port = range.first > 0 ? range.first : 1; port <= range.last;) {
        struct pin_destination to = {.host = host, .port = (uint16_t)port};
        const struct pin_egress_rule *deny = find_deny(rules, &to);
        if (deny == NULL)
            return true;
        port = port_after(deny, port);
    }
    return false;
}

static bool rule_is_left(const struct pin_egress_rules *rules, const struct pin_egress_rule *allow,
                         const char *host) {
    for (size_t i = 0; i < allow->port_count; i++)
        if (range_is_left(rules, allow->ports[i], host))
            return true;
    return false;
}

/* Which of the deny rules takes it; of several the one of its first port. */
static const struct pin_egress_rule *taken_by(const struct pin_egress_rules *rules,
                                              const struct pin_egress_rule *allow, const char *host) {
    uint16_t first = allow->port_count > 0 && allow->ports[0].first > 0 ? allow->ports[0].first : 1;
    struct pin_destination to = {.host = host, .port = first};
    const struct pin_egress_rule *deny = find_deny(rules, &to);
    return deny != NULL ? deny : allow;
}

struct pin_verdict pin_egress_judge_name(const struct pin_egress_rules *rules, const char *host) {
    struct pin_verdict nearest = not_listed(rules);
    for (size_t i = 0; i < rules->allow_count; i++) {
        const struct pin_egress_rule *rule = &rules->allow[i];
        if (rule->host == NULL || !covers_name(rule, host))
            continue;
        if (rule_is_left(rules, rule, host))
            return (struct pin_verdict){.allowed = true, .reason = PIN_EGRESS_ALLOWED, .rule = rule};
        nearest = (struct pin_verdict){.reason = PIN_EGRESS_DENY_RULE, .rule = taken_by(rules, rule, host)};
    }
    return nearest;
}

static struct pin_verdict judge_literal(const struct pin_egress_rules *rules,
                                        const struct pin_destination *to) {
    struct pin_destination literal = *to;
    literal.host = NULL;
    return pin_egress_judge(rules, &literal);
}

struct pin_verdict pin_egress_judge_resolved(const struct pin_egress_rules *rules,
                                             const struct pin_destination *to) {
    struct pin_verdict name = pin_egress_judge(rules, to);
    if (!name.allowed)
        return name;
    struct pin_verdict address = judge_literal(rules, to);
    if (address.allowed || address.reason == PIN_EGRESS_DENY_RULE)
        return address;
    enum pin_address_class class = pin_address_classify(to->address);
    bool host_loopback = strcmp(to->host, PIN_HOST_INTERNAL) == 0 && class == PIN_ADDRESS_LOOPBACK;
    if (host_loopback || (class == PIN_ADDRESS_PUBLIC && !to->is_own))
        return name;
    bool is_special = class != PIN_ADDRESS_PUBLIC && address.reason != PIN_EGRESS_HOST_ADDRESS;
    return (struct pin_verdict){.reason = is_special ? PIN_EGRESS_ADDRESS_CLASS : PIN_EGRESS_HOST_ADDRESS,
                                .rule = name.rule};
}
