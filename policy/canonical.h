/* canonical.h: lists in the one form that all lists of the same meaning have.
 *
 * An item that another one covers is left out; egress rules of one target become one, without the ports that
 * a wider target has already. The order is that of the items' JSON text. Pure.
 */
#pragma once

#include "policy/covers.h"

/* The items of the row's list that count, in the arena; of egress rules copies with their own ports. */
struct pin_list pin_canonical_list(struct pin_arena *arena, const struct pin_policy *policy,
                                   const struct pin_field_row *row);
