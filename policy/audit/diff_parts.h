/* diff_parts.h: inside of diff.c: one direction at a time, and the lists in a file of their own. */
#pragma once

#include "policy/audit/diff.h"
#include "policy/fields.h"

/* What `to` has and `from` hasn't is of `kind`. */
struct pin_diff_side {
    struct pin_diff *diff;
    const struct pin_reach *from, *to;
    enum pin_change_kind kind;
};

void pin_diff_add(const struct pin_diff_side *side, const char *pointer, const struct pin_place *place,
                  const char *text);

/* The lists that grant, those that refuse or demand, and the system calls. */
void pin_diff_lists(const struct pin_diff_side *side);
void pin_diff_calls(const struct pin_diff_side *side);
