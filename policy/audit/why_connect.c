#include <string.h>

#include "policy/audit/why_parts.h"
#include "policy/egress_judge.h"
#include "policy/egress_rule.h"
#include "policy/policy_write.h"

struct ask {
    const struct pin_why_context *context;
    struct pin_egress_rules rules;
    struct pin_destination to;
    bool resolved; /* the address of the name is given too */
};

const char *pin_why_egress_text(struct pin_arena *arena, const struct pin_egress_rule *rule) {
    char text[400];
    return pin_arena_strdup(arena, pin_egress_print(text, sizeof(text), rule));
}

static struct pin_verdict judge(const struct ask *ask, const struct pin_egress_rules *rules) {
    return ask->resolved ? pin_egress_judge_resolved(rules, &ask->to) : pin_egress_judge(rules, &ask->to);
}

static struct ask make_ask(const struct pin_why_context *context) {
    const struct pin_policy *policy = context->policy;
    const struct pin_egress_rule *target = context->question->target;
    struct ask ask = {
        .context = context,
        .rules = {policy->network.egress, policy->network.deny, policy->network.egress_count,
                  policy->network.deny_count, NULL},
        .to = {.host = target->host,                  .port = target->ports[0].first,                                      .protocol = target->protocol                                              },
        .resolved = context->question->has_address,
    };
    memcpy(ask.to.address, ask.resolved ? context->question->address : target->address, PIN_ADDRESS_SIZE);
    return ask;
}

/* --- the reason --- */

static const char *address_text(const struct ask *ask) {
    char text[PIN_ADDRESS_TEXT];
    return pin_arena_strdup(ask->context->arena, pin_address_print(text, ask->to.address));
}

/* `rule` allows the name, or has the address in a range that is too wide. */
static const char *closed_text(const struct ask *ask, const char *rule) {
    struct pin_arena *arena = ask->context->arena;
    struct pin_address_block block = pin_address_block(ask->to.address, 8 * PIN_ADDRESS_SIZE);
    char network[PIN_CIDR_TEXT];
    const char *why = ask->resolved ? "the name is allowed"
                                    : pin_arena_printf(arena, "the rule '%s' has it in its range", rule);
    return pin_arena_printf(arena, "%s, but %s is a %s address, which only a cidr rule within %s opens", why,
                            address_text(ask), pin_address_class_name(block.class),
                            pin_cidr_print(network, block.network, block.prefix));
}

static const char *reason_of(const struct ask *ask, const struct pin_verdict *verdict) {
    struct pin_arena *arena = ask->context->arena;
    const char *rule = verdict->rule != NULL ? pin_why_egress_text(arena, verdict->rule) : "";
    switch ((int)verdict->reason) {
    case PIN_EGRESS_ALLOWED: return pin_arena_printf(arena, "the rule '%s' names it", rule);
    case PIN_EGRESS_NO_RULES: return "the policy names no destination, so nothing leaves";
    case PIN_EGRESS_NOT_LISTED:
        return pin_arena_printf(arena, "none of the %zu rules names it", ask->rules.allow_count);
    case PIN_EGRESS_PORT: return pin_arena_printf(arena, "the rule '%s' names it, with other ports", rule);
    case PIN_EGRESS_PROTOCOL:
        return pin_arena_printf(arena, "the rule '%s' names it, for the other protocol", rule);
    case PIN_EGRESS_DENY_RULE:
        return pin_arena_printf(arena, "the deny rule '%s' names it, and beats every allow rule", rule);
    case PIN_EGRESS_ADDRESS_CLASS: return closed_text(ask, rule);
    default: return pin_egress_reason_name(verdict->reason);
    }
}

static void name_rule(const struct ask *ask, const struct pin_verdict *verdict, struct pin_answer *answer) {
    const struct pin_egress_rules *rules = &ask->rules;
    const struct pin_egress_rule *rule = verdict->rule;
    struct pin_arena *arena = ask->context->arena;
    if (rule == NULL) {
        answer->rule = "/network/egress";
        answer->place = ask->context->policy->places[PIN_FIELD_EGRESS];
    } else if (rule >= rules->deny && rule < rules->deny + rules->deny_count) {
        answer->rule = pin_arena_printf(arena, "/network/deny/%zu", (size_t)(rule - rules->deny));
        answer->place = rule->place;
    } else {
        answer->rule = pin_arena_printf(arena, "/network/egress/%zu", (size_t)(rule - rules->allow));
        answer->place = rule->place;
    }
}

/* --- the edit --- */

