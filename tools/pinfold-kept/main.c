/* pinfold-kept: the verbs of kept sandboxes. `pinfold up` executes it with "up" as its name. */
#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "base/names.h"
#include "tools/pinfold-kept/verbs.h"
#include "tools/pinfold/report.h"

static const struct pin_verb *const verbs[] = {
    &pin_kept_verb_up,     &pin_kept_verb_ls,     &pin_kept_verb_show, &pin_kept_verb_stats,
    &pin_kept_verb_pause,  &pin_kept_verb_resume, &pin_kept_verb_stop, &pin_kept_verb_kill,
    &pin_kept_verb_rm,     &pin_kept_verb_wait,   &pin_kept_verb_logs, &pin_kept_verb_cp,
    &pin_kept_verb_attach, &pin_kept_verb_renew,
};

static const struct pin_verb *find(const char *name) {
    for (size_t i = 0; i < PIN_COUNT(verbs); i++)
        if (strcmp(verbs[i]->name, name) == 0)
            return verbs[i];
    return NULL;
}

int main(int argc, char **argv) {
    struct pin_error err = {0};
    (void)signal(SIGPIPE, SIG_IGN);
    if (argc >= 3 && strcmp(argv[1], "man") == 0 && find(argv[2]) != NULL) {
        pin_help_man(find(argv[2]), "pinfold", stdout);
        return 0;
    }
    /* "up NAME" from pinfold, "pinfold-kept up NAME" by hand */
    const struct pin_verb *verb = argc >= 1 ? find(argv[0]) : NULL;
    int words = 1;
    if (verb == NULL && argc >= 2) {
        verb = find(argv[1]);
        words = 2;
    }
    if (verb != NULL)
        return pin_verb_main(verb, argc - words, argv + words);
    (void)pin_fail(&err, PIN_ERROR_USAGE,
                   "pinfold-kept serves the verbs of kept sandboxes, and none was named");
    (void)pin_hint(&err, "see 'pinfold --help'");
    return pin_report(&err, false);
}
