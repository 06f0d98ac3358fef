#include "tools/pinfold-oci/help.h"

#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "tools/pinfold-oci/log.h"

#define PROGRAM "pinfold-oci"

static const char exits[] =
    "0; 1 where the runtime refuses or fails (exec: 255). run and exec in the foreground: the process's "
    "own,\n128+N when signal N ended it.";

struct page { /* a verb in the words of the help library */
    struct pin_option options[PIN_OCI_OPTIONS_MAX];
    struct pin_verb verb;
};

static const struct pin_verb *describe(struct page *page, const struct pin_oci_verb *verb) {
    page->verb = (struct pin_verb){
        .name = verb->name,
        .synopsis = verb->synopsis,
        .summary = verb->summary,
        .example = verb->example,
        .options = page->options,
        .option_count = pin_oci_list_options(verb->name, page->options, PIN_OCI_OPTIONS_MAX),
    };
    return &page->verb;
}

/* The program itself, with the options that stand before the verb. */
static const struct pin_verb *describe_program(struct page *page) {
    page->verb = (struct pin_verb){
        .name = "",
        .synopsis = "VERB …",
        .summary = "runs OCI bundles for container engines",
        .description = "Speaks the command line of OCI runtimes. Each verb has a page of its own; "
                       "docs/engines.md has the "
                       "configuration of each\nengine, what a bundle may ask for under a policy and what "
                       "differs from other "
                       "runtimes.",
        .example = "  podman --runtime /usr/bin/pinfold-oci run --rm IMAGE echo hi",
        .options = page->options,
        .option_count = pin_oci_list_options(NULL, page->options, PIN_OCI_OPTIONS_MAX),
    };
    return &page->verb;
}

void pin_oci_print_help(const struct pin_oci_verb *verb) {
    struct page page;
    if (verb != NULL) {
        pin_help_print(describe(&page, verb), PROGRAM, stdout);
        return;
    }
    pin_help_print(describe_program(&page), PROGRAM, stdout);
    (void)printf("\nverbs:\n");
    for (size_t i = 0; i < pin_oci_verb_count; i++)
        (void)printf("  %-10s  %s\n", pin_oci_verbs[i].name, pin_oci_verbs[i].summary);
    (void)printf("\n'" PROGRAM " VERB --help' has the options and an example.\n");
}

static void print_page(const struct pin_oci_verb *verb, FILE *to) {
    struct page page;
    pin_help_man(verb != NULL ? describe(&page, verb) : describe_program(&page), PROGRAM, exits, to);
}

int pin_oci_man(const struct pin_oci_options *options, char **arguments, size_t count) {
    struct pin_error err = {0};
    const struct pin_oci_verb *verb = count > 0 ? pin_oci_find_verb(arguments[0]) : NULL;
    if (count > 0 && verb == NULL) {
        (void)pin_fail(&err, PIN_ERROR_USAGE, "no help topic for '%.64s'", arguments[0]);
        return pin_oci_fail(options, &err);
    }
    print_page(verb, stdout);
    return 0;
}

int pin_oci_completion(const struct pin_oci_options *options, char **arguments, size_t count) {
    struct page page;
    (void)options;
    (void)arguments;
    (void)count;
    pin_help_completion_head(PROGRAM, stdout);
    for (size_t i = 0; i < pin_oci_verb_count; i++)
        pin_help_completion_verb(describe(&page, &pin_oci_verbs[i]), stdout);
    pin_help_completion_tail(PROGRAM, stdout);
    return 0;
}

static bool write_page(int folder, const struct pin_oci_verb *verb) {
    char name[64];
    (void)snprintf(name, sizeof(name), PROGRAM "%s%s.1", verb != NULL ? "-" : "",
                   verb != NULL ? verb->name : "");
    int fd = openat(folder, name, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
    FILE *to = fd < 0 ? NULL : fdopen(fd, "w");
    if (to == NULL)
        return false;
    print_page(verb, to);
    return fclose(to) == 0;
}

int pin_oci_pages(const struct pin_oci_options *options, char **arguments, size_t count) {
    struct pin_error err = {0};
    PIN_CLOSE int folder = open(arguments[0], O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    bool ok = folder >= 0 && write_page(folder, NULL);
    (void)count;
    for (size_t i = 0; ok && i < pin_oci_verb_count; i++)
        ok = write_page(folder, &pin_oci_verbs[i]);
    if (ok)
        return 0;
    (void)pin_fail_errno(&err, "write pages in '%s'", arguments[0]);
    return pin_oci_fail(options, &err);
}
