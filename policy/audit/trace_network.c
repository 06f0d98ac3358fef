#include <string.h>

#include "base/names.h"
#include "policy/address_class.h"
#include "policy/audit/trace_parts.h"
#include "policy/audit/why.h"
#include "policy/egress_judge.h"
#include "policy/egress_rule.h"
#include "policy/egress_terms.h"
#include "policy/policy_read.h"
#include "policy/policy_write.h"

#define USUAL_PORT 443 /* where only the name was asked for */

struct learn {
    const struct pin_trace *trace;
    struct pin_learned *learned;
    struct pin_arena *arena;
    struct pin_egress_rule *rules;
    size_t count;
};

static bool is_address(const uint8_t address[PIN_ADDRESS_SIZE]) {
    static const uint8_t none[PIN_ADDRESS_SIZE];
    return memcmp(address, none, sizeof(none)) != 0;
}

const char *pin_trace_target_question(struct pin_arena *arena, const struct pin_recorded_target *target) {
    char address[PIN_ADDRESS_TEXT];
    const char *known = pin_address_print(address, target->address);
    const char *name = target->host != NULL ? target->host : known;
    bool colons = target->host == NULL && strchr(name, ':') != NULL;
    const char *text = pin_arena_printf(arena, "connect %s%s%s:%u%s", colons ? "[" : "", name,
                                        colons ? "]" : "", target->port != 0 ? target->port : USUAL_PORT,
                                        target->protocol == PIN_PROTOCOL_UDP ? "/udp" : "");
    return target->host != NULL && is_address(target->address) ? pin_arena_printf(arena, "%s %s", text, known)
                                                               : text;
}

/* --- what was reached --- */

static struct pin_egress_rule rule_of(struct learn *learn, const struct pin_recorded_target *target) {
    const struct pin_policy *base = learn->trace->policy->policy;
    struct pin_egress_rule rule = {.host = target->host, .protocol = target->protocol};
    if (target->host == NULL) {
        rule.prefix = 128;
        memcpy(rule.address, target->address, sizeof(rule.address));
    }
    rule.ports = pin_arena_alloc(learn->arena, sizeof(*rule.ports));
    *rule.ports = (struct pin_port_range){target->port, target->port};
    rule.port_count = 1;
    pin_egress_inherit_terms(&rule, base->network.egress, base->network.egress_count);
    return rule;
}

static bool same_but_for_ports(const struct pin_egress_rule *a, const struct pin_egress_rule *b) {
    bool same_target = a->host != NULL && b->host != NULL
                           ? strcmp(a->host, b->host) == 0
                           : a->host == b->host && memcmp(a->address, b->address, sizeof(a->address)) == 0;
    return same_target && a->protocol == b->protocol && pin_egress_terms_same(a, b);
}

static void add_port(struct learn *learn, struct pin_egress_rule *rule, uint16_t port) {
    size_t at = rule->port_count;
    if (pin_ports_include(rule, port))
        return;
    (void)pin_arena_grow(learn->arena, &rule->ports, &rule->port_count, sizeof(*rule->ports));
    for (; at > 0 && rule->ports[at - 1].first > port; at--)
        rule->ports[at] = rule->ports[at - 1];
    rule->ports[at] = (struct pin_port_range){port, port};
}

/* One rule a destination and protocol, with its ports; never a wildcard. */
static void add_target(struct learn *learn, const struct pin_recorded_target *target) {
    struct pin_egress_rule rule = rule_of(learn, target);
    for (size_t i = 0; i < learn->count; i++)
        if (same_but_for_ports(&learn->rules[i], &rule)) {
            add_port(learn, &learn->rules[i], target->port);
            return;
        }
    struct pin_egress_rule *added =
        pin_arena_grow(learn->arena, &learn->rules, &learn->count, sizeof(*learn->rules));
    *added = rule;
}

/* --- what wasn't --- */

/* Asked of a policy without destinations, as the learned one has only those that were reached: the edit is
 * then one that is enough, whatever the name resolves to. */
