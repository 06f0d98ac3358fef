/* pinfold-image: what `pinfold image …` runs. */
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "base/names.h"
#include "tools/pinfold-image/verbs.h"

static const struct pin_verb *const verbs[] = {
    &verb_pull, &verb_import, &verb_ls,     &verb_show,   &verb_tag,   &verb_rm,
    &verb_gc,   &verb_verify, &verb_export, &verb_commit, &verb_build,
};

static const char *short_name(const struct pin_verb *verb) {
    return strrchr(verb->name, ' ') + 1;
}

static void print_usage(FILE *to) {
    (void)fputs("usage: pinfold image VERB [options] …\n\nverbs:\n", to);
    for (size_t i = 0; i < PIN_COUNT(verbs); i++)
        (void)fprintf(to, "  %-8s %s\n", short_name(verbs[i]), verbs[i]->summary);
    (void)fputs("\n'pinfold image VERB --help' has the options and an example.\n", to);
}

static int unknown_verb(const char *name) {
    struct pin_error err = {0};
    const char *names[PIN_COUNT(verbs)];
    for (size_t i = 0; i < PIN_COUNT(verbs); i++)
        names[i] = short_name(verbs[i]);
    const char *near = pin_name_suggest(names, PIN_COUNT(verbs), name);
    (void)pin_fail(&err, PIN_ERROR_USAGE, "'pinfold image' has no verb '%.60s'", name);
    if (near != NULL)
        (void)pin_hint(&err, "did you mean '%s'?", near);
    else
        (void)pin_hint(&err, "see 'pinfold image --help'");
    return pin_report(&err, false);
}

int main(int argc, char **argv) {
    (void)umask(022); /* whatever the caller's: modes in the store are set explicitly, and must be possible */
    if (argc >= 1 && strcmp(argv[0], verb_sandbox_commit.name) == 0) /* `pinfold commit` */
        return pin_verb_main(&verb_sandbox_commit, argc - 1, argv + 1);
    if (argc < 2 || strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0) {
        print_usage(argc < 2 ? stderr : stdout);
        return argc < 2 ? PIN_REPORT_EXIT : 0;
    }
    for (size_t i = 0; i < PIN_COUNT(verbs); i++)
        if (strcmp(short_name(verbs[i]), argv[1]) == 0)
            return pin_verb_main(verbs[i], argc - 2, argv + 2);
    return unknown_verb(argv[1]);
}
