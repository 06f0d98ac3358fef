#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/names.h"
#include "policy/audit/cases.h"
#include "tools/pinfold-policy/input.h"
#include "tools/pinfold-policy/live.h"
#include "tools/pinfold-policy/verbs.h"
#include "tools/pinfold/report.h"

struct test_options {
    struct pin_input_options input;
    int format;
    bool live;
};

static const char *const formats[] = {"tap", "junit", NULL};
enum { FORMAT_TAP, FORMAT_JUNIT };

static const struct pin_option options[] = {
    PIN_INPUT_ROWS,
    {"format", 0, PIN_OPTION_CHOICE, offsetof(struct test_options, format), NULL,
      "how the results are reported (tap)",                                   formats},
    {"live",   0, PIN_OPTION_FLAG,   offsetof(struct test_options, live),   NULL,
      "also try each assertion in a real sandbox; a difference is a failure", NULL   },
};

static int print_cases(const struct pin_cases *cases, const struct pin_policy *policy,
                       const struct test_options *values) {
    struct pin_buffer text = {0};
    int code = pin_cases_failed(cases) > 0 ? PIN_AUDIT_BAD : PIN_AUDIT_GOOD;
    if (values->input.json)
        return pin_output_json(pin_cases_json(cases), code);
    if (values->format == FORMAT_JUNIT)
        pin_cases_junit(&text, cases, policy->name);
    else
        pin_cases_tap(&text, cases, policy->name);
    return pin_output_text(&text, code);
}

static bool load_cases(struct pin_cases *cases, const char *path, struct pin_findings *found) {
    size_t size;
    PIN_FREE char *text = pin_input_file(path, PIN_CASES_BYTES_MAX, &size, found);
    return text != NULL && pin_cases_read(cases, path, text, size, found);
}

/* A path of the policy must hold from another folder too. */
static const char *name_of(struct pin_arena *arena, const char *policy, const struct test_options *values) {
    char whole[PATH_MAX];
    if (values->input.bundle != NULL || values->input.site != NULL || pin_input_is_sandbox(policy))
        return NULL;
    if (access(policy, F_OK) == 0 && realpath(policy, whole) != NULL && strpbrk(policy, "/.") != NULL)
        return pin_arena_strdup(arena, whole);
    return policy;
}

static bool try_live(struct pin_cases *cases, const struct pin_input *input, const char *policy,
                     const struct test_options *values, struct pin_findings *found) {
    PIN_BUFFER struct pin_buffer notes = {0};
    struct pin_live_count count = {0};
    struct pin_error err = {0};
    const char *name = name_of(&cases->arena, policy, values);
    if (name == NULL)
        (void)pin_fail(&err, PIN_ERROR_USAGE, "--live takes neither --bundle nor --site nor a kept sandbox");
    else if (pin_live_try(cases, name, &input->reach, &notes, &count, &err)) {
        (void)fprintf(stderr, "%s# tried %zu, not tried %zu\n", notes.size > 0 ? notes.data : "", count.tried,
                      count.skipped);
        return true;
    }
    pin_find_error(found, &err);
    return false;
}

static int run_test(const struct pin_invocation *invocation) {
    const struct test_options *values = invocation->values;
    PIN_CASES struct pin_cases cases = {0};
    struct pin_findings found = {0};
    struct pin_input input = {0};
    struct pin_input_root host = {0};
    int code;
    if (load_cases(&cases, pin_input_argument(invocation, 1), &found) &&
        pin_input_load(&input, pin_input_argument(invocation, 0), &values->input, &found)) {
        (void)pin_cases_run(&cases, &input.reach, pin_input_root(&host, input.policy));
        bool good = !values->live || try_live(&cases, &input, invocation->arguments[0], values, &found);
        code = good ? print_cases(&cases, input.policy, values)
                    : pin_report_findings(&found, values->input.json);
    } else {
        code = pin_report_findings(&found, values->input.json);
    }
    pin_arena_free(&host.arena);
    pin_input_free(&input);
    return code;
}

const struct pin_verb pin_policy_verb_test = {
    .name = "policy test",
    .synopsis = "POLICY CASES.json",
    .summary = "unit tests for policies",
    .description = "CASES.json is a list of assertions, each with one of allow, deny, errno and kill, and a "
                   "question as\n"
                   "`pinfold policy why` takes it. Exit code 0: all hold; 1: some don't; 2: wrong usage, or "
                   "a file that\n"
                   "can't be read, or no sandbox for --live. What can't be tried is named on standard error.",
    .example =
        "  echo '[{\"deny\": \"connect 169.254.169.254:80\"}, {\"errno\": [\"EPERM\", \"syscall mount\"]},\n"
        "         {\"allow\": \"write /workspace/x\"}]' | pinfold policy test tool -",
    .options = options,
    .option_count = PIN_COUNT(options),
    .values_size = sizeof(struct test_options),
    .least_arguments = 2,
    .most_arguments = 2,
    .run = run_test,
};
