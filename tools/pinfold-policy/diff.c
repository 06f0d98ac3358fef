#include "policy/audit/diff.h"
#include "base/names.h"
#include "tools/pinfold-policy/input.h"
#include "tools/pinfold-policy/verbs.h"
#include "tools/pinfold/report.h"

static const struct pin_option options[] = {
    PIN_INPUT_ROW("bundle", PIN_OPTION_TEXT, bundle, "DIR",
                  "B is what this OCI bundle asks for, with the policy B as its ceiling"),
    PIN_INPUT_ROW("site", PIN_OPTION_TEXT, site, "FILE",
                  "the site's floor and ceiling (/etc/pinfold/site.json, where there is one)"),
    PIN_INPUT_ROW("json", PIN_OPTION_FLAG, json, NULL, "print one JSON object"),
};

static int print_diff(const struct pin_input *a, const struct pin_input *b, char *const *names, bool json) {
    PIN_DIFF struct pin_diff diff = {0};
    struct pin_buffer text = {0};
    pin_diff_make(&diff, &a->reach, &b->reach);
    int code = diff.wider ? PIN_AUDIT_BAD : PIN_AUDIT_GOOD;
    if (json)
        return pin_output_json(pin_diff_json(&diff), code);
    pin_diff_print(&text, &diff, names[0], names[1]);
    return pin_output_text(&text, code);
}

static int run_diff(const struct pin_invocation *invocation) {
    const struct pin_input_options *values = invocation->values;
    struct pin_findings found = {0};
    struct pin_input_options of_a = *values;
    struct pin_input a = {0}, b = {0};
    int code;
    of_a.bundle = NULL;
    if (pin_input_load(&a, pin_input_argument(invocation, 0), &of_a, &found) &&
        pin_input_load(&b, pin_input_argument(invocation, 1), values, &found))
        code = print_diff(&a, &b, invocation->arguments, values->json);
    else
        code = pin_report_findings(&found, values->json);
    pin_input_free(&a);
    pin_input_free(&b);
    return code;
}

const struct pin_verb pin_policy_verb_diff = {
    .name = "policy diff",
    .synopsis = "A B",
    .summary = "what becomes possible, or impossible, from A to B",
    .description =
        "Compares what the policies mean: order, names and `extends` make no difference. Exit code 0: B\n"
        "is equal or narrower; 1: B is wider in something; 2: wrong usage, or a policy that can't be\n"
        "read. The rule is the one order that also holds requests below policies. A and B may be\n"
        "'sandbox:NAME' and 'bundle:DIR'.",
    .example = "  pinfold policy diff old.json new.json || echo 'needs a review'",
    .options = options,
    .option_count = PIN_COUNT(options),
    .values_size = sizeof(struct pin_input_options),
    .least_arguments = 2,
    .most_arguments = 2,
    .run = run_diff,
};
