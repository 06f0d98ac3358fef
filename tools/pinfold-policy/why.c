#include "policy/audit/why.h"
#include "base/names.h"
#include "tools/pinfold-policy/input.h"
#include "tools/pinfold-policy/verbs.h"
#include "tools/pinfold/report.h"

static const struct pin_option options[] = {PIN_INPUT_ROWS};

static int print_answer(const struct pin_input *input, const struct pin_question *question,
                        struct pin_arena *arena, bool json) {
    struct pin_input_root host = {0};
    struct pin_buffer text = {0};
    struct pin_answer answer = pin_why(&input->reach, question, pin_input_root(&host, input->policy), arena);
    int code = pin_answer_allows(&answer) ? PIN_AUDIT_GOOD : PIN_AUDIT_BAD;
    if (json) {
        code = pin_output_json(pin_answer_json(question, &answer), code);
    } else {
        pin_answer_print(&text, question, &answer);
        code = pin_output_text(&text, code);
    }
    pin_arena_free(&host.arena);
    return code;
}

static int run_why(const struct pin_invocation *invocation) {
    const struct pin_input_options *values = invocation->values;
    PIN_ARENA struct pin_arena arena = {0};
    struct pin_findings found = {0};
    struct pin_error err = {0};
    struct pin_input input = {0};
    struct pin_question question;
    int code;
    const char *const *words = (const char *const *)invocation->arguments;
    if (!pin_question_parse(&question, &arena, words + 1, invocation->argument_count - 1, &err))
        return pin_report(&err, values->json);
    if (pin_input_load(&input, pin_input_argument(invocation, 0), values, &found))
        code = print_answer(&input, &question, &arena, values->json);
    else
        code = pin_report_findings(&found, values->json);
    pin_input_free(&input);
    return code;
}

const struct pin_verb pin_policy_verb_why = {
    .name = "policy why",
    .synopsis = "POLICY QUESTION…",
    .options_end = 2,
    .summary = "may it do that, and which line says so?",
    .description =
        "Questions:\n"
        "  connect HOST:PORT[/udp] [ADDRESS]   ADDRESS: what the name resolves to\n"
        "  write PATH        read PATH         absolute, inside the sandbox\n"
        "  syscall NAME [ARG…]                 numbers, or names such as AF_INET|0 and CLONE_NEWUSER\n"
        "  secret NAME       limit NAME [VALUE]       publish PORT=PLACE\n"
        "The answer comes from the code that enforces, and names the rule and its place; for a denial also\n"
        "the smallest edit that would allow it, as a fragment for a policy that extends this one. Exit code\n"
        "0: allowed; 1: denied, or it depends on arguments that aren't given." PIN_INPUT_EXITS,
    .example = "  pinfold policy why tool connect api.example.com:443\n"
               "  pinfold policy why tool syscall socket AF_INET SOCK_STREAM 0",
    .options = options,
    .option_count = PIN_COUNT(options),
    .values_size = sizeof(struct pin_input_options),
    .least_arguments = 2,
    .most_arguments = 16,
    .run = run_why,
};
