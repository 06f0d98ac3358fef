#include "policy/order_egress.h"

#include "policy/address_class.h"
#include "policy/covers.h"
#include "policy/egress_rule.h"
#include "policy/egress_terms.h"
#include "policy/port_set.h"

struct rules {
    const struct pin_egress_rule *list;
    size_t count;
};

struct search {
    struct pin_arena *arena;
    struct rules inner, outer;
    bool *freer; /* of each rule of `inner` */
};

/* The rules for all that `target` names: one of them counts at each port. */
static struct rules rules_for(struct pin_arena *arena, struct rules of,
                              const struct pin_egress_rule *target) {
    struct pin_egress_rule *list = NULL;
    struct rules found = {0};
    for (size_t i = 0; i < of.count; i++)
        if (of.list[i].protocol == target->protocol && pin_egress_grants_target(&of.list[i], target))
            *(struct pin_egress_rule *)pin_arena_grow(arena, &list, &found.count, sizeof(*list)) = of.list[i];
    found.list = list;
    return found;
}

static const struct pin_egress_rule *chosen(struct rules rules, uint16_t port) {
    const struct pin_egress_rule *best = NULL;
    for (size_t i = 0; i < rules.count; i++)
        if (pin_ports_include(&rules.list[i], port) &&
            (best == NULL || pin_egress_terms_before(&rules.list[i], best, port)))
            best = &rules.list[i];
    return best;
}

static void mark(struct search *search, const struct pin_egress_rule *rule) {
    for (size_t i = 0; i < search->inner.count; i++)
        search->freer[i] = search->freer[i] || pin_egress_same(&search->inner.list[i], rule);
}

static void compare_at(struct search *search, struct rules inner, struct rules outer, uint32_t port) {
    if (port == 0 || port > UINT16_MAX)
        return;
    const struct pin_egress_rule *mine = chosen(inner, (uint16_t)port);
    const struct pin_egress_rule *theirs = mine != NULL ? chosen(outer, (uint16_t)port) : NULL;
    if (theirs != NULL && !pin_egress_terms_cover(theirs, mine, (uint16_t)port))
        mark(search, mine);
}

/* Which rule counts changes only where a range of ports starts or ends, and around those that are looked
 * into by themselves. */
static void compare_where_it_changes(struct search *search, struct rules inner, struct rules outer,
                                     struct rules by) {
    static const uint16_t around[] = {80, 81, 443, 444};
    for (size_t i = 0; i < sizeof(around) / sizeof(around[0]); i++)
        compare_at(search, inner, outer, around[i]);
    for (size_t i = 0; i < by.count; i++)
        for (size_t j = 0; j < by.list[i].port_count; j++) {
            compare_at(search, inner, outer, by.list[i].ports[j].first);
            compare_at(search, inner, outer, (uint32_t)by.list[i].ports[j].last + 1);
        }
}

static void compare_targets(struct search *search, struct rules targets) {
    for (size_t i = 0; i < targets.count; i++) {
        PIN_ARENA struct pin_arena arena = {0};
        struct rules inner = rules_for(&arena, search->inner, &targets.list[i]);
        struct rules outer =
            inner.count > 0 ? rules_for(&arena, search->outer, &targets.list[i]) : (struct rules){0};
        if (outer.count == 0)
            continue;
        compare_where_it_changes(search, inner, outer, inner);
        compare_where_it_changes(search, inner, outer, outer);
    }
}

/* --- a name that leads into a range: the range's rule counts --- */

/* No name leads there unless a range opens it, save the one of the host's own loopback. */
static bool no_name_leads_there(const struct pin_egress_rule *range) {
    enum pin_address_class class = pin_address_block(range->address, range->prefix).class;
    return class != PIN_ADDRESS_PUBLIC && class != PIN_ADDRESS_LOOPBACK;
}

/* The ports at which the range's budget counts for `outer`, and for `inner` no range does. */
static struct pin_port_set ports_of_budget(struct search *search, const struct pin_egress_rule *range) {
    struct pin_port_set own = {range->ports, range->port_count}, others = {0};
    const struct rules sides[] = {search->inner, search->outer};
    for (size_t side = 0; side < 2; side++)
        for (size_t i = 0; i < sides[side].count; i++) {
            const struct pin_egress_rule *rule = &sides[side].list[i];
            if (rule->host == NULL && rule->protocol == range->protocol &&
                pin_egress_grants_target(rule, range) && (side == 0 || rule->budget == NULL))
                pin_port_set_add(search->arena, &others, rule->ports, rule->port_count);
        }
    return pin_port_set_minus(search->arena, &own, &others);
}

static void compare_names(struct search *search, const struct pin_egress_rule *range) {
    struct pin_port_set ports = ports_of_budget(search, range);
    for (size_t i = 0; i < search->inner.count; i++) {
        const struct pin_egress_rule *name = &search->inner.list[i];
        if (name->host == NULL || name->protocol != range->protocol ||
            pin_egress_terms_cover(range, name, name->ports[0].first))
            continue;
        struct pin_port_set all = {name->ports, name->port_count};
        struct pin_port_set rest = pin_port_set_minus(search->arena, &all, &ports);
        struct pin_port_set met = pin_port_set_minus(search->arena, &all, &rest);
        search->freer[i] = search->freer[i] || met.count > 0;
    }
}

static bool may_take_away(struct rules rules) {
    for (size_t i = 0; i < rules.count; i++)
        if (pin_egress_has_terms(&rules.list[i]))
            return true;
    return false;
}

static bool is_granted(struct search *search, const struct pin_egress_rule *rule) {
    struct pin_port_set own = {rule->ports, rule->port_count};
    struct pin_port_set given = pin_port_set_given(search->arena, search->outer.list, search->outer.count,
                                                   rule, pin_covers_of(pin_field_row(PIN_FIELD_EGRESS)));
    return pin_port_set_minus(search->arena, &own, &given).count == 0;
}

size_t *pin_egress_freer(struct pin_arena *arena, const struct pin_policy *inner,
                         const struct pin_policy *outer, size_t *count) {
    struct search search = {
        .arena = arena,
        .inner = {inner->network.egress, inner->network.egress_count},
        .outer = {outer->network.egress, outer->network.egress_count}
    };
    size_t *found = NULL;
    *count = 0;
    if (outer->is_site || !may_take_away(search.outer))
        return NULL;
    search.freer = pin_arena_array(arena, search.inner.count, sizeof(*search.freer));
    compare_targets(&search, search.inner);
    compare_targets(&search, search.outer);
    for (size_t i = 0; i < search.outer.count; i++)
        if (search.outer.list[i].host == NULL && search.outer.list[i].budget != NULL &&
            !no_name_leads_there(&search.outer.list[i]))
            compare_names(&search, &search.outer.list[i]);
    for (size_t i = 0; i < search.inner.count; i++)
        if (search.freer[i] && is_granted(&search, &search.inner.list[i]))
            *(size_t *)pin_arena_grow(arena, &found, count, sizeof(*found)) = i;
    return found;
}
