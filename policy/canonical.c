#include "policy/canonical.h"

#include <string.h>

#include "policy/egress_rule.h"
#include "policy/egress_terms.h"
#include "policy/order_mounts.h"
#include "policy/port_set.h"

/* Whether item `index` says nothing that another item doesn't; of two that say the same the first stays. */
static bool is_covered(const struct pin_list *list, pin_covers *covers, size_t index) {
    const void *item = pin_list_at(list, index);
    for (size_t i = 0; i < list->count; i++)
        if (i != index && covers(pin_list_at(list, i), item) &&
            (i < index || !covers(item, pin_list_at(list, i))))
            return true;
    return false;
}

static struct pin_list without_covered(struct pin_arena *arena, const struct pin_list *list,
                                       pin_covers *covers) {
    char *kept = pin_arena_array(arena, list->count, list->size);
    struct pin_list result = {kept, 0, list->size};
    for (size_t i = 0; i < list->count; i++)
        if (!is_covered(list, covers, i))
            memcpy(kept + result.count++ * list->size, pin_list_at(list, i), list->size);
    return result;
}

/* Can't cover any other target: most rules of a long list, which then needn't be compared with all. */
static bool is_single(const struct pin_egress_rule *rule) {
    return rule->host != NULL ? rule->host[0] != '*' : rule->prefix == 128;
}

static bool same_target(const struct pin_egress_rule *a, const struct pin_egress_rule *b) {
    if (a->protocol != b->protocol || (a->host == NULL) != (b->host == NULL) || !pin_egress_terms_same(a, b))
        return false;
    return a->host != NULL ? strcmp(a->host, b->host) == 0
                           : a->prefix == b->prefix && a->any_address == b->any_address &&
                                 memcmp(a->address, b->address, 16) == 0;
}

static void join(struct pin_arena *arena, struct pin_egress_rule *rules, size_t *count,
                 const struct pin_egress_rule *rule) {
    size_t at = 0;
    while (at < *count && !same_target(&rules[at], rule))
        at++;
    if (at == *count) {
        rules[(*count)++] = *rule;
        return;
    }
    struct pin_port_set ports = {rules[at].ports, rules[at].port_count};
    pin_port_set_add(arena, &ports, rule->ports, rule->port_count);
    rules[at].ports = ports.ranges;
    rules[at].port_count = ports.count;
}

/* One rule for each target and terms, with all their ports. */
static struct pin_egress_rule *join_targets(struct pin_arena *arena, const struct pin_list *list,
                                            size_t *count) {
    struct pin_egress_rule *rules = pin_arena_array(arena, list->count * PIN_EGRESS_PARTS, sizeof(*rules));
    *count = 0;
    for (size_t i = 0; i < list->count; i++) {
        struct pin_egress_rule parts[PIN_EGRESS_PARTS];
        size_t part_count = pin_egress_normalise(arena, pin_list_at(list, i), parts);
        for (size_t j = 0; j < part_count; j++)
            join(arena, rules, count, &parts[j]);
    }
    return rules;
}

static struct pin_port_set ports_of_wider(struct pin_arena *arena, const struct pin_egress_rule *rules,
                                          size_t count, const struct pin_egress_rule *rule,
                                          pin_covers *covers) {
    struct pin_port_set wider = {0};
    for (size_t i = 0; i < count; i++)
        if ((!is_single(&rules[i]) || pin_egress_has_terms(&rules[i]) || pin_egress_has_terms(rule)) &&
            !same_target(&rules[i], rule) && covers(&rules[i], rule))
            pin_egress_add_granted(arena, &wider, &rules[i], rule);
    return wider;
}

static struct pin_list canonical_egress(struct pin_arena *arena, const struct pin_list *list,
                                        pin_covers *covers) {
    size_t count;
    struct pin_egress_rule *rules = join_targets(arena, list, &count);
    struct pin_egress_rule *kept = pin_arena_array(arena, count, sizeof(*kept));
    struct pin_list result = {(const char *)kept, 0, sizeof(*kept)};
    for (size_t i = 0; i < count; i++) {
        struct pin_port_set own = {rules[i].ports, rules[i].port_count};
        struct pin_port_set wider = ports_of_wider(arena, rules, count, &rules[i], covers);
        struct pin_port_set left = wider.count > 0 ? pin_port_set_minus(arena, &own, &wider) : own;
        if (left.count == 0)
            continue;
        kept[result.count] = rules[i];
        kept[result.count].ports = left.ranges;
        kept[result.count++].port_count = left.count;
    }
    return result;
}

/* A budget that no rule names says nothing. */
static struct pin_list used_budgets(struct pin_arena *arena, const struct pin_policy *policy) {
    struct pin_list rules = pin_canonical_list(arena, policy, pin_field_row(PIN_FIELD_EGRESS));
    struct pin_egress_budget *kept = pin_arena_array(arena, policy->network.budget_count, sizeof(*kept));
    struct pin_list result = {(const char *)kept, 0, sizeof(*kept)};
    for (size_t i = 0; i < policy->network.budget_count; i++)
        for (size_t j = 0; j < rules.count; j++)
            if (((const struct pin_egress_rule *)pin_list_at(&rules, j))->budget ==
                &policy->network.budgets[i]) {
                /* NOLINTNEXTLINE(clang-analyzer-core.NullDereference): there are budget_count of them */
                kept[result.count++] = policy->network.budgets[i];
                break;
            }
    return result;
}

/* A mount within another hides what lies there, so only what isn't seen says nothing; with the others each
 * lies over what it is within, in whatever order they stand. */
static struct pin_list seen_mounts(struct pin_arena *arena, const struct pin_policy *policy) {
    struct pin_mount_rule *kept = pin_arena_array(arena, policy->filesystem.mount_count, sizeof(*kept));
    struct pin_list result = {(const char *)kept, 0, sizeof(*kept)};
    for (size_t i = 0; i < policy->filesystem.mount_count; i++)
        if (pin_mount_is_seen(policy, i))
            kept[result.count++] = policy->filesystem.mounts[i];
    return result;
}

struct pin_list pin_canonical_list(struct pin_arena *arena, const struct pin_policy *policy,
                                   const struct pin_field_row *row) {
    struct pin_list list = pin_list_of(policy, row);
    if (row->type == PIN_TYPE_EGRESS || row->type == PIN_TYPE_DENY)
        return canonical_egress(arena, &list, pin_covers_of(row));
    if (row->type == PIN_TYPE_BUDGETS)
        return used_budgets(arena, policy);
    if (row->type == PIN_TYPE_MOUNTS && !policy->is_site)
        return seen_mounts(arena, policy);
    return without_covered(arena, &list, pin_covers_of(row));
}
