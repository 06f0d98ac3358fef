#include <arpa/inet.h>
#include <stdlib.h>
#include <string.h>

#include "base/names.h"
#include "policy/address_class.h"
#include "policy/audit/lint_checks.h"
#include "policy/audit/why_parts.h"
#include "policy/covers.h"
#include "policy/egress_judge.h"
#include "policy/egress_rule.h"
#include "policy/host_name.h"
#include "policy/port_set.h"
#include "policy/publish.h"

#define MANY_PORTS 64
#define BROAD_IPV4 16 /* a /15 or wider */
#define BROAD_IPV6 32

static const char *text_of(const struct pin_lint_check *check, const struct pin_egress_rule *rule) {
    return pin_why_egress_text(&check->lint->arena, rule);
}

/* --- names --- */

static void check_host(const struct pin_lint_check *check, size_t index) {
    const struct pin_egress_rule *rule = &check->policy->network.egress[index];
    if (rule->host != NULL && strcmp(rule->host, PIN_HOST_INTERNAL) == 0)
        pin_lint_add(check, PIN_LINT_HOST_INTERNAL, pin_lint_item(check, PIN_FIELD_EGRESS, index),
                     &rule->place, "'%s' opens a service of the host itself", text_of(check, rule));
}

/* --- addresses --- */

static void check_breadth(const struct pin_lint_check *check, size_t index) {
    const struct pin_egress_rule *rule = &check->policy->network.egress[index];
    if (rule->host != NULL)
        return;
    bool four = pin_address_is_ipv4(rule->address) && rule->prefix >= 96;
    unsigned prefix = four ? rule->prefix - 96u : rule->prefix;
    bool is_wide = pin_address_block(rule->address, rule->prefix).class == PIN_ADDRESS_PUBLIC;
    if (prefix < (four ? BROAD_IPV4 : BROAD_IPV6))
        pin_lint_add(check, PIN_LINT_BROAD_CIDR, pin_lint_item(check, PIN_FIELD_EGRESS, index), &rule->place,
                     "'%s' names 2^%u addresses%s", text_of(check, rule), (four ? 32 : 128) - prefix,
                     is_wide ? ", and opens the public ones of them" : "");
}

/* Private networks are what ranges are for; these a policy should not open by the way. */
static bool is_delicate(enum pin_address_class class) {
    switch (class) {
    case PIN_ADDRESS_PUBLIC:
    case PIN_ADDRESS_PRIVATE:
    case PIN_ADDRESS_SHARED:
    case PIN_ADDRESS_BENCHMARK:
    case PIN_ADDRESS_RESERVED:
    case PIN_ADDRESS_CLASS_COUNT: return false;
    case PIN_ADDRESS_UNSPECIFIED:
    case PIN_ADDRESS_LOOPBACK:
    case PIN_ADDRESS_LINK_LOCAL:
    case PIN_ADDRESS_METADATA:
    case PIN_ADDRESS_MULTICAST:
    case PIN_ADDRESS_BROADCAST:
    case PIN_ADDRESS_NAT64:
    case PIN_ADDRESS_6TO4:
    case PIN_ADDRESS_TEREDO:
    case PIN_ADDRESS_EMBEDDED: return true;
    }
    abort();
}

static void check_special(const struct pin_lint_check *check, size_t index) {
    const struct pin_egress_rule *rule = &check->policy->network.egress[index];
    struct pin_address_block block = pin_address_block(rule->address, rule->prefix);
    char network[PIN_CIDR_TEXT];
    if (rule->host == NULL && is_delicate(block.class))
        pin_lint_add(check, PIN_LINT_SPECIAL_ADDRESS, pin_lint_item(check, PIN_FIELD_EGRESS, index),
                     &rule->place, "'%s' lies in %s and opens %s addresses", text_of(check, rule),
                     pin_cidr_print(network, block.network, block.prefix),
                     pin_address_class_name(block.class));
}

/* --- ports --- */

static const struct {
    uint16_t port;
    enum pin_protocol protocol;
    const char *why;
} spoken[] = {
    {21,   PIN_PROTOCOL_TCP, "FTP isn't encrypted"                                },
    {23,   PIN_PROTOCOL_TCP, "Telnet isn't encrypted"                             },
    {25,   PIN_PROTOCOL_TCP, "mail servers deliver what anybody sends"            },
    {53,   PIN_PROTOCOL_TCP, "DNS carries data to whoever owns a zone"            },
    {53,   PIN_PROTOCOL_UDP, "DNS carries data to whoever owns a zone"            },
    {80,   PIN_PROTOCOL_TCP, "HTTP isn't encrypted"                               },
    {443,  PIN_PROTOCOL_UDP, "QUIC hides the name of the host that is asked for"  },
    {853,  PIN_PROTOCOL_TCP, "DNS over TLS resolves names past the broker"        },
    {3128, PIN_PROTOCOL_TCP, "a proxy reaches what the policy doesn't name"       },
    {1080, PIN_PROTOCOL_TCP, "a SOCKS proxy reaches what the policy doesn't name" },
    {2375, PIN_PROTOCOL_TCP, "an unprotected container engine gives away its host"},
};

static unsigned count_ports(const struct pin_egress_rule *rule) {
    unsigned count = 0;
    for (size_t i = 0; i < rule->port_count; i++)
        count += (unsigned)rule->ports[i].last - rule->ports[i].first + 1;
    return count;
}

