#include "policy/egress_terms.h"

#include <string.h>

#include "base/names.h"
#include "policy/egress_rule.h"

#define HTTPS_PORT 443
#define HTTP_PORT 80

const struct pin_egress_limits pin_egress_no_limits = {
    PIN_UNLIMITED, PIN_UNLIMITED, PIN_UNLIMITED, PIN_UNLIMITED, PIN_UNLIMITED,
    PIN_UNLIMITED, PIN_UNLIMITED, PIN_UNLIMITED, PIN_UNLIMITED, PIN_UNLIMITED,
};

const size_t pin_egress_limit_offsets[PIN_EGRESS_LIMIT_COUNT] = {
    offsetof(struct pin_egress_limits, connections_at_once),
    offsetof(struct pin_egress_limits, connections_total),
    offsetof(struct pin_egress_limits, bytes_out),
    offsetof(struct pin_egress_limits, bytes_in),
    offsetof(struct pin_egress_limits, bytes_per_second),
    offsetof(struct pin_egress_limits, idle_ns),
    offsetof(struct pin_egress_limits, lifetime_ns),
    offsetof(struct pin_egress_limits, names_total),
    offsetof(struct pin_egress_limits, names_per_second),
    offsetof(struct pin_egress_limits, drain_ns),
};
_Static_assert(PIN_EGRESS_LIMIT_COUNT * sizeof(uint64_t) == sizeof(struct pin_egress_limits),
               "every limit is compared, and told");

static uint64_t limit_at(const struct pin_egress_limits *limits, size_t index) {
    uint64_t value;
    memcpy(&value, (const char *)limits + pin_egress_limit_offsets[index], sizeof(value));
    return value;
}

bool pin_egress_limits_within(const struct pin_egress_limits *a, const struct pin_egress_limits *b) {
    for (size_t i = 0; i < PIN_EGRESS_LIMIT_COUNT; i++)
        if (limit_at(a, i) > limit_at(b, i))
            return false;
    return true;
}

enum pin_inspect pin_egress_inspection(const struct pin_egress_rule *rule, uint16_t port) {
    if (rule->host == NULL || rule->protocol != PIN_PROTOCOL_TCP)
        return PIN_INSPECT_NONE;
    if (rule->inspect != PIN_INSPECT_AUTO)
        return rule->inspect;
    return port == HTTPS_PORT ? PIN_INSPECT_TLS : port == HTTP_PORT ? PIN_INSPECT_HTTP : PIN_INSPECT_NONE;
}

static bool same_budget(const struct pin_egress_rule *a, const struct pin_egress_rule *b) {
    if (a->budget == NULL || b->budget == NULL)
        return a->budget == b->budget;
    return strcmp(a->budget->name, b->budget->name) == 0;
}

bool pin_egress_terms_same(const struct pin_egress_rule *a, const struct pin_egress_rule *b) {
    return a->inspect == b->inspect && a->accept == b->accept && same_budget(a, b);
}

static bool covers_inspection(const struct pin_egress_rule *outer, const struct pin_egress_rule *inner,
                              uint16_t port) {
    enum pin_inspect wide = pin_egress_inspection(outer, port), narrow = pin_egress_inspection(inner, port);
    if (wide == PIN_INSPECT_NONE)
        return true;
    return wide == narrow && (wide != PIN_INSPECT_TLS || (inner->accept & ~outer->accept) == 0);
}

/* A budget is shared by its rules: who leaves it, or has more of it, gets more than was granted. */
static bool covers_budget(const struct pin_egress_rule *outer, const struct pin_egress_rule *inner) {
    return outer->budget == NULL ||
           (inner->budget != NULL && same_budget(outer, inner) &&
            pin_egress_limits_within(&inner->budget->limits, &outer->budget->limits));
}

bool pin_egress_has_terms(const struct pin_egress_rule *rule) {
    return rule->inspect != PIN_INSPECT_AUTO || rule->accept != 0 || rule->budget != NULL;
}

bool pin_egress_terms_cover(const struct pin_egress_rule *outer, const struct pin_egress_rule *inner,
                            uint16_t port) {
    return covers_budget(outer, inner) && covers_inspection(outer, inner, port);
}

/* From the widest: nothing is looked at; then TLS, with much that passes; then HTTP. */
static unsigned width(const struct pin_egress_rule *rule, uint16_t port) {
    switch (pin_egress_inspection(rule, port)) {
    case PIN_INSPECT_TLS: return 2 + rule->accept;
    case PIN_INSPECT_HTTP: return 1;
    case PIN_INSPECT_NONE:
    case PIN_INSPECT_AUTO:
    case PIN_INSPECT_COUNT: break;
    }
    return UINT32_MAX;
}

