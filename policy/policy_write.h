/* policy_write.h: a resolved policy as text.
 *
 * The canonical form is a policy file in one line: every field that grants or limits, in the order of the
 * table of fields, lists reduced and sorted (canonical.h), without name and description: policies of the same
 * meaning have the same text, and its SHA-256 is the policy's digest. Read back, it gives the same digest.
 */
#pragma once

#include <stdbool.h>

#include "policy/buffer.h"
#include "policy/policy.h"

void pin_policy_write_canonical(const struct pin_policy *policy, struct pin_buffer *to);

/* The same for people: with name and description, indented, items in the order in which they were given. */
void pin_policy_write(const struct pin_policy *policy, struct pin_buffer *to);

/* The value of a field, or one item of a list of it, as JSON; in the arena. */
char *pin_policy_value_text(struct pin_arena *arena, const struct pin_policy *policy, enum pin_field field);
char *pin_policy_item_text(struct pin_arena *arena, enum pin_field field, const void *item);
