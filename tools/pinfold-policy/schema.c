#include <stdio.h>

#include "base/names.h"
#include "pin_policy_schema.h"
#include "tools/pinfold-policy/input.h"
#include "tools/pinfold-policy/verbs.h"

static int run_schema(const struct pin_invocation *invocation) {
    (void)invocation;
    struct pin_buffer text = {0};
    pin_buffer_add_bytes(&text, (const char *)pin_policy_schema[0].data, pin_policy_schema[0].size);
    return pin_output_text(&text, PIN_AUDIT_GOOD);
}

const struct pin_verb pin_policy_verb_schema = {
    .name = "policy schema",
    .synopsis = "",
    .summary = "the JSON Schema of policy files",
    .description = "For editors and validators; the reader itself checks more (docs/policy.md).",
    .example = "  pinfold policy schema > policy.schema.json",
    .run = run_schema,
};
