#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <linux/close_range.h>

#include "base/names.h"
#include "tools/pinfold-oci/cli.h"
#include "tools/pinfold-oci/help.h"
#include "tools/pinfold-oci/log.h"
#include "tools/pinfold-oci/sealed.h"

static int not_offered(const struct pin_oci_options *options, char **arguments, size_t count) {
    struct pin_error err = {0};
    (void)arguments;
    (void)count;
    (void)pin_fail(&err, PIN_ERROR_UNSUPPORTED, "checkpoint and restore are not offered");
    return pin_oci_fail(options, &err);
}

/* clang-format off */
const struct pin_oci_verb pin_oci_verbs[] = {
    {"create", "ID", "make a container, which waits for its start",
     "  pinfold-oci create --bundle ./bundle --pid-file ./pid one", 1, 1, pin_oci_create},
    {"start", "ID", "execute what a created container is for",
     "  pinfold-oci start one", 1, 1, pin_oci_start},
    {"run", "ID", "create and start",
     "  pinfold-oci run --bundle ./bundle one", 1, 1, pin_oci_run},
    {"exec", "ID [CMD [ARG…]]", "one more process in a container",
     "  pinfold-oci exec --user 1000:1000 --cwd /tmp one sh -c 'id; pwd'", 1, SIZE_MAX, pin_oci_exec},
    {"kill", "ID [SIGNAL]", "send a signal (TERM)",
     "  pinfold-oci kill one KILL", 1, 2, pin_oci_kill},
    {"delete", "ID", "remove a container that has ended",
     "  pinfold-oci delete --force one", 1, 1, pin_oci_delete},
    {"state", "ID", "print the state as JSON",
     "  pinfold-oci state one", 1, 1, pin_oci_state},
    {"list", "", "print all containers",
     "  pinfold-oci list --format json", 0, 0, pin_oci_list},
    {"ps", "ID [WORD…]", "print the processes of a container; WORD is ps's own (-ef)",
     "  pinfold-oci ps --format json one; pinfold-oci ps one -eo pid,args", 1, SIZE_MAX, pin_oci_ps},
    {"pause", "ID", "stop every process of a container",
     "  pinfold-oci pause one", 1, 1, pin_oci_pause},
    {"resume", "ID", "let them go on",
     "  pinfold-oci resume one", 1, 1, pin_oci_resume},
    {"update", "ID", "change the limits of a container",
     "  pinfold-oci update --memory 67108864 --pids-limit 50 one\n"
     "  echo '{\"cpu\": {\"shares\": 512}}' | pinfold-oci update --resources - one", 1, 1, pin_oci_update},
    {"events", "ID", "print what a container uses",
     "  pinfold-oci events --stats one", 1, 1, pin_oci_events},
    {"spec", "", "write a config.json to begin with",
     "  pinfold-oci spec --bundle ./bundle", 0, 0, pin_oci_spec},
    {"features", "", "print what this runtime can do, as JSON",
     "  pinfold-oci features", 0, 0, pin_oci_features},
    {"checkpoint", "ID", "not offered",
     NULL, 0, SIZE_MAX, not_offered},
    {"restore", "ID", "not offered",
     NULL, 0, SIZE_MAX, not_offered},
    {"man", "[VERB]", "print a man page",
     "  pinfold-oci man create | man -l -", 0, 1, pin_oci_man},
    {"pages", "DIR", "write the man pages to a directory",
     "  pinfold-oci pages /usr/local/share/man/man1", 1, 1, pin_oci_pages},
    {"completion", "", "print the completion for bash",
     "  source <(pinfold-oci completion)", 0, 0, pin_oci_completion},
};
/* clang-format on */
const size_t pin_oci_verb_count = PIN_COUNT(pin_oci_verbs);

const struct pin_oci_verb *pin_oci_find_verb(const char *name) {
    for (size_t i = 0; i < PIN_COUNT(pin_oci_verbs); i++)
        if (strcmp(pin_oci_verbs[i].name, name) == 0)
            return &pin_oci_verbs[i];
    return NULL;
}

static bool meets_containers(const char *verb) {
    return strcmp(verb, "create") == 0 || strcmp(verb, "run") == 0 || strcmp(verb, "exec") == 0;
}

static int print_version(void) {
    (void)printf("pinfold-oci version %s\ncommit: %s\nspec: 1.2.0\n", PIN_VERSION, PIN_VERSION);
    return 0;
}

static int run_verb(const struct pin_oci_verb *verb, int argc, char **argv, struct pin_oci_options *options) {
    struct pin_error err = {0};
    size_t count = 0;
    bool offered = verb->run != not_offered; /* whatever its options, of which we know none */
    if (!pin_oci_parse_verb(verb, argc, argv, options, &count, &err) && offered)
        return pin_oci_fail(options, &err);
    if (options->help) {
        pin_oci_print_help(verb);
        return !offered; /* podman asks so what isn't there */
    }
    return verb->run(options, argv, count);
}

int main(int argc, char **argv) {
    static struct pin_oci_options options;
    struct pin_error err = {0};
    int used = 0;
    if (!pin_oci_parse_global(argc - 1, argv + 1, &options, &used, &err))
        return pin_oci_fail(&options, &err);
    if (options.version)
        return print_version();
    const char *name = argv[1 + used];
    if (options.help || name == NULL) {
        pin_oci_print_help(NULL);
        return options.help ? 0 : 1;
    }
    const struct pin_oci_verb *verb = pin_oci_find_verb(name);
    if (verb == NULL) {
        (void)pin_fail(&err, PIN_ERROR_USAGE, "no help topic for '%.64s'", name);
        return pin_oci_fail(&options, &err);
    }
    if (meets_containers(name) && !pin_seal_self(argv, environ, &err))
        return pin_oci_fail(&options, &err);
    /* what an engine has left open is neither a hook's nor the container's affair; after the line above,
     * since what is to be kept must get through it */
    (void)syscall(SYS_close_range, 3, ~0u, CLOSE_RANGE_CLOEXEC);
    return run_verb(verb, argc - 2 - used, argv + 2 + used, &options);
}
