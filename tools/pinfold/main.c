/* pinfold: finds the verb, and runs it here or in a program of its own, as git finds its commands. */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <malloc.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/names.h"
#include "runtime/host/libexec.h"
#include "tools/pinfold/program.h"
#include "tools/pinfold/report.h"
#include "tools/pinfold/verbs.h"

static const struct pin_verb *const verbs[] = {
    &pin_verb_run,           &pin_kept_verb_exec,    &pin_kept_verb_shell, &pin_verb_plan,
    &pin_verb_bundle_export, &pin_verb_bundle_check, &pin_verb_doctor,
};

static const struct pin_program_link links[] = {
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
    {"code",   "kept",   "run code in a context that keeps its variables"       },
    {"egress", "kept",   "what leaves a kept sandbox, and what may"             },
    {"cp",     "kept",   "copy files into or out of a kept sandbox"             },
    {"commit", "image",  "make an image of what a kept sandbox has changed"     },
    {"image",  "image",  "pull, import, list and remove images"                 },
    {"policy", "policy", "check, explain and compare policies"                  },
    {"tool",   "tool",   "call a function of a tool: a request in, a result out"},
    {"pool",   "tool",   "the sandboxes that wait for calls, and their bounds"  },
    {"config", "config", "stored configurations of tool calls"                  },
    {"env",    "config", "variables of stored configurations"                   },
    {"deps",   "deps",   "what requirements of tools have installed"            },
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

/* What the caller holds open already must not take what a set-up needs for a moment. */
static void take_all_descriptors(void) {
    struct rlimit files;
    if (getrlimit(RLIMIT_NOFILE, &files) != 0 || files.rlim_cur == files.rlim_max)
        return;
    files.rlim_cur = files.rlim_max;
    (void)setrlimit(RLIMIT_NOFILE, &files);
}

static int run_program(const char *name, char **argv) {
    char program[NAME_MAX], path[PATH_MAX];
    struct pin_error err = {0};
    (void)snprintf(program, sizeof(program), "pinfold-%s", name);
    if (pin_libexec_find(program, path, &err) && execv(path, argv) != 0)
        (void)pin_fail_errno(&err, "run '%s'", path);
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
    if (argc > 1 && strcmp(argv[1], "--version") == 0) {
        (void)puts("pinfold " PIN_VERSION);
        return pin_report_flush(0);
    }
    take_all_descriptors();
    static const struct pin_program program = {
        .about = "Runs untrusted tool code in a sandbox that a policy describes.",
        .verbs = verbs,
        .count = PIN_COUNT(verbs),
        .links = links,
        .link_count = PIN_COUNT(links),
        .run = run_program,
    };
    argv[0] = (char *)(uintptr_t) "pinfold"; /* whatever it was called by: no verb */
    return pin_program_main(&program, argc, argv);
}
