/* pinfold-policy: `pinfold policy VERB`, the auditor. A program of its own in libexec, so that `pinfold run`
 * carries none of it. */
#include "base/names.h"
#include "tools/pinfold-policy/input.h"
#include "tools/pinfold-policy/verbs.h"
#include "tools/pinfold/program.h"

static const struct pin_verb *const verbs[] = {
    &pin_policy_verb_show,  &pin_policy_verb_lint,   &pin_policy_verb_score, &pin_policy_verb_explain,
    &pin_policy_verb_diff,  &pin_policy_verb_why,    &pin_policy_verb_test,  &pin_policy_verb_syscalls,
    &pin_policy_verb_trace, &pin_policy_verb_schema,
};

int main(int argc, char **argv) {
    static const struct pin_program program = {
        .family = "policy",
        .about = "Reads, checks, explains, compares and tests policies.",
        .exits = "0 good; 1 findings, denied, wider or failed; 2 no answer.",
        .verbs = verbs,
        .count = PIN_COUNT(verbs),
        .refused = PIN_AUDIT_ERROR,
    };
    return pin_program_main(&program, argc, argv);
}
