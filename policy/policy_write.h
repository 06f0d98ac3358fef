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
const struct pin_place *pin_policy_item_place(enum pin_field field, const void *item);

/* One grant or limit of the effective policy: its JSON pointer ("/network/egress/2"), its value as JSON, and
 * the place that gave it. */
typedef void pin_grant_visitor(void *context, const char *pointer, const char *value,
                               const struct pin_place *place);
void pin_policy_each_grant(const struct pin_policy *policy, pin_grant_visitor *visitor, void *context);

/* "file:line:column", or "default", into `to`, which it returns. */
#define PIN_PLACE_TEXT 300
char *pin_place_print(char to[PIN_PLACE_TEXT], const struct pin_place *place);
