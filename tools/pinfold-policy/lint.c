#include "policy/audit/lint.h"
#include "base/names.h"
#include "tools/pinfold-policy/input.h"
#include "tools/pinfold-policy/verbs.h"
#include "tools/pinfold/report.h"

struct lint_options {
    struct pin_input_options input;
    bool sarif;
    int fail_on;
    struct pin_texts ignore;
};

static const char *const levels[] = {"note", "warning", "error", "never", NULL};
enum { FAIL_NEVER = PIN_LINT_SEVERITY_COUNT };

static const struct pin_option options[] = {
    PIN_INPUT_ROWS,
    {"sarif",   0, PIN_OPTION_FLAG,   offsetof(struct lint_options, sarif),   NULL,
      "print SARIF 2.1.0, for code review tools",                NULL  },
    {"fail-on", 0, PIN_OPTION_CHOICE, offsetof(struct lint_options, fail_on), NULL,
      "the least severity that makes the exit code 1 (warning)", levels},
    {"ignore",  0, PIN_OPTION_TEXTS,  offsetof(struct lint_options, ignore),  "RULE",
      "leave this rule out, by its id or name",                  NULL  },
};

static int print_lint(const struct pin_lint *lint, const struct lint_options *values) {
    int level = values->fail_on >= 0 ? values->fail_on : PIN_LINT_WARNING;
    bool bad = level != FAIL_NEVER && pin_lint_count(lint, (enum pin_lint_severity)level) > 0;
    int code = bad ? PIN_AUDIT_BAD : PIN_AUDIT_GOOD;
    struct pin_buffer text = {0};
    if (values->sarif)
        return pin_output_json(pin_lint_sarif(lint), code);
    if (values->input.json)
        return pin_output_json(pin_lint_json(lint), code);
    pin_lint_print(&text, lint);
    return pin_output_text(&text, code);
}

static int run_lint(const struct pin_invocation *invocation) {
    const struct lint_options *values = invocation->values;
    PIN_LINT struct pin_lint lint = {0};
    struct pin_findings found = {0};
    struct pin_error err = {0};
    struct pin_input input = {0};
    int code;
    if (pin_input_load(&input, pin_input_argument(invocation, 0), &values->input, &found)) {
        pin_lint_check(&lint, &input.reach);
        code = pin_lint_ignore(&lint, values->ignore.items, values->ignore.count, &err)
                   ? print_lint(&lint, values)
                   : pin_report(&err, values->input.json);
    } else {
        code = pin_report_findings(&found, values->input.json);
    }
    pin_input_free(&input);
    return code;
}

const struct pin_verb pin_policy_verb_lint = {
    .name = "policy lint",
    .synopsis = "[POLICY]",
    .summary = "what its author should look at again",
    .description = "Exit code 0: nothing as severe as --fail-on; 1: something." PIN_INPUT_EXITS,
    .example = "  pinfold policy lint web-tools.json\n"
               "  pinfold policy lint --sarif web-tools.json > lint.sarif",
    .options = options,
    .option_count = PIN_COUNT(options),
    .values_size = sizeof(struct lint_options),
    .most_arguments = 1,
    .run = run_lint,
};
