/* port_set.h: sets of ports as sorted ranges that don't touch (pin_ports_normalise). Pure. */
#pragma once

#include "base/arena.h"
#include "policy/covers.h"
#include "policy/policy.h"

struct pin_port_set {
    struct pin_port_range *ranges; /* in an arena */
    size_t count;
};

/* Adds the ranges of a rule. */
void pin_port_set_add(struct pin_arena *arena, struct pin_port_set *set, const struct pin_port_range *ranges,
                      size_t count);
/* The ports that the rules of a list give to what `rule` names; `covers` is that of the list. */
struct pin_port_set pin_port_set_given(struct pin_arena *arena, const struct pin_egress_rule *rules,
                                       size_t count, const struct pin_egress_rule *rule, pin_covers *covers);
/* What is in `a` and not in `b`. */
struct pin_port_set pin_port_set_minus(struct pin_arena *arena, const struct pin_port_set *a,
                                       const struct pin_port_set *b);
