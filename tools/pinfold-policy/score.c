#include <stdlib.h>

#include "base/cleanup.h"
#include "base/names.h"
#include "policy/audit/score.h"
#include "tools/pinfold-policy/input.h"
#include "tools/pinfold-policy/verbs.h"
#include "tools/pinfold/report.h"

struct score_options {
    struct pin_input_options input;
    const char *threshold, *weights;
};

static const struct pin_option options[] = {
    PIN_INPUT_ROWS,
    {"threshold", 0, PIN_OPTION_TEXT, offsetof(struct score_options, threshold), "N",
      "exit code 1 where the score is above this, 0 to 10",  NULL},
    {"weights",   0, PIN_OPTION_TEXT, offsetof(struct score_options, weights),   "FILE",
      "weights of your own over the built-in ones, as JSON", NULL},
};

#define WEIGHTS_BYTES_MAX ((size_t)1024 * 1024)

static bool load_weights(struct pin_weights *weights, const char *path, struct pin_findings *found) {
    size_t size;
    if (!pin_weights_builtin(weights, found))
        return false;
    if (path == NULL)
        return true;
    PIN_FREE char *text = pin_input_file(path, WEIGHTS_BYTES_MAX, &size, found);
    return text != NULL && pin_weights_read(weights, path, text, size, found);
}

static bool read_threshold(const char *text, double *threshold, struct pin_findings *found) {
    char *end;
    *threshold = 10;
    if (text == NULL)
        return true;
    *threshold = strtod(text, &end);
    if (end != text && *end == '\0' && *threshold >= 0 && *threshold <= 10)
        return true;
    (void)pin_find(found, PIN_ERROR_USAGE, "--threshold", "write a number from 0 to 10",
                   "--threshold can't be '%.40s'", text);
    return false;
}

static int print_score(const struct pin_input *input, const struct pin_weights *weights, double threshold,
                       bool json) {
    PIN_SCORE struct pin_score score = {0};
    struct pin_buffer text = {0};
    pin_score_make(&score, &input->reach, weights);
    pin_score_advise(&score, &input->reach, weights);
    int code = score.total > threshold ? PIN_AUDIT_BAD : PIN_AUDIT_GOOD;
    if (json)
        return pin_output_json(pin_score_json(&score), code);
    pin_score_print(&text, &score);
    return pin_output_text(&text, code);
}

static int run_score(const struct pin_invocation *invocation) {
    const struct score_options *values = invocation->values;
    PIN_WEIGHTS struct pin_weights weights = {0};
    struct pin_findings found = {0};
    struct pin_input input = {0};
    double threshold;
    int code;
    if (read_threshold(values->threshold, &threshold, &found) &&
        load_weights(&weights, values->weights, &found) &&
        pin_input_load(&input, pin_input_argument(invocation, 0), &values->input, &found))
        code = print_score(&input, &weights, threshold, values->input.json);
    else
        code = pin_report_findings(&found, values->input.json);
    pin_input_free(&input);
    return code;
}

const struct pin_verb pin_policy_verb_score = {
    .name = "policy score",
    .synopsis = "[POLICY]",
    .summary = "how much of the host it exposes, from 0 to 10",
    .description =
        "One weighted sum over the system calls, socket families, files, descriptors, capabilities,\n"
        "ids, destinations, secrets and missing limits; docs/auditor.md has the formula. Exit code 0:\n"
        "at most --threshold; 1: above it." PIN_INPUT_EXITS,
    .example = "  pinfold policy score --threshold 2.5 web-tools.json",
    .options = options,
    .option_count = PIN_COUNT(options),
    .values_size = sizeof(struct score_options),
    .most_arguments = 1,
    .run = run_score,
};
