/* covers.h: whether one item of a list grants (or refuses) all that another one does.
 *
 * The ground of the order: reflexive and transitive for each kind, and two items that cover each other mean
 * the same. Pure. Rules: docs/policy.md "The order".
 */
#pragma once

#include "policy/fields.h"

/* For the lists of a row's type; of egress rules only the targets and the protocol count, not the ports. */
typedef bool pin_covers(const void *outer, const void *inner);
pin_covers *pin_covers_of(const struct pin_field_row *row);

/* A list as the policy holds it. */
struct pin_list {
    const char *items;
    size_t count, size;
};
struct pin_list pin_list_of(const struct pin_policy *policy, const struct pin_field_row *row);

static inline const void *pin_list_at(const struct pin_list *list, size_t index) {
    return list->items + index * list->size;
}

/* By one item of the list alone. */
static inline bool pin_is_covered(const struct pin_list *by, pin_covers *covers, const void *item) {
    for (size_t i = 0; i < by->count; i++)
        if (covers(pin_list_at(by, i), item))
            return true;
    return false;
}
