#include "policy/filter_algebra.h"

#include <string.h>

#include "base/names.h"

/* EQ and MASKED_EQ in one form: the bits that are known. */
static bool known_bits(const struct pin_filter_arg *arg, uint64_t *mask, uint64_t *value) {
    if (arg->op != PIN_FILTER_EQ && arg->op != PIN_FILTER_MASKED_EQ)
        return false;
    *mask = arg->op == PIN_FILTER_EQ ? UINT64_MAX : arg->mask;
    *value = arg->value;
    return true;
}

/* A value with bits that the mask takes away: nothing equals it. */
static bool never_holds(const struct pin_filter_arg *arg) {
    return arg->op == PIN_FILTER_MASKED_EQ && (arg->value & ~arg->mask) != 0;
}

/* The least and the greatest value that satisfy an order comparison; false for the others. */
static bool range_of(const struct pin_filter_arg *arg, uint64_t *low, uint64_t *high, bool *none) {
    *low = 0, *high = UINT64_MAX, *none = false;
    switch (arg->op) {
    case PIN_FILTER_EQ: *low = *high = arg->value; return true;
    case PIN_FILTER_LE: *high = arg->value; return true;
    case PIN_FILTER_GE: *low = arg->value; return true;
    case PIN_FILTER_LT:
        *none = arg->value == 0;
        *high = arg->value - 1;
        return true;
    case PIN_FILTER_GT:
        *none = arg->value == UINT64_MAX;
        *low = arg->value + 1;
        return true;
    case PIN_FILTER_MASKED_EQ:
    case PIN_FILTER_NE:
    case PIN_FILTER_OP_COUNT: break;
    }
    return false;
}

/* Whether no argument can satisfy both comparisons (of the same index). */
static bool args_disjoint(const struct pin_filter_arg *a, const struct pin_filter_arg *b) {
    uint64_t a_mask, a_value, b_mask, b_value;
    if (known_bits(a, &a_mask, &a_value) && known_bits(b, &b_mask, &b_value))
        return ((a_value ^ b_value) & a_mask & b_mask) != 0;
    if (a->op == PIN_FILTER_NE || b->op == PIN_FILTER_NE) {
        const struct pin_filter_arg *other = a->op == PIN_FILTER_NE ? b : a;
        uint64_t excluded = a->op == PIN_FILTER_NE ? a->value : b->value;
        uint64_t low, high;
        bool none;
        return range_of(other, &low, &high, &none) && (none || (low == high && low == excluded));
    }
    uint64_t a_low, a_high, b_low, b_high;
    bool a_none, b_none;
    if (!range_of(a, &a_low, &a_high, &a_none) || !range_of(b, &b_low, &b_high, &b_none))
        return false;
    return a_none || b_none || a_high < b_low || b_high < a_low;
}

static bool never_matches(const struct pin_filter_rule *rule) {
    for (size_t i = 0; i < rule->arg_count; i++)
        if (never_holds(&rule->args[i]))
            return true;
    return false;
}

bool pin_filter_rules_disjoint(const struct pin_filter_rule *a, const struct pin_filter_rule *b) {
    if (never_matches(a) || never_matches(b))
        return true;
    for (size_t i = 0; i < a->arg_count; i++)
        for (size_t j = 0; j < b->arg_count; j++)
            if (a->args[i].index == b->args[j].index && args_disjoint(&a->args[i], &b->args[j]))
                return true;
    return false;
}

/* Whether every value that satisfies `inner` satisfies `outer`. */
static bool arg_within(const struct pin_filter_arg *inner, const struct pin_filter_arg *outer) {
    uint64_t in_mask, in_value, out_mask, out_value;
    if (known_bits(inner, &in_mask, &in_value) && known_bits(outer, &out_mask, &out_value))
        return (out_mask & ~in_mask) == 0 && ((in_value ^ out_value) & out_mask) == 0;
    if (outer->op == PIN_FILTER_NE) {
        struct pin_filter_arg excluded = {.index = outer->index, .op = PIN_FILTER_EQ, .value = outer->value};
        return (inner->op == PIN_FILTER_NE && inner->value == outer->value) ||
               args_disjoint(inner, &excluded);
    }
    uint64_t in_low, in_high, out_low, out_high;
    bool in_none, out_none;
    if (!range_of(inner, &in_low, &in_high, &in_none) || !range_of(outer, &out_low, &out_high, &out_none))
        return false;
    return in_none || (!out_none && out_low <= in_low && in_high <= out_high);
}

bool pin_filter_rule_within(const struct pin_filter_rule *inner, const struct pin_filter_rule *outer) {
    if (never_matches(inner) || never_matches(outer))
        return never_matches(inner);
    for (size_t j = 0; j < outer->arg_count; j++) {
        bool held = outer->args[j].op == PIN_FILTER_MASKED_EQ && outer->args[j].mask == 0;
        for (size_t i = 0; i < inner->arg_count && !held; i++)
            held =
                inner->args[i].index == outer->args[j].index && arg_within(&inner->args[i], &outer->args[j]);
        if (!held)
            return false;
    }
    return true;
}