static void check_ports(const struct pin_lint_check *check, size_t index) {
    const struct pin_egress_rule *rule = &check->policy->network.egress[index];
    const char *pointer = pin_lint_item(check, PIN_FIELD_EGRESS, index);
    unsigned count = count_ports(rule);
    if (count > MANY_PORTS) {
        pin_lint_add(check, PIN_LINT_MANY_PORTS, pointer, &rule->place, "'%s' opens %u ports",
                     text_of(check, rule), count);
        return;
    }
    for (size_t i = 0; i < PIN_COUNT(spoken); i++)
        if (spoken[i].protocol == rule->protocol && pin_ports_include(rule, spoken[i].port))
            pin_lint_add(check, PIN_LINT_PORT, pointer, &rule->place, "'%s': %s", text_of(check, rule),
                         spoken[i].why);
}

/* --- rules against rules --- */

/* Only these can cover other targets; the many rules for one host needn't be compared with all. */
static bool can_cover(const struct pin_egress_rule *rule) {
    return rule->host != NULL ? rule->host[0] == '*' : rule->prefix < 128;
}

static bool ports_within(struct pin_arena *arena, const struct pin_egress_rule *inner,
                         const struct pin_egress_rule *outer) {
    struct pin_port_set a = {inner->ports, inner->port_count}, b = {outer->ports, outer->port_count};
    return pin_port_set_minus(arena, &a, &b).count == 0;
}

static bool same_target(const struct pin_egress_rule *a, const struct pin_egress_rule *b) {
    if ((a->host == NULL) != (b->host == NULL))
        return false;
    return a->host != NULL ? strcmp(a->host, b->host) == 0
                           : a->prefix == b->prefix && a->any_address == b->any_address &&
                                 memcmp(a->address, b->address, 16) == 0;
}

static bool shadows(struct pin_arena *arena, const struct pin_egress_rule *rules, size_t by, size_t index,
                    pin_covers *covers) {
    const struct pin_egress_rule *outer = &rules[by], *inner = &rules[index];
    bool same = same_target(outer, inner);
    if (by == index || (!same && !can_cover(outer)) || !covers(outer, inner) ||
        !ports_within(arena, inner, outer))
        return false;
    return by < index || !same || !ports_within(arena, outer, inner); /* of two equals the later one */
}

static void check_shadow(const struct pin_lint_check *check, size_t index, enum pin_field field,
                         const struct pin_egress_rule *rules, size_t count) {
    PIN_ARENA struct pin_arena scratch = {0};
    pin_covers *covers = pin_covers_of(pin_field_row(field));
    for (size_t i = 0; i < count; i++) {
        if (field == PIN_FIELD_EGRESS_DENY && (rules[i].port_count == 0 || rules[index].port_count == 0))
            continue;
        if (!shadows(&scratch, rules, i, index, covers))
            continue;
        pin_lint_add(check, PIN_LINT_SHADOWED, pin_lint_item(check, field, index), &rules[index].place,
                     "'%s' says nothing that '%s' doesn't", text_of(check, &rules[index]),
                     text_of(check, &rules[i]));
        return;
    }
}

static void check_dead(const struct pin_lint_check *check, size_t index) {
    const struct pin_policy *policy = check->policy;
    const struct pin_egress_rule *rule = &policy->network.egress[index];
    PIN_ARENA struct pin_arena scratch = {0};
    for (size_t i = 0; i < policy->network.deny_count; i++) {
        const struct pin_egress_rule *deny = &policy->network.deny[i];
        if (!pin_egress_covers_target(deny, rule) ||
            (deny->port_count > 0 && !ports_within(&scratch, rule, deny)))
            continue;
        pin_lint_add(check, PIN_LINT_DEAD_ALLOW, pin_lint_item(check, PIN_FIELD_EGRESS, index), &rule->place,
                     "'%s' grants nothing: the deny rule '%s' beats it", text_of(check, rule),
                     text_of(check, deny));
        return;
    }
}

static void check_published(const struct pin_lint_check *check, size_t index) {
    const struct pin_string *item = &check->policy->network.publish.items[index];
    struct pin_publish publish;
    if (pin_publish_parse(item->text, &publish) && publish.at != PIN_PUBLISH_UNIX)
        pin_lint_add(check, PIN_LINT_PUBLISHED_LOOPBACK, pin_lint_item(check, PIN_FIELD_PUBLISH, index),
                     &item->place, "'%s' lets every user of the host connect in", item->text);
}

static bool records(const struct pin_policy *policy, const char *what) {
    for (size_t i = 0; i < policy->audit.record.count; i++)
        if (strcmp(policy->audit.record.items[i].text, what) == 0)
            return true;
    return false;
}

void pin_lint_check_network(const struct pin_lint_check *check) {
    const struct pin_policy *policy = check->policy;
    for (size_t i = 0; i < policy->network.egress_count; i++) {
        check_host(check, i);
        check_breadth(check, i);
        check_special(check, i);
        check_ports(check, i);
        check_shadow(check, i, PIN_FIELD_EGRESS, policy->network.egress, policy->network.egress_count);
        check_dead(check, i);
    }
    for (size_t i = 0; i < policy->network.deny_count; i++)
        check_shadow(check, i, PIN_FIELD_EGRESS_DENY, policy->network.deny, policy->network.deny_count);
    for (size_t i = 0; i < policy->network.publish.count; i++)
        check_published(check, i);
    if (policy->network.egress_count + policy->network.publish.count > 0 && !records(policy, "egress"))
        pin_lint_add(check, PIN_LINT_NOT_RECORDED, pin_field_pointer(PIN_FIELD_RECORD),
                     &policy->places[PIN_FIELD_RECORD], "the audit log doesn't record egress");
}
