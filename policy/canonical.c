#include "policy/canonical.h"

#include <string.h>

#include "policy/egress_rule.h"
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
    if (a->protocol != b->protocol || (a->host == NULL) != (b->host == NULL))
        return false;
    return a->host != NULL ? strcmp(a->host, b->host) == 0
                           : a->prefix == b->prefix && memcmp(a->address, b->address, 16) == 0;
}

/* One rule for each target, with all its ports. */
static struct pin_egress_rule *join_targets(struct pin_arena *arena, const struct pin_list *list,
                                            size_t *count) {
    struct pin_egress_rule *rules = pin_arena_array(arena, list->count, sizeof(*rules));
    *count = 0;
    for (size_t i = 0; i < list->count; i++) {
        const struct pin_egress_rule *rule = pin_list_at(list, i);
        size_t at = 0;
        while (at < *count && !same_target(&rules[at], rule))
            at++;
        if (at == *count)
            rules[(*count)++] = *rule;
        if (at + 1 == *count && rules[at].ports == rule->ports)
            continue;
        struct pin_port_set ports = {rules[at].ports, rules[at].port_count};
        pin_port_set_add(arena, &ports, rule->ports, rule->port_count);
        rules[at].ports = ports.ranges;
        rules[at].port_count = ports.count;
    }
    return rules;
}

static struct pin_port_set ports_of_wider(struct pin_arena *arena, const struct pin_egress_rule *rules,
                                          size_t count, const struct pin_egress_rule *rule) {
    struct pin_port_set wider = {0};
    for (size_t i = 0; i < count; i++)
        if (!is_single(&rules[i]) && rules[i].protocol == rule->protocol && !same_target(&rules[i], rule) &&
            pin_egress_covers_target(&rules[i], rule))
            pin_port_set_add(arena, &wider, rules[i].ports, rules[i].port_count);
    return wider;
}

static struct pin_list canonical_egress(struct pin_arena *arena, const struct pin_list *list) {
    size_t count;
    struct pin_egress_rule *rules = join_targets(arena, list, &count);
    struct pin_egress_rule *kept = pin_arena_array(arena, count, sizeof(*kept));
    struct pin_list result = {(const char *)kept, 0, sizeof(*kept)};
    for (size_t i = 0; i < count; i++) {
        struct pin_port_set own = {rules[i].ports, rules[i].port_count};
        struct pin_port_set wider = ports_of_wider(arena, rules, count, &rules[i]);
        struct pin_port_set left = wider.count > 0 ? pin_port_set_minus(arena, &own, &wider) : own;
        if (left.count == 0)
            continue;
        kept[result.count] = rules[i];
        kept[result.count].ports = left.ranges;
        kept[result.count++].port_count = left.count;
    }
    return result;
}

struct pin_list pin_canonical_list(struct pin_arena *arena, const struct pin_policy *policy,
                                   const struct pin_field_row *row) {
    struct pin_list list = pin_list_of(policy, row);
    if (row->type == PIN_TYPE_EGRESS || row->type == PIN_TYPE_DENY)
        return canonical_egress(arena, &list);
    return without_covered(arena, &list, pin_covers_of(row));
}
