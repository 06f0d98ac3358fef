/* The items of network.egress, network.deny and network.budgets. */
#include <stdio.h>
#include <string.h>

#include "base/text.h"
#include "policy/egress_rule.h"
#include "policy/egress_terms.h"
#include "policy/host_grant.h"
#include "policy/policy_write.h"
#include "policy/reader.h"
#include "policy/words.h"

static bool fault_from(struct pin_reader *reader, const struct pin_json *node, const struct pin_error *err,
                       const char *such) {
    pin_json_fault(reader->source, node, reader->found, err->hint[0] != '\0' ? err->hint : such, "%s",
                   err->message);
    return false;
}

static bool read_port(struct pin_reader *reader, const struct pin_json *node, struct pin_port_range *range) {
    json_int_t port = json_integer_value(node->value);
    if (json_is_integer(node->value) && port >= 1 && port <= UINT16_MAX) {
        *range = (struct pin_port_range){(uint16_t)port, (uint16_t)port};
        return true;
    }
    if (json_is_string(node->value) && strchr(json_string_value(node->value), '-') != NULL &&
        pin_ports_parse(json_string_value(node->value), range))
        return true;
    pin_json_fault(reader->source, node, reader->found, "such as 443, or \"8000-8100\"",
                   "a port is a number from 1 to 65535, or a range of them");
    return false;
}

#define HINT_PORTS "such as [443, \"8000-8100\"]"

static bool read_ports(struct pin_reader *reader, const struct pin_json *node, struct pin_egress_rule *rule) {
    if (!json_is_array(node->value) || node->count == 0) {
        if (json_is_array(node->value))
            pin_json_fault(reader->source, node, reader->found, HINT_PORTS, "the list of ports is empty");
        else
            pin_reader_expected(reader, node, "a list of ports", HINT_PORTS);
        return false;
    }
    bool good = true;
    for (const struct pin_json *child = node->first; child != NULL; child = child->next) {
        struct pin_port_range *range =
            pin_arena_grow(&reader->policy->arena, &rule->ports, &rule->port_count, sizeof(*range));
        good = read_port(reader, child, range) && good;
    }
    rule->port_count = pin_ports_normalise(rule->ports, rule->port_count);
    return good;
}

/* A refusal may name whom it likes, and a site's file is a ceiling. */
static bool read_host(struct pin_reader *reader, const struct pin_json *node, bool deny,
                      struct pin_egress_rule *rule) {
    char canonical[PIN_HOST_MAX + 2];
    struct pin_error err = {0};
    const char *text = pin_reader_string(reader, node);
    if (text == NULL)
        return false;
    if (reader->site && strcmp(text, "*") == 0)
        memcpy(canonical, "*", 2);
    else if (!(deny || reader->site ? pin_host_pattern : pin_host_grant)(text, canonical, &err))
        return fault_from(reader, node, &err, "such as 'api.example.com' or '*.files.example.com'");
    rule->host = pin_arena_strdup(&reader->policy->arena, canonical);
    return true;
}

static bool read_cidr(struct pin_reader *reader, const struct pin_json *node, bool deny,
                      struct pin_egress_rule *rule) {
    struct pin_error err = {0};
    const char *text = pin_reader_string(reader, node);
    if (text == NULL)
        return false;
    rule->any_address = reader->site && !deny && strcmp(text, "*") == 0;
    return rule->any_address || pin_cidr_parse(text, rule->address, &rule->prefix, &err) ||
           fault_from(reader, node, &err, "such as '10.1.2.0/24', '10.1.2.3' or '2001:db8::/32'");
}

static struct pin_port_range *all_ports(struct pin_reader *reader) {
    static const struct pin_port_range all = {1, UINT16_MAX};
    return pin_arena_memdup(&reader->policy->arena, &all, sizeof(all));
}

/* A rule's destination and ports; `ports` may be NULL, for all of them, in a refusal. `known`: the object's
 * keys have no fault, so that what isn't there is missing. */
static bool read_destination(struct pin_reader *reader, const struct pin_json *node,
                             const struct pin_json *host, const struct pin_json *cidr,
                             const struct pin_json *ports, bool deny, bool known,
                             struct pin_egress_rule *rule) {
    bool good = known && !(host == NULL && cidr == NULL && node->cut);
    if (good && (host == NULL) == (cidr == NULL)) {
        pin_json_fault(reader->source, node, reader->found, "write one of the two",
                       "a destination is named by either 'host' or 'cidr'");
        good = false;
    }
    if (host != NULL)
        good = read_host(reader, host, deny, rule) && good;
    if (cidr != NULL)
        good = read_cidr(reader, cidr, deny, rule) && good;
    rule->place = pin_json_place(reader->source, node);
    if (ports != NULL)
        return read_ports(reader, ports, rule) && good;
    rule->ports = all_ports(reader);
    rule->port_count = 1;
    return good;
}

