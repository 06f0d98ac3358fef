#include "policy/label_rules.h"

#include "base/names.h"
#include "policy/fields.h"

void pin_labels_needed(const struct pin_policy *policy, unsigned causes, pin_label_visitor *visitor,
                       void *context) {
    const struct {
        unsigned cause;
        enum pin_field field;
        const struct pin_strings *labels;
        const char *why;
    } rows[] = {
        {PIN_LABELS_ALWAYS,         PIN_FIELD_REQUIRE_LABELS,    &policy->audit.require_labels,    NULL},
        {PIN_LABELS_FOR_SECRETS,    PIN_FIELD_LABELS_SECRETS,    &policy->audit.labels_secrets,
         "a run that gets secrets"                                                                     },
        {PIN_LABELS_FOR_EGRESS,     PIN_FIELD_LABELS_EGRESS,     &policy->audit.labels_egress,
         "a run with a way out"                                                                        },
        {PIN_LABELS_FOR_PRIVILEGED, PIN_FIELD_LABELS_PRIVILEGED, &policy->audit.labels_privileged,
         "a privileged container"                                                                      },
    };
    for (size_t i = 0; i < PIN_COUNT(rows); i++)
        for (size_t j = 0; j < rows[i].labels->count && (rows[i].cause & ~causes) == 0; j++)
            visitor(context, &rows[i].labels->items[j], pin_field_pointer(rows[i].field), rows[i].why);
}
