/* pinfold: finds the verb, and runs it here or in a program of its own, as git finds its commands. */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <malloc.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/names.h"
#include "base/text.h"
#include "tools/pinfold/report.h"
#include "tools/pinfold/verbs.h"

static const struct pin_verb *const verbs[] = {
    &pin_verb_run,           &pin_kept_verb_exec,    &pin_kept_verb_shell, &pin_verb_plan,
    &pin_verb_bundle_export, &pin_verb_bundle_check, &pin_verb_doctor,
};

struct program {
    const char *verb, *program, *summary; /* pinfold-PROGRAM */
};

static const struct program programs[] = {
    {"up",     "kept",   "make a sandbox that stays, for 'exec'"                },
    {"logs",   "kept",   "what the commands of a kept sandbox have printed"     },
    {"ls",     "kept",   "list kept sandboxes"                                  },
    {"show",   "kept",   "what a kept sandbox is and does"                      },
    {"stats",  "kept",   "what a kept sandbox has used"                         },
    {"pause",  "kept",   "freeze all processes of a kept sandbox"               },
    {"resume", "kept",   "let a paused sandbox go on"                           },
    {"stop",   "kept",   "end kept sandboxes: TERM, and KILL after a while"     },
    {"kill",   "kept",   "end kept sandboxes at once"                           },
    {"wait",   "kept",   "wait for the end of a kept sandbox, or of a command"  },
    {"rm",     "kept",   "remove what an ended sandbox has left"                },
    {"renew",  "kept",   "let a kept sandbox live longer"                       },
    {"attach", "kept",   "see, and type to, a command of a kept sandbox"        },
    {"cp",     "kept",   "copy files into or out of a kept sandbox"             },
    {"commit", "image",  "make an image of what a kept sandbox has changed"     },
    {"image",  "image",  "pull, import, list and remove images"                 },
    {"policy", "policy", "check, explain and compare policies"                  },
    {"tool",   "tool",   "call a function of a tool: a request in, a result out"},
    {"config", "config", "stored configurations of tool calls"                  },
    {"env",    "config", "variables of stored configurations"                   },
    {"audit",  "audit",  "read and verify the audit log"                        },
};

/* A caller may have closed 0, 1 or 2: what is opened next must not take their places. */
static bool hold_standard_descriptors(void) {
    int fd;
    do
        fd = open("/dev/null", O_RDWR | O_CLOEXEC);
    while (fd >= 0 && fd <= STDERR_FILENO);
    return fd >= 0 && close(fd) == 0;
}

static void print_usage(FILE *to) {
    (void)fputs("usage: pinfold VERB [options] …\n\nRuns untrusted tool code in a sandbox that a policy "
                "describes.\n\nverbs:\n",
                to);
    for (size_t i = 0; i < PIN_COUNT(verbs); i++)
        (void)fprintf(to, "  %-14s %s\n", verbs[i]->name, verbs[i]->summary);
    for (size_t i = 0; i < PIN_COUNT(programs); i++)
        (void)fprintf(to, "  %-14s %s\n", programs[i].verb, programs[i].summary);
    (void)fputs("\n'pinfold VERB --help' has the options and an example.\n", to);
}

static int unknown_verb(const char *name) {
    struct pin_error err = {0};
    const char *names[PIN_COUNT(verbs) + PIN_COUNT(programs)];
    size_t count = 0;
    for (size_t i = 0; i < PIN_COUNT(verbs); i++)
        names[count++] = verbs[i]->name;
    for (size_t i = 0; i < PIN_COUNT(programs); i++)
        names[count++] = programs[i].verb;
    const char *near = pin_name_suggest(names, count, name);
    (void)pin_fail(&err, PIN_ERROR_USAGE, "there is no verb '%.60s'", name);
    if (near != NULL)
        (void)pin_hint(&err, "did you mean '%s'?", near);
    else
        (void)pin_hint(&err, "see 'pinfold --help'");
    return pin_report(&err, false);
}

/* A verb is one word or two, "plan" or "bundle export"; *words is how many. */
static const struct pin_verb *find_verb(int argc, char **argv, int *words) {
    for (size_t i = 0; i < PIN_COUNT(verbs); i++) {
        const char *name = verbs[i]->name, *space = strchr(name, ' ');
        size_t first = space != NULL ? (size_t)(space - name) : strlen(name);
        *words = space != NULL ? 2 : 1;
        if (argc >= *words && strlen(argv[0]) == first && memcmp(argv[0], name, first) == 0 &&
            (space == NULL || strcmp(argv[1], space + 1) == 0))
            return verbs[i];
    }
    return NULL;
}

/* pinfold-NAME beside this program in the build tree, or in libexec where it is installed. */
static int run_program(const char *name, char **argv) {
    char path[PATH_MAX], self[PATH_MAX];
    ssize_t length = readlink("/proc/self/exe", self, sizeof(self) - 1);
    char *slash = length > 0 ? memrchr(self, '/', (size_t)length) : NULL;
    if (slash != NULL) {
        *slash = '\0';
        if (snprintf(path, sizeof(path), "%s/pinfold-%s", self, name) < (int)sizeof(path))
            (void)execv(path, argv);
        if (snprintf(path, sizeof(path), "%s/../pinfold-%s/pinfold-%s", self, name, name) < (int)sizeof(path))
            (void)execv(path, argv);
    }
    (void)snprintf(path, sizeof(path), "%s/pinfold-%s", PIN_LIBEXEC, name);
    (void)execv(path, argv);
    struct pin_error err = {0};
    (void)pin_fail_errno(&err, "run 'pinfold-%s'", name);
    (void)pin_hint(&err, "it belongs in %s", PIN_LIBEXEC);
    return pin_report(&err, false);
}

int main(int argc, char **argv) {
    /* a run lives for milliseconds: one step of the heap instead of ten, and no giving back */
#ifdef M_TRIM_THRESHOLD
    (void)mallopt(M_TOP_PAD, 256 * 1024);
    (void)mallopt(M_TRIM_THRESHOLD, 64 * 1024 * 1024);
#endif
    if (argc < 1 || !hold_standard_descriptors()) {
        (void)fputs("pinfold: there is no argument or no room for a descriptor\n", stderr);
        return PIN_REPORT_EXIT;
    }
    (void)signal(SIGPIPE, SIG_IGN);
    if (argc < 2) {
        print_usage(stderr);
        return PIN_REPORT_EXIT;
    }
    const char *name = argv[1];
    if (strcmp(name, "--help") == 0 || strcmp(name, "-h") == 0 || strcmp(name, "help") == 0) {
        print_usage(stdout);
        return 0;
    }
    if (strcmp(name, "--version") == 0) {
        (void)puts("pinfold " PIN_VERSION);
        return 0;
    }
    if (strcmp(name, "completion") == 0) {
        pin_help_completion(verbs, PIN_COUNT(verbs), "pinfold", stdout);
        return 0;
    }
    if (strcmp(name, "man") == 0 && argc > 2) {
        int wide;
        const struct pin_verb *page = find_verb(argc - 2, argv + 2, &wide);
        if (page == NULL)
            return unknown_verb(argv[2]);
        pin_help_man(page, "pinfold", stdout);
        return 0;
    }
    int words;
    const struct pin_verb *verb = find_verb(argc - 1, argv + 1, &words);
    if (verb != NULL)
        return pin_verb_main(verb, argc - 1 - words, argv + 1 + words);
    for (size_t i = 0; i < PIN_COUNT(programs); i++)
        if (strcmp(programs[i].verb, name) == 0)
            return run_program(programs[i].program, argv + 1);
    return unknown_verb(name);
}