/* Words that only stand where there is a name that can be looked for. */
static bool has_no_name(struct pin_reader *reader, const struct pin_json *node,
                        const struct pin_egress_rule *rule) {
    if (rule->host != NULL && rule->protocol == PIN_PROTOCOL_TCP)
        return false;
    pin_json_fault(reader->source, node, reader->found, "leave 'inspect' and 'accept' out",
                   "only connections to a host are looked into, not those to addresses, and not UDP");
    return true;
}

static bool read_accept(struct pin_reader *reader, const struct pin_json *node,
                        struct pin_egress_rule *rule) {
    if (!json_is_array(node->value)) {
        pin_reader_expected(reader, node, "a list of words", PIN_HINT_LIST);
        return false;
    }
    if (rule->inspect == PIN_INSPECT_HTTP || rule->inspect == PIN_INSPECT_NONE) {
        pin_json_fault(reader->source, node, reader->found, "leave 'accept' out, or inspect 'tls'",
                       "'accept' is for TLS, and 'inspect' is '%s'", pin_inspect_words[rule->inspect]);
        return false;
    }
    bool good = true;
    for (const struct pin_json *child = node->first; child != NULL; child = child->next) {
        int bit = pin_reader_word(reader, child, pin_accept_words, PIN_ACCEPT_WORDS);
        good = good && bit >= 0;
        rule->accept |= bit >= 0 ? 1u << bit : 0;
    }
    return good;
}

static bool is_budget_name(struct pin_reader *reader, const struct pin_json *node, const char *text) {
    if (pin_is_name(text))
        return true;
    pin_json_fault(reader->source, node, reader->found, "letters, digits, '_', '.' and '-'; at most 63",
                   "this is no name of a budget");
    return false;
}

/* The name alone, until all files are read. */
static bool read_budget_name(struct pin_reader *reader, const struct pin_json *node,
                             struct pin_egress_rule *rule) {
    const char *text = pin_reader_string(reader, node);
    if (text == NULL || !is_budget_name(reader, node, text))
        return false;
    struct pin_egress_budget *named = pin_arena_alloc(&reader->policy->arena, sizeof(*named));
    *named = (struct pin_egress_budget){.name = pin_arena_strdup(&reader->policy->arena, text),
                                        .limits = pin_egress_no_limits,
                                        .place = pin_json_place(reader->source, node)};
    rule->budget = named;
    return true;
}

static bool read_inspect(struct pin_reader *reader, const struct pin_json *node,
                         struct pin_egress_rule *rule) {
    int index = pin_reader_word(reader, node, pin_inspect_words, PIN_INSPECT_COUNT);
    if (index >= 0)
        rule->inspect = (enum pin_inspect)index;
    return index >= 0;
}

static bool read_terms(struct pin_reader *reader, const struct pin_json *inspect,
                       const struct pin_json *accept, struct pin_egress_rule *rule) {
    bool good = inspect == NULL || read_inspect(reader, inspect, rule);
    return (accept == NULL || read_accept(reader, accept, rule)) && good;
}

bool pin_reader_egress(struct pin_reader *reader, const struct pin_json *node,
                       const struct pin_field_row *row, void *item) {
    (void)row;
    enum { HOST, CIDR, PORTS, PROTOCOL, INSPECT, ACCEPT, BUDGET, COUNT };
    static const char *const keys[COUNT] = {"host",    "cidr",   "ports", "protocol",
                                            "inspect", "accept", "budget"};
    const struct pin_json *member[COUNT];
    struct pin_egress_rule *rule = item;
    bool known = pin_reader_members(reader, node, keys, COUNT, member);
    bool good = read_destination(reader, node, member[HOST], member[CIDR], member[PORTS], false, known, rule);
    if (known && member[PORTS] == NULL)
        good = pin_reader_missing(reader, node, keys[PORTS]);
    int protocol = member[PROTOCOL] == NULL
                       ? PIN_PROTOCOL_TCP
                       : pin_reader_word(reader, member[PROTOCOL], pin_protocol_words, PIN_PROTOCOL_COUNT);
    good = good && protocol >= 0;
    rule->protocol = protocol >= 0 ? (enum pin_protocol)protocol : PIN_PROTOCOL_TCP;
    const struct pin_json *looked = member[INSPECT] != NULL ? member[INSPECT] : member[ACCEPT];
    if (good && looked != NULL && has_no_name(reader, looked, rule))
        good = false;
    else
        good = read_terms(reader, member[INSPECT], member[ACCEPT], rule) && good;
    return (member[BUDGET] == NULL || read_budget_name(reader, member[BUDGET], rule)) && good;
}

