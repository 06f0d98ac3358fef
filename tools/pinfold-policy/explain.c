#include "policy/audit/explain.h"
#include "base/names.h"
#include "policy/audit/explain_html.h"
#include "tools/pinfold-policy/input.h"
#include "tools/pinfold-policy/verbs.h"
#include "tools/pinfold/report.h"

struct explain_options {
    struct pin_input_options input;
    bool html;
};

static const struct pin_option options[] = {
    PIN_INPUT_ROWS,
    {"html", 0, PIN_OPTION_FLAG, offsetof(struct explain_options, html), NULL,
      "write one page of HTML that needs nothing else", NULL},
};

static int print_html(const struct pin_explain *explain, const struct pin_input *input,
                      struct pin_findings *found) {
    PIN_WEIGHTS struct pin_weights weights = {0};
    PIN_SCORE struct pin_score score = {0};
    PIN_LINT struct pin_lint lint = {0};
    struct pin_buffer text = {0};
    if (!pin_weights_builtin(&weights, found))
        return pin_report_findings(found, false);
    pin_score_make(&score, &input->reach, &weights);
    pin_lint_check(&lint, &input->reach);
    pin_explain_html(&text, &(struct pin_explain_page){&input->reach, explain, &score, &lint});
    return pin_output_text(&text, PIN_AUDIT_GOOD);
}

static int run_explain(const struct pin_invocation *invocation) {
    const struct explain_options *values = invocation->values;
    PIN_EXPLAIN struct pin_explain explain = {0};
    struct pin_findings found = {0};
    struct pin_input input = {0};
    struct pin_buffer text = {0};
    int code = PIN_AUDIT_GOOD;
    if (!pin_input_load(&input, pin_input_argument(invocation, 0), &values->input, &found)) {
        code = pin_report_findings(&found, values->input.json);
        pin_input_free(&input);
        return code;
    }
    pin_explain_make(&explain, &input.reach);
    if (values->html) {
        code = print_html(&explain, &input, &found);
    } else if (values->input.json) {
        code = pin_output_json(pin_explain_json(&explain, input.policy), code);
    } else {
        pin_explain_print(&text, &explain, input.policy);
        code = pin_output_text(&text, code);
    }
    pin_input_free(&input);
    return code;
}

const struct pin_verb pin_policy_verb_explain = {
    .name = "policy explain",
    .synopsis = "[POLICY]",
    .summary = "what a run under it can do, in plain sentences",
    .description =
        "With --html a page with pictures: the wall by its layers, the map of destinations, and the table\n"
        "of system calls. It needs no other file and no script." PIN_INPUT_EXITS,
    .example = "  pinfold policy explain web-tools.json\n"
               "  pinfold policy explain --html web-tools.json > web-tools.html",
    .options = options,
    .option_count = PIN_COUNT(options),
    .values_size = sizeof(struct explain_options),
    .most_arguments = 1,
    .run = run_explain,
};
