/* egress_terms.h: under which terms a rule grants a destination: what is inspected, and the budget.
 *
 * Terms are ordered: some cover others. Where several rules name a destination, the one with the widest terms
 * counts, whatever their order. Where neither covers the other (TLS beside HTTP, two budgets) the choice
 * takes something away, and the order over policies minds that: order_egress.h. Pure. Source: docs/policy.md
 * "network.egress".
 */
#pragma once

#include <stddef.h>

#include "policy/port_set.h"

extern const struct pin_egress_limits pin_egress_no_limits;

/* Where each limit lies in the struct, in the order in which the broker is told them. */
#define PIN_EGRESS_LIMIT_COUNT 10
extern const size_t pin_egress_limit_offsets[PIN_EGRESS_LIMIT_COUNT];

/* What connections to this port are held to: TLS, HTTP or NONE, never AUTO. */
enum pin_inspect pin_egress_inspection(const struct pin_egress_rule *rule, uint16_t port);

bool pin_egress_terms_same(const struct pin_egress_rule *a, const struct pin_egress_rule *b);
/* Whether it says anything of inspection or a budget. */
bool pin_egress_has_terms(const struct pin_egress_rule *rule);
/* Whether all that may be said to this port under the terms of `inner` may be under those of `outer`. */
bool pin_egress_terms_cover(const struct pin_egress_rule *outer, const struct pin_egress_rule *inner,
                            uint16_t port);
/* Of two rules for one destination: does `a` come before `b`? */
bool pin_egress_terms_before(const struct pin_egress_rule *a, const struct pin_egress_rule *b, uint16_t port);
/* Adds the ports at which `outer` grants all that `inner` may; targets aside. */
void pin_egress_add_granted(struct pin_arena *arena, struct pin_port_set *set,
                            const struct pin_egress_rule *outer, const struct pin_egress_rule *inner);

/* The same grants, in at most three rules whose terms are spelt in one way only; ports in the arena. Returns
 * how many. */
#define PIN_EGRESS_PARTS 3
size_t pin_egress_normalise(struct pin_arena *arena, const struct pin_egress_rule *rule,
                            struct pin_egress_rule parts[PIN_EGRESS_PARTS]);

/* Each limit of `a` is at most that of `b`. */
bool pin_egress_limits_within(const struct pin_egress_limits *a, const struct pin_egress_limits *b);

/* Rules get the budgets of this list whose names theirs have; the number of the first rule whose budget isn't
 * there, or `count`. */
size_t pin_egress_give_budgets(struct pin_egress_rule *rules, size_t count,
                               const struct pin_egress_budget *budgets, size_t budget_count);

/* A command line names a destination and no terms: it gets those of the rule that grants it, if there is one.
 */
void pin_egress_inherit_terms(struct pin_egress_rule *rule, const struct pin_egress_rule *rules,
                              size_t count);

/* The budget of this name; NULL: none. */
const struct pin_egress_budget *pin_egress_budget_find(const struct pin_egress_budget *budgets, size_t count,
                                                       const char *name);
