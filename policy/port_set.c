#include "policy/port_set.h"

#include "policy/egress_rule.h"
#include "policy/egress_terms.h"

void pin_port_set_add(struct pin_arena *arena, struct pin_port_set *set, const struct pin_port_range *ranges,
                      size_t count) {
    struct pin_port_range *more = pin_arena_array(arena, set->count + count, sizeof(*more));
    for (size_t i = 0; i < set->count; i++)
        more[i] = set->ranges[i];
    for (size_t i = 0; i < count; i++)
        more[set->count + i] = ranges[i];
    set->ranges = more;
    set->count = pin_ports_normalise(more, set->count + count);
}

struct pin_port_set pin_port_set_minus(struct pin_arena *arena, const struct pin_port_set *a,
                                       const struct pin_port_set *b) {
    struct pin_port_set left = {0};
    for (size_t i = 0; i < a->count; i++) {
        uint32_t from = a->ranges[i].first, to = a->ranges[i].last; /* 32 bits: one past 65535 */
        for (size_t j = 0; j < b->count && from <= to; j++) {
            if (b->ranges[j].last < from || b->ranges[j].first > to)
                continue;
            if (b->ranges[j].first > from)
                *(struct pin_port_range *)pin_arena_grow(arena, &left.ranges, &left.count,
                                                         sizeof(*left.ranges)) =
                    (struct pin_port_range){(uint16_t)from, (uint16_t)(b->ranges[j].first - 1)};
            from = (uint32_t)b->ranges[j].last + 1;
        }
        if (from <= to)
            *(struct pin_port_range *)pin_arena_grow(arena, &left.ranges, &left.count, sizeof(*left.ranges)) =
                (struct pin_port_range){(uint16_t)from, (uint16_t)to};
    }
    return left;
}

struct pin_port_set pin_port_set_given(struct pin_arena *arena, const struct pin_egress_rule *rules,
                                       size_t count, const struct pin_egress_rule *rule, pin_covers *covers) {
    struct pin_port_set given = {0};
    for (size_t i = 0; i < count; i++)
        if (covers(&rules[i], rule))
            pin_egress_add_granted(arena, &given, &rules[i], rule);
    return given;
}
