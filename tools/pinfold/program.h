/* program.h: from a command line to a verb, for `pinfold` and for each of the programs in libexec that it
 * runs.
 *
 * A verb is named by one to three words ("run", "policy lint", "audit receipt verify"). `pinfold policy lint`
 * executes pinfold-policy with "policy" as its name; by hand it is `pinfold-policy lint`. Besides its verbs
 * every program knows --help, `man WORDS…`, `completion` (of pinfold: for bash; of the others: their lines of
 * it) and `pages DIR`, which writes a man page for each verb.
 */
#pragma once

#include <stddef.h>

#include "tools/pinfold/options.h"

struct pin_program_link {
    const char *verb, *program, *summary;
};

struct pin_program {
    const char *
        family; /* first word of its verbs (where there are several, of those that are meant by hand); NULL */
    const char *about; /* one sentence */
    const char *exits; /* what its exit codes mean; NULL: those of a run */
    const struct pin_verb *const *verbs;
    size_t count;
    int refused; /* the exit code where pinfold itself refuses or fails; 0: PIN_REPORT_EXIT */
    /* Verbs of other programs, by their first word; NULL: none. `run` executes one, or returns an error's
     * code. */
    const struct pin_program_link *links;
    size_t link_count;
    int (*run)(const char *program, char **argv);
};

/* The whole life of a program: its exit code. */
int pin_program_main(const struct pin_program *program, int argc, char **argv);