/* A refusal holds for both protocols. */
bool pin_reader_deny(struct pin_reader *reader, const struct pin_json *node, const struct pin_field_row *row,
                     void *item) {
    (void)row;
    enum { HOST, CIDR, PORTS, COUNT };
    static const char *const keys[COUNT] = {"host", "cidr", "ports"};
    const struct pin_json *member[COUNT];
    bool known = pin_reader_members(reader, node, keys, COUNT, member);
    return read_destination(reader, node, member[HOST], member[CIDR], member[PORTS], true, known, item);
}

/* --- network.budgets --- */

static bool limits_nothing(struct pin_reader *reader, const struct pin_json *node) {
    pin_json_fault(reader->source, node, reader->found, "add a limit, such as \"connections\": 16",
                   "this budget limits nothing");
    return false;
}

bool pin_reader_budget(struct pin_reader *reader, const struct pin_json *node,
                       const struct pin_field_row *row, void *item) {
    (void)row;
    enum { NAME = PIN_BUDGET_ROWS, COUNT };
    const char *keys[COUNT];
    const struct pin_json *member[COUNT];
    struct pin_egress_budget *budget = item;
    for (size_t i = 0; i < PIN_BUDGET_ROWS; i++)
        keys[i] = pin_limit_fields.rows[i].key;
    keys[NAME] = "name";
    bool good = pin_reader_members(reader, node, keys, COUNT, member);
    budget->limits = pin_egress_no_limits;
    budget->place = pin_json_place(reader->source, node);
    if (good && member[NAME] == NULL)
        good = pin_reader_missing(reader, node, keys[NAME]);
    good = good && node->count < 2 ? limits_nothing(reader, node) : good;
    const char *name = member[NAME] == NULL ? NULL : pin_reader_string(reader, member[NAME]);
    if (name != NULL && is_budget_name(reader, member[NAME], name))
        budget->name = pin_arena_strdup(&reader->policy->arena, name);
    for (size_t i = 0; i < PIN_BUDGET_ROWS; i++) {
        const struct pin_field_row *limit = &pin_limit_fields.rows[i];
        uint64_t value;
        if (member[i] == NULL)
            continue;
        good = pin_reader_amount(reader, member[i], limit, &value) && good;
        if (good)
            memcpy((char *)&budget->limits + limit->offset - offsetof(struct pin_policy, network.limits),
                   &value, sizeof(value));
    }
    return good && budget->name != NULL;
}

static void fault_of(struct pin_findings *found, const struct pin_place *place, const char *field,
                     size_t index, const char *what, const char *name, const char *hint) {
    char pointer[sizeof(found->list[0].pointer)], where[PIN_PLACE_TEXT];
    (void)snprintf(pointer, sizeof(pointer), "%s %s/%zu", pin_place_print(where, place), field, index);
    (void)pin_find(found, PIN_ERROR_INVALID, pointer, hint, "%s '%s'", what, name);
}

void pin_reader_give_budgets(struct pin_policy *policy, struct pin_findings *found) {
    const struct pin_egress_budget *budgets = policy->network.budgets;
    size_t count = policy->network.budget_count;
    for (size_t i = 0; i < count; i++)
        if (pin_egress_budget_find(budgets, i, budgets[i].name) != NULL)
            fault_of(found, &budgets[i].place, pin_field_pointer(PIN_FIELD_BUDGETS), i,
                     "there are two budgets", budgets[i].name, "give one of them another name");
    struct pin_egress_rule *rules = policy->network.egress;
    size_t rule_count = policy->network.egress_count;
    for (size_t i = pin_egress_give_budgets(rules, rule_count, budgets, count); i < rule_count; i++)
        if (rules[i].budget != NULL && pin_egress_budget_find(budgets, count, rules[i].budget->name) == NULL)
            fault_of(found, &rules[i].place, pin_field_pointer(PIN_FIELD_EGRESS), i, "there is no budget",
                     rules[i].budget->name, "add it to network.budgets");
}
