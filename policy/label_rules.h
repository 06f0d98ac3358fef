/* label_rules.h: which labels a run must carry: always, and for what it asks for.
 *
 * One place that decides for every front door: `audit.require_labels` and `audit.require_labels_for`. Pure.
 */
#pragma once

#include "policy/policy.h"

enum pin_label_cause { /* a set: what a run asks for */
                       PIN_LABELS_ALWAYS = 0,
                       PIN_LABELS_FOR_SECRETS = 1,
                       PIN_LABELS_FOR_EGRESS = 2,
                       PIN_LABELS_FOR_PRIVILEGED = 4,
};

/* `pointer` is of the list; `cause` is why ("a run that asks for secrets"), or NULL for every run. */
typedef void pin_label_visitor(void *context, const struct pin_string *label, const char *pointer,
                               const char *cause);

/* Every label that a run with these causes needs. */
void pin_labels_needed(const struct pin_policy *policy, unsigned causes, pin_label_visitor *visitor,
                       void *context);