bool pin_egress_terms_before(const struct pin_egress_rule *a, const struct pin_egress_rule *b,
                             uint16_t port) {
    unsigned left = width(a, port), right = width(b, port);
    if (left != right)
        return left > right;
    if (a->budget == NULL || b->budget == NULL)
        return a->budget == NULL && b->budget != NULL;
    return strcmp(a->budget->name, b->budget->name) < 0;
}

/* Where terms can differ by port. */
static const struct port_class {
    uint16_t probe;
    struct pin_port_range ranges[3];
    size_t count;
} classes[] = {
    {HTTP_PORT,  {{HTTP_PORT, HTTP_PORT}},                                                            1},
    {HTTPS_PORT, {{HTTPS_PORT, HTTPS_PORT}},                                                          1},
    {1,          {{1, HTTP_PORT - 1}, {HTTP_PORT + 1, HTTPS_PORT - 1}, {HTTPS_PORT + 1, UINT16_MAX}}, 3},
};

static void add_common(struct pin_arena *arena, struct pin_port_set *set, const struct pin_egress_rule *rule,
                       const struct port_class *class) {
    for (size_t i = 0; i < rule->port_count; i++)
        for (size_t j = 0; j < class->count; j++) {
            const struct pin_port_range *a = &rule->ports[i], *b = &class->ranges[j];
            struct pin_port_range both = {a->first > b->first ? a->first : b->first,
                                          a->last < b->last ? a->last : b->last};
            if (both.first <= both.last)
                pin_port_set_add(arena, set, &both, 1);
        }
}

void pin_egress_add_granted(struct pin_arena *arena, struct pin_port_set *set,
                            const struct pin_egress_rule *outer, const struct pin_egress_rule *inner) {
    bool covered[PIN_COUNT(classes)], all = true;
    for (size_t i = 0; i < PIN_COUNT(classes); i++) {
        covered[i] = pin_egress_terms_cover(outer, inner, classes[i].probe);
        all = all && covered[i];
    }
    if (all) {
        pin_port_set_add(arena, set, outer->ports, outer->port_count);
        return;
    }
    for (size_t i = 0; i < PIN_COUNT(classes); i++)
        if (covered[i])
            add_common(arena, set, outer, &classes[i]);
}

size_t pin_egress_normalise(struct pin_arena *arena, const struct pin_egress_rule *rule,
                            struct pin_egress_rule parts[PIN_EGRESS_PARTS]) {
    size_t count = 0;
    parts[0] = *rule;
    if (rule->inspect == PIN_INSPECT_AUTO && rule->accept == 0)
        return 1;
    for (size_t i = 0; i < PIN_COUNT(classes); i++) {
        struct pin_egress_rule part = *rule, automatic = *rule;
        struct pin_port_set ports = {0};
        enum pin_inspect mode = pin_egress_inspection(rule, classes[i].probe);
        add_common(arena, &ports, rule, &classes[i]);
        automatic.inspect = PIN_INSPECT_AUTO;
        bool is_default = pin_egress_inspection(&automatic, classes[i].probe) == mode;
        part.inspect = is_default ? PIN_INSPECT_AUTO : mode;
        part.accept = mode == PIN_INSPECT_TLS ? rule->accept : 0;
        part.ports = ports.ranges;
        part.port_count = ports.count;
        if (ports.count > 0)
            parts[count++] = part;
    }
    return count;
}

const struct pin_egress_budget *pin_egress_budget_find(const struct pin_egress_budget *budgets, size_t count,
                                                       const char *name) {
    for (size_t i = 0; i < count; i++)
        if (strcmp(budgets[i].name, name) == 0)
            return &budgets[i];
    return NULL;
}

size_t pin_egress_give_budgets(struct pin_egress_rule *rules, size_t count,
                               const struct pin_egress_budget *budgets, size_t budget_count) {
    size_t first = count;
    for (size_t i = count; i-- > 0;) {
        const struct pin_egress_budget *budget =
            rules[i].budget == NULL ? NULL
                                    : pin_egress_budget_find(budgets, budget_count, rules[i].budget->name);
        if (rules[i].budget != NULL && budget == NULL)
            first = i;
        else
            rules[i].budget = budget;
    }
    return first;
}

void pin_egress_inherit_terms(struct pin_egress_rule *rule, const struct pin_egress_rule *rules,
                              size_t count) {
    const struct pin_egress_rule *granting = NULL;
    uint16_t port = rule->ports[0].first;
    for (size_t i = 0; i < count; i++)
        if (rules[i].protocol == rule->protocol && pin_egress_grants_target(&rules[i], rule) &&
            pin_ports_include(&rules[i], port) &&
            (granting == NULL || pin_egress_terms_before(&rules[i], granting, port)))
            granting = &rules[i];
    if (granting == NULL)
        return;
    rule->inspect = granting->inspect;
    rule->accept = granting->accept;
    rule->budget = granting->budget;
}
