/* pinfold-policy: `pinfold policy VERB`, the auditor. A program of its own in libexec, so that `pinfold run`
 * carries none of it. */
#include <stdio.h>
#include <string.h>

#include "base/names.h"
#include "tools/pinfold-policy/input.h"
#include "tools/pinfold-policy/verbs.h"
#include "tools/pinfold/report.h"

static const struct pin_verb *const verbs[] = {
    &pin_policy_verb_show,    &pin_policy_verb_lint,     &pin_policy_verb_score,
    &pin_policy_verb_explain, &pin_policy_verb_diff,     &pin_policy_verb_why,
    &pin_policy_verb_test,    &pin_policy_verb_syscalls, &pin_policy_verb_schema,
};

/* "lint" of "policy lint" */
static const char *word_of(const struct pin_verb *verb) {
    return verb->name + strlen("policy ");
}

static void print_usage(FILE *to) {
    (void)fputs("usage: pinfold policy VERB [options] …\n\nReads, checks, explains, compares and tests "
                "policies.\n\nverbs:\n",
                to);
    for (size_t i = 0; i < PIN_COUNT(verbs); i++)
        (void)fprintf(to, "  %-9s %s\n", word_of(verbs[i]), verbs[i]->summary);
    (void)fputs("\nexit codes: 0 good; 1 findings, denied, wider or failed; 2 no answer.\n"
                "'pinfold policy VERB --help' has the options and an example.\n",
                to);
}

static int unknown_verb(const char *name) {
    struct pin_error err = {0};
    const char *names[PIN_COUNT(verbs)];
    for (size_t i = 0; i < PIN_COUNT(verbs); i++)
        names[i] = word_of(verbs[i]);
    const char *near = pin_name_suggest(names, PIN_COUNT(names), name);
    (void)pin_fail(&err, PIN_ERROR_USAGE, "there is no verb 'policy %.60s'", name);
    if (near != NULL)
        (void)pin_hint(&err, "did you mean '%s'?", near);
    else
        (void)pin_hint(&err, "see 'pinfold policy --help'");
    (void)pin_report(&err, false);
    return PIN_AUDIT_ERROR;
}

int main(int argc, char **argv) {
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
    bool man = strcmp(name, "man") == 0 && argc == 3;
    for (size_t i = 0; i < PIN_COUNT(verbs); i++) {
        if (strcmp(word_of(verbs[i]), man ? argv[2] : name) != 0)
            continue;
        if (man) {
            pin_help_man(verbs[i], "pinfold", stdout);
            return PIN_AUDIT_GOOD;
        }
        int code = pin_verb_main(verbs[i], argc - 2, argv + 2);
        return code == PIN_REPORT_EXIT ? PIN_AUDIT_ERROR : code;
    }
    return unknown_verb(man ? argv[2] : name);
}
