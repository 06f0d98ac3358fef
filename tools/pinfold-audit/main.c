/* pinfold-audit: `pinfold audit VERB`. A program of its own in libexec, so that `pinfold run` carries only
 * what writes records. */
#include <stdio.h>
#include <string.h>

#include "base/names.h"
#include "tools/pinfold-audit/verbs.h"
#include "tools/pinfold/report.h"

static const struct pin_verb *const verbs[] = {
    &pin_audit_verb_show,        &pin_audit_verb_verify,       &pin_audit_verb_receipt_verify,
    &pin_audit_verb_receipt_key, &pin_audit_verb_receipt_sign,
};

static void print_usage(FILE *to) {
    (void)fputs("usage: pinfold audit VERB [options] …\n\nReads and checks the audit log.\n\nverbs:\n", to);
    for (size_t i = 0; i < PIN_COUNT(verbs); i++)
        (void)fprintf(to, "  %-15s %s\n", verbs[i]->name + strlen("audit "), verbs[i]->summary);
    (void)fputs("\nexit codes: 0 good; 1 something was found; 2 no answer.\n"
                "'pinfold audit VERB --help' has the options and an example.\n",
                to);
}

/* A verb's name may have several words: "audit receipt verify". */
static const struct pin_verb *find_verb(int argc, char **argv, int *words) {
    for (size_t i = 0; i < PIN_COUNT(verbs); i++) {
        const char *name = verbs[i]->name + strlen("audit ");
        const char *space = strchr(name, ' ');
        size_t first = space != NULL ? (size_t)(space - name) : strlen(name);
        *words = space != NULL ? 2 : 1;
        if (argc >= *words && strlen(argv[0]) == first && memcmp(argv[0], name, first) == 0 &&
            (space == NULL || strcmp(argv[1], space + 1) == 0))
            return verbs[i];
    }
    return NULL;
}

static int unknown_verb(const char *name) {
    struct pin_error err = {0};
    const char *names[PIN_COUNT(verbs)];
    for (size_t i = 0; i < PIN_COUNT(verbs); i++)
        names[i] = verbs[i]->name + strlen("audit ");
    const char *near = pin_name_suggest(names, PIN_COUNT(names), name);
    (void)pin_fail(&err, PIN_ERROR_USAGE, "there is no verb 'audit %.60s'", name);
    if (near != NULL)
        (void)pin_hint(&err, "did you mean '%s'?", near);
    else
        (void)pin_hint(&err, "see 'pinfold audit --help'");
    (void)pin_report(&err, false);
    return PIN_AUDIT_ERROR;
}

int main(int argc, char **argv) {
    int words;
    if (argc < 2) {
        print_usage(stderr);
        return PIN_AUDIT_ERROR;
    }
    const char *name = argv[1];
    if (strcmp(name, "--help") == 0 || strcmp(name, "-h") == 0 || strcmp(name, "help") == 0) {
        print_usage(stdout);
        return PIN_AUDIT_GOOD;
    }
    if (strcmp(name, "completion") == 0) {
        pin_help_completion(verbs, PIN_COUNT(verbs), "pinfold", stdout);
        return PIN_AUDIT_GOOD;
    }
    bool man = strcmp(name, "man") == 0 && argc > 2;
    const struct pin_verb *verb = find_verb(argc - 1 - man, argv + 1 + man, &words);
    if (verb == NULL)
        return unknown_verb(argv[1 + man]);
    if (man) {
        pin_help_man(verb, "pinfold", stdout);
        return PIN_AUDIT_GOOD;
    }
    int code = pin_verb_main(verb, argc - 1 - words, argv + 1 + words);
    return code == PIN_REPORT_EXIT ? PIN_AUDIT_ERROR : code;
}
