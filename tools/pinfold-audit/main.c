/* pinfold-audit: `pinfold audit VERB`. A program of its own in libexec, so that `pinfold run` carries only
 * what writes records. */
#include "base/names.h"
#include "tools/pinfold-audit/verbs.h"
#include "tools/pinfold/program.h"

static const struct pin_verb *const verbs[] = {
    &pin_audit_verb_show,        &pin_audit_verb_verify,       &pin_audit_verb_receipt_verify,
    &pin_audit_verb_receipt_key, &pin_audit_verb_receipt_sign, &pin_audit_verb_export,
};

int main(int argc, char **argv) {
    static const struct pin_program program = {
        .family = "audit",
        .about = "Reads and checks the audit log, and receipts.",
        .exits = "0 good; 1 something was found; 2 no answer.",
        .verbs = verbs,
        .count = PIN_COUNT(verbs),
        .refused = PIN_AUDIT_ERROR,
    };
    return pin_program_main(&program, argc, argv);
}
