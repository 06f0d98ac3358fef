/* pinfold-image: what `pinfold image …` runs. */
#include <sys/stat.h>

#include "base/names.h"
#include "tools/pinfold-image/verbs.h"
#include "tools/pinfold/program.h"

static const struct pin_verb *const verbs[] = {
    &verb_pull, &verb_import, &verb_ls,     &verb_show,   &verb_tag,   &verb_rm,
    &verb_gc,   &verb_verify, &verb_export, &verb_commit, &verb_build, &verb_sandbox_commit,
};

int main(int argc, char **argv) {
    static const struct pin_program program = {
        .family = "image",
        .about = "Keeps images, and makes them.",
        .exits = "0 good; 125 refused or failed.",
        .verbs = verbs,
        .count = PIN_COUNT(verbs),
    };
    (void)umask(022); /* whatever the caller's: modes in the store are set explicitly, and must be possible */
    return pin_program_main(&program, argc, argv);
}
