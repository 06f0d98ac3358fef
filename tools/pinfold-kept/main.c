/* pinfold-kept: the verbs of kept sandboxes. `pinfold up` executes it with "up" as its name. */
#include "base/names.h"
#include "tools/pinfold-kept/verbs.h"
#include "tools/pinfold/program.h"

static const struct pin_verb *const verbs[] = {
    &pin_kept_verb_up,     &pin_kept_verb_ls,     &pin_kept_verb_show,  &pin_kept_verb_stats,
    &pin_kept_verb_pause,  &pin_kept_verb_resume, &pin_kept_verb_stop,  &pin_kept_verb_kill,
    &pin_kept_verb_rm,     &pin_kept_verb_wait,   &pin_kept_verb_logs,  &pin_kept_verb_cp,
    &pin_kept_verb_egress, &pin_kept_verb_attach, &pin_kept_verb_renew, &pin_kept_verb_code,
};

int main(int argc, char **argv) {
    static const struct pin_program program = {
        .about = "Serves kept sandboxes.",
        .verbs = verbs,
        .count = PIN_COUNT(verbs),
    };
    return pin_program_main(&program, argc, argv);
}