static bool denies(const struct ask *ask, const struct pin_egress_rule *deny) {
    struct pin_egress_rules alone = {.deny = deny, .deny_count = 1};
    struct pin_destination literal = ask->to;
    literal.host = NULL;
    if (pin_egress_judge(&alone, &ask->to).reason == PIN_EGRESS_DENY_RULE)
        return true;
    return ask->resolved && pin_egress_judge(&alone, &literal).reason == PIN_EGRESS_DENY_RULE;
}

/* The deny rules in the way, as JSON, joined by commas; "" where there is none. */
static const char *denials(const struct ask *ask) {
    struct pin_arena *arena = ask->context->arena;
    const char *text = "";
    for (size_t i = 0; i < ask->rules.deny_count; i++) {
        const char *item = pin_policy_item_text(arena, PIN_FIELD_EGRESS_DENY, &ask->rules.deny[i]);
        if (denies(ask, &ask->rules.deny[i]) && strstr(text, item) == NULL) /* one line may be two rules */
            text = pin_arena_printf(arena, "%s%s%s", text, *text != '\0' ? "," : "", item);
    }
    return text;
}

/* The rules that are missing, as JSON. */
static const char *additions(const struct ask *ask) {
    struct pin_arena *arena = ask->context->arena;
    struct pin_egress_rules allow = {.allow = ask->rules.allow, .allow_count = ask->rules.allow_count};
    struct pin_egress_rule rule = *ask->context->question->target;
    const char *text = "";
    if (!pin_egress_judge(&allow, &ask->to).allowed)
        text = pin_policy_item_text(arena, PIN_FIELD_EGRESS, &rule);
    if (!ask->resolved)
        return text;
    /* a host rule for the name, so that only the address is in question */
    struct pin_egress_rule *with = pin_arena_array(arena, allow.allow_count + 1, sizeof(*with));
    if (allow.allow_count > 0)
        memcpy(with, allow.allow, allow.allow_count * sizeof(*with));
    with[allow.allow_count] = rule;
    struct pin_egress_rules both = {.allow = with, .allow_count = allow.allow_count + 1};
    if (pin_egress_judge_resolved(&both, &ask->to).allowed)
        return text;
    rule.host = NULL;
    rule.prefix = 128;
    memcpy(rule.address, ask->to.address, sizeof(rule.address));
    return pin_arena_printf(arena, "%s%s%s", text, *text != '\0' ? "," : "",
                            pin_policy_item_text(arena, PIN_FIELD_EGRESS, &rule));
}

static void suggest(const struct ask *ask, struct pin_answer *answer) {
    struct pin_arena *arena = ask->context->arena;
    const char *remove = denials(ask), *add = additions(ask), *text = "";
    if (*remove != '\0')
        text = pin_arena_printf(arena, "\"deny\":{\"remove\":[%s]}", remove);
    if (*add != '\0')
        text = pin_arena_printf(arena, "%s%s\"egress\":{\"add\":[%s]}", text, *text != '\0' ? "," : "", add);
    answer->edit = pin_arena_printf(arena, "{\"network\":{%s}}", text);
    if (*remove != '\0')
        answer->caution = "without the deny rule, all that it kept away is open to the other rules";
    else if (ask->to.host == NULL && pin_address_classify(ask->to.address) == PIN_ADDRESS_METADATA)
        answer->caution = "metadata services hand out the machine's credentials";
}

/* Which addresses a host has, only its broker knows. */
static bool may_be_own(const struct ask *ask, const struct pin_egress_rule *rule) {
    bool is_single = rule->host == NULL && rule->prefix == 8 * PIN_ADDRESS_SIZE;
    return !is_single && pin_address_classify(ask->to.address) != PIN_ADDRESS_LOOPBACK;
}

struct pin_answer pin_why_connect(const struct pin_why_context *context) {
    struct ask ask = make_ask(context);
    struct pin_verdict verdict = judge(&ask, &ask.rules);
    struct pin_answer answer = {.verdict = verdict.allowed ? PIN_ANSWER_ALLOW : PIN_ANSWER_DENY};
    answer.reason = reason_of(&ask, &verdict);
    name_rule(&ask, &verdict, &answer);
    if (!verdict.allowed)
        suggest(&ask, &answer);
    else if (ask.to.host != NULL && !ask.resolved)
        answer.given = "the name resolves to a public address, or to one that a cidr rule opens";
    else if (may_be_own(&ask, verdict.rule))
        answer.given = "the address is none of the host's own, which only a rule for it alone opens";
    return answer;
}