static struct pin_answer ask(struct learn *learn, const struct pin_policy *policy, const char *line) {
    const struct pin_reach reach = {.policy = policy, .arch = learn->trace->policy->arch};
    struct pin_question question;
    struct pin_error err = {0};
    if (!pin_question_parse_line(&question, learn->arena, line, &err))
        return (struct pin_answer){.reason = "it is no destination that a policy could name"};
    return pin_why(&reach, &question, NULL, learn->arena);
}

static void want(struct learn *learn, const struct pin_policy *bare,
                 const struct pin_recorded_target *target) {
    const char *line = pin_trace_target_question(learn->arena, target);
    struct pin_answer answer = ask(learn, bare, line);
    const char *what = target->port != 0 ? line
                                         : pin_arena_printf(learn->arena,
                                                            "%s (the port is a guess: only the name was "
                                                            "asked for)",
                                                            line);
    pin_learned_want(learn->learned, what, answer.edit,
                     answer.caution != NULL ? answer.caution
                     : answer.edit == NULL  ? answer.reason
                                            : NULL);
}

/* A line of network.deny was out of force while the command was traced, and the learned policy has it. */
static void note_denied(struct learn *learn, const struct pin_recorded_target *target) {
    const struct pin_policy *base = learn->trace->policy->policy;
    const struct pin_egress_rules denials = {.deny = base->network.deny,
                                             .deny_count = base->network.deny_count};
    struct pin_destination to = {.host = target->host, .port = target->port, .protocol = target->protocol};
    memcpy(to.address, target->address, sizeof(to.address));
    if (pin_egress_judge(&denials, &to).reason == PIN_EGRESS_DENY_RULE)
        pin_learned_withhold(learn->learned, pin_trace_target_question(learn->arena, target),
                             "a line of network.deny names it, which the learned policy keeps");
}

/* It was dialled, and what was said there is no TLS or HTTP for this name: the learned rule refuses it, too.
 */
static void note_refused(struct learn *learn, const struct pin_recorded_target *target) {
    bool another = strcmp(target->refused, "tls-name") == 0 || strcmp(target->refused, "http-host") == 0;
    const char *what = pin_trace_target_question(learn->arena, target);
    struct pin_egress_rule rule = rule_of(learn, target);
    rule.inspect = PIN_INSPECT_NONE;
    if (another)
        pin_learned_withhold(
            learn->learned, what,
            "what was said there was for another name: only a rule without inspection lets it");
    else
        pin_learned_want(
            learn->learned, what,
            pin_arena_printf(learn->arena, "{\"network\":{\"egress\":{\"add\":[%s]}}}",
                             pin_policy_item_text(learn->arena, PIN_FIELD_EGRESS, &rule)),
            "what was said there is neither TLS nor HTTP, as the port has it: without inspection "
            "nobody looks for whom it is");
}

json_t *pin_trace_learn_network(const struct pin_trace *trace, struct pin_learned *learned,
                                struct pin_arena *arena) {
    struct learn learn = {trace, learned, arena, NULL, 0};
    struct pin_policy *bare = pin_policy_copy(trace->policy->policy);
    json_t *egress = json_array();
    bare->network.egress_count = 0;
    for (size_t i = 0; i < trace->recording->target_count; i++) {
        const struct pin_recorded_target *target = &trace->recording->targets[i];
        if (!target->reached) {
            want(&learn, bare, target);
        } else if (target->port != 0) {
            add_target(&learn, target);
            note_denied(&learn, target);
            if (target->refused != NULL)
                note_refused(&learn, target);
        }
    }
    pin_policy_free(bare);
    for (size_t i = 0; i < learn.count; i++)
        (void)json_array_append_new(
            egress, json_loads(pin_policy_item_text(arena, PIN_FIELD_EGRESS, &learn.rules[i]), 0, NULL));
    return json_pack("{s:o}", "egress", egress);
}