static bool merge(struct pin_filter_arg *into, const struct pin_filter_arg *arg, bool *empty) {
    if (args_disjoint(into, arg)) {
        *empty = true;
        return true;
    }
    if (arg_within(into, arg))
        return true;
    if (arg_within(arg, into)) {
        *into = *arg;
        return true;
    }
    uint64_t a_mask, a_value, b_mask, b_value;
    if (!known_bits(into, &a_mask, &a_value) || !known_bits(arg, &b_mask, &b_value))
        return false;
    into->op = PIN_FILTER_MASKED_EQ;
    into->mask = a_mask | b_mask;
    into->value = (a_value & a_mask) | (b_value & b_mask);
    return true;
}

/* Adds the comparison to the rule, merged with one of the same argument. False if the two can't be one
 * comparison (the rule is then unchanged); `*empty` says that nothing can match any more. */
static bool narrow_rule(struct pin_filter_rule *rule, const struct pin_filter_arg *arg, bool *empty) {
    *empty = false;
    for (size_t i = 0; i < rule->arg_count; i++)
        if (rule->args[i].index == arg->index)
            return merge(&rule->args[i], arg, empty);
    if (rule->arg_count == PIN_FILTER_ARGS_MAX)
        return false;
    rule->args[rule->arg_count++] = *arg;
    return true;
}

struct pieces {
    struct pin_arena *arena;
    struct pin_filter_rules list;
    bool failed;
};

/* One piece: `rule` where `arg` holds too. */
static void add_piece(struct pieces *pieces, const struct pin_filter_rule *rule,
                      const struct pin_filter_arg *arg) {
    struct pin_filter_rule piece = *rule;
    bool empty = false;
    if (!narrow_rule(&piece, arg, &empty) || pieces->list.count == PIN_FILTER_SUBTRACT_MAX) {
        pieces->failed = true;
        return;
    }
    if (!empty) {
        struct pin_filter_rule *slot =
            pin_arena_grow(pieces->arena, &pieces->list.items, &pieces->list.count, sizeof(piece));
        *slot = piece;
    }
}

/* The pieces of `rule` in which known bits differ from `arg`'s: bit by bit from the lowest, those below it
 * equal, so that no two pieces overlap and the next subtraction splits only one of them. */
static void add_differing_bits(struct pieces *pieces, const struct pin_filter_rule *rule, uint8_t index,
                               uint64_t mask, uint64_t value) {
    for (unsigned bit = 0; bit < 64 && !pieces->failed; bit++) {
        uint64_t one = UINT64_C(1) << bit;
        if ((mask & one) == 0)
            continue;
        struct pin_filter_arg differs = {.index = index,
                                         .op = PIN_FILTER_MASKED_EQ,
                                         .mask = mask & (one | (one - 1)),
                                         .value = (value & mask & (one - 1)) | (~value & one)};
        add_piece(pieces, rule, &differs);
    }
}

static void add_outside(struct pieces *pieces, const struct pin_filter_rule *rule,
                        const struct pin_filter_arg *arg) {
    static const enum pin_filter_op opposite[] = {
        [PIN_FILTER_NE] = PIN_FILTER_EQ, [PIN_FILTER_LT] = PIN_FILTER_GE, [PIN_FILTER_LE] = PIN_FILTER_GT,
        [PIN_FILTER_GE] = PIN_FILTER_LT, [PIN_FILTER_GT] = PIN_FILTER_LE,
    };
    uint64_t mask, value;
    if (known_bits(arg, &mask, &value)) {
        add_differing_bits(pieces, rule, arg->index, mask, value);
        return;
    }
    struct pin_filter_arg outside = {.index = arg->index, .op = opposite[arg->op], .value = arg->value};
    add_piece(pieces, rule, &outside);
}

/* rule - what = the union over i of: the first i-1 comparisons of `what` hold, and the i-th doesn't. */
static void split(struct pieces *pieces, const struct pin_filter_rule *rule,
                  const struct pin_filter_rule *what) {
    struct pin_filter_rule inside = *rule;
    for (size_t i = 0; i < what->arg_count && !pieces->failed; i++) {
        bool empty = false;
        add_outside(pieces, &inside, &what->args[i]);
        if (!narrow_rule(&inside, &what->args[i], &empty))
            pieces->failed = true;
        if (empty)
            return;
    }
}

bool pin_filter_subtract(struct pin_arena *arena, struct pin_filter_rules *from,
                         const struct pin_filter_rule *what) {
    struct pieces pieces = {.arena = arena};
    for (size_t i = 0; i < from->count && !pieces.failed; i++) {
        if (pin_filter_rules_disjoint(&from->items[i], what)) {
            struct pin_filter_rule *kept =
                pin_arena_grow(arena, &pieces.list.items, &pieces.list.count, sizeof(*kept));
            *kept = from->items[i];
        } else {
            split(&pieces, &from->items[i], what);
        }
    }
    if (pieces.failed)
        return false;
    *from = pieces.list;
    return true;
}
