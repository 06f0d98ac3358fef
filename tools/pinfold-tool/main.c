/* pinfold-tool: `pinfold tool VERB`. A program of its own in libexec, so that `pinfold run` carries none of
 * it. */
#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "tools/pinfold-tool/verbs.h"
#include "tools/pinfold/report.h"

static void print_usage(FILE *to) {
    (void)fputs("usage: pinfold tool VERB [options] …\n\nCalls functions of tools in sandboxes.\n\nverbs:\n"
                "  call      run one function once: a request in, a result out\n"
                "\n'pinfold tool VERB --help' has the options and an example.\n",
                to);
}

int main(int argc, char **argv) {
    (void)signal(SIGPIPE, SIG_IGN);
    const struct pin_verb *verb = &pin_tool_verb_call;
    if (argc < 2) {
        print_usage(stderr);
        return PIN_REPORT_EXIT;
    }
    if (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0 || strcmp(argv[1], "help") == 0) {
        print_usage(stdout);
        return 0;
    }
    if (strcmp(argv[1], "completion") == 0) {
        pin_help_completion(&verb, 1, "pinfold", stdout);
        return 0;
    }
    if (strcmp(argv[1], "man") == 0 && argc == 3 && strcmp(argv[2], "call") == 0) {
        pin_help_man(verb, "pinfold", stdout);
        return 0;
    }
    if (strcmp(argv[1], "call") == 0)
        return pin_verb_main(verb, argc - 2, argv + 2);
    struct pin_error err = {0};
    (void)pin_fail(&err, PIN_ERROR_USAGE, "there is no verb 'tool %.60s'", argv[1]);
    (void)pin_hint(&err, "see 'pinfold tool --help'");
    return pin_report(&err, false);
}
