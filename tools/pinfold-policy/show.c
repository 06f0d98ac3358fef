#include "base/names.h"
#include "policy/grants.h"
#include "policy/policy_write.h"
#include "tools/pinfold-policy/input.h"
#include "tools/pinfold-policy/verbs.h"
#include "tools/pinfold/report.h"

struct show_options {
    struct pin_input_options input;
    bool effective;
};

static const struct pin_option options[] = {
    PIN_INPUT_ROWS,
    {"effective", 0, PIN_OPTION_FLAG, offsetof(struct show_options, effective), NULL,
      "one line for each grant and limit, with the place that gave it", NULL},
};

static void add_line(void *context, const char *pointer, const char *value, const struct pin_place *place) {
    char text[PIN_PLACE_TEXT];
    pin_buffer_printf(context, "%-34s %-40s %s\n", pointer, value, pin_place_print(text, place));
}

static void add_object(void *context, const char *pointer, const char *value, const struct pin_place *place) {
    char text[PIN_PLACE_TEXT];
    json_array_append_new(context, json_pack("{s:s, s:o, s:s}", "pointer", pointer, "value",
                                             json_loads(value, JSON_DECODE_ANY, NULL), "place",
                                             pin_place_print(text, place)));
}

static int print_effective(const struct pin_policy *policy, bool json) {
    struct pin_buffer text = {0};
    char digest[PIN_DIGEST_TEXT];
    (void)pin_digest_print(digest, policy->digest);
    if (!json) {
        pin_buffer_printf(&text, "policy %s, %s\n", policy->name, digest);
        pin_policy_each_grant(policy, add_line, &text);
        return pin_output_text(&text, PIN_AUDIT_GOOD);
    }
    json_t *grants = json_array();
    pin_policy_each_grant(policy, add_object, grants);
    return pin_output_json(
        json_pack("{s:s, s:s, s:o}", "policy", policy->name, "digest", digest, "grants", grants),
        PIN_AUDIT_GOOD);
}

static int run_show(const struct pin_invocation *invocation) {
    const struct show_options *values = invocation->values;
    struct pin_findings found = {0};
    struct pin_input input = {0};
    int code;
    if (!pin_input_load(&input, pin_input_argument(invocation, 0), &values->input, &found)) {
        code = pin_report_findings(&found, values->input.json);
    } else if (values->effective) {
        code = print_effective(input.policy, values->input.json);
    } else {
        struct pin_buffer text = {0};
        pin_policy_write(input.policy, &text);
        code = pin_output_text(&text, PIN_AUDIT_GOOD);
    }
    pin_input_free(&input);
    return code;
}

const struct pin_verb pin_policy_verb_show = {
    .name = "policy show",
    .synopsis = "[POLICY]",
    .summary = "the policy with everything that it extends filled in",
    .description =
        "Prints the resolved policy as a policy file; with --effective one line for each grant and\n"
        "limit, and the file, line and column that gave it." PIN_INPUT_EXITS,
    .example = "  pinfold policy show --effective web-tools",
    .options = options,
    .option_count = PIN_COUNT(options),
    .values_size = sizeof(struct show_options),
    .most_arguments = 1,
    .run = run_show,
};
