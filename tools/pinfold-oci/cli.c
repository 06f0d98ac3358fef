#include "tools/pinfold-oci/cli.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/names.h"

enum type { FLAG, TEXT, LIST };

struct row {
    const char *verbs; /* " create run "; "" is global */
    const char *name;
    char letter;
    enum type type;
    size_t offset;
    const char *help;
};

#define ROW(verbs, name, letter, type, member, help)                                                         \
    { verbs, name, letter, type, offsetof(struct pin_oci_options, member), help }

static const struct row rows[] = {
    ROW("", "root", 0, TEXT, root, "where the containers' state is kept"),
    ROW("", "log", 0, TEXT, log, "append messages to this file"),
    ROW("", "log-format", 0, TEXT, log_format, "text or json"),
    ROW("", "systemd-cgroup", 0, FLAG, systemd_cgroup, "have systemd make the cgroups"),
    ROW("", "cgroup-manager", 0, TEXT, cgroup_manager, "cgroupfs, systemd or disabled"),
    ROW("", "rootless", 0, TEXT, rootless, "auto, true or false; it is found out"),
    ROW("", "policy", 0, TEXT, policy, "the policy that no bundle may go beyond"),
    ROW("", "criu", 0, TEXT, criu, "not offered; taken for callers that always give it"),
    ROW("", "debug", 0, FLAG, debug, "more messages"),
    ROW("", "version", 'v', FLAG, version, "print the version"),
    ROW("", "help", 'h', FLAG, help, "print this"),
    ROW(" create run spec ", "bundle", 'b', TEXT, bundle, "the directory of config.json (.)"),
    ROW(" create run exec ", "console-socket", 0, TEXT, console_socket,
        "where the terminal's master is sent"),
    ROW(" create run exec ", "pid-file", 0, TEXT, pid_file, "write the process's number here"),
    ROW(" create run exec ", "preserve-fds", 0, TEXT, preserve_fds, "keep N descriptors from 3 on"),
    ROW(" create run ", "no-pivot", 0, FLAG, no_pivot, "change the root by chroot(2), on a ramfs"),
    ROW(" create run ", "no-new-keyring", 0, FLAG, no_new_keyring, "keep the caller's session keyring"),
    ROW(" run ", "no-subreaper", 0, FLAG, no_subreaper, "taken and needless: nothing is reaped"),
    ROW(" run ", "keep", 0, FLAG, keep, "don't delete the container after it has ended"),
    ROW(" run exec ", "detach", 'd', FLAG, detach, "don't wait for the process"),
    ROW(" exec ", "process", 'p', TEXT, process, "a file with the process, as config.json has it"),
    ROW(" exec ", "tty", 't', FLAG, tty, "give it a terminal"),
    ROW(" exec ", "user", 'u', TEXT, user, "UID[:GID]"),
    ROW(" exec ", "additional-gids", 'g', LIST, additional_gids, "one more group"),
    ROW(" exec ", "cwd", 0, TEXT, cwd, "the working directory"),
    ROW(" exec ", "env", 'e', LIST, env, "NAME=VALUE"),
    ROW(" exec ", "cap", 'c', LIST, cap, "one more capability"),
    ROW(" exec ", "no-new-privs", 0, FLAG, no_new_privs, "it may gain no privileges"),
    ROW(" exec ", "apparmor", 0, TEXT, apparmor, "its AppArmor profile"),
    ROW(" exec ", "process-label", 0, TEXT, process_label, "its SELinux label"),
    ROW(" exec ", "cgroup", 0, TEXT, cgroup, "not offered"),
    ROW(" exec ", "ignore-paused", 0, FLAG, ignore_paused, "also in a paused container"),
    ROW(" kill ", "all", 'a', FLAG, all, "signal every process of the container"),
    ROW(" delete ", "force", 'f', FLAG, force, "kill it if it runs"),
    ROW(" list ps ", "format", 'f', TEXT, format, "table or json"),
    ROW(" list ", "quiet", 'q', FLAG, quiet, "names alone"),
    ROW(" events ", "stats", 0, FLAG, stats, "print the figures once"),
    ROW(" events ", "interval", 0, TEXT, interval, "time between two figures (5s)"),
    ROW(" update ", "resources", 'r', TEXT, resources, "a file as linux.resources has it, or -"),
    ROW(" update ", "memory", 0, TEXT, memory, "bytes"),
    ROW(" update ", "memory-reservation", 0, TEXT, memory_reservation, "bytes"),
    ROW(" update ", "memory-swap", 0, TEXT, memory_swap, "bytes, with the memory; -1: no limit"),
    ROW(" update ", "cpu-period", 0, TEXT, cpu_period, "microseconds"),
    ROW(" update ", "cpu-quota", 0, TEXT, cpu_quota, "microseconds a period"),
    ROW(" update ", "cpu-burst", 0, TEXT, cpu_burst, "microseconds"),
    ROW(" update ", "cpu-share", 0, TEXT, cpu_share, "shares"),
    ROW(" update ", "cpu-idle", 0, TEXT, cpu_idle, "0 or 1"),
    ROW(" update ", "cpu-rt-period", 0, TEXT, cpu_rt_period, "microseconds"),
    ROW(" update ", "cpu-rt-runtime", 0, TEXT, cpu_rt_runtime, "microseconds"),
    ROW(" update ", "cpuset-cpus", 0, TEXT, cpuset_cpus, "list"),
    ROW(" update ", "cpuset-mems", 0, TEXT, cpuset_mems, "list"),
    ROW(" update ", "pids-limit", 0, TEXT, pids_limit, "number; -1: no limit"),
    ROW(" update ", "blkio-weight", 0, TEXT, blkio_weight, "10 to 1000"),
};

static bool belongs(const struct row *row, const char *verb) {
    char word[32];
    if (verb == NULL || row->verbs[0] == '\0')
        return row->verbs[0] == '\0' && (verb == NULL || strcmp(row->name, "help") == 0);
    (void)snprintf(word, sizeof(word), " %s ", verb);
    return strstr(row->verbs, word) != NULL;
}

static const struct row *find(const char *verb, const char *name, size_t length) {
    for (size_t i = 0; i < PIN_COUNT(rows); i++)
        if (belongs(&rows[i], verb) && strlen(rows[i].name) == length &&
            memcmp(rows[i].name, name, length) == 0)
            return &rows[i];
    return NULL;
}

static const struct row *find_letter(const char *verb, char letter) {
    for (size_t i = 0; i < PIN_COUNT(rows); i++)
        if (letter != '\0' && rows[i].letter == letter && belongs(&rows[i], verb))
            return &rows[i];
    return NULL;
}

static bool store(const struct row *row, const char *value, struct pin_oci_options *options,
                  struct pin_error *err) {
    void *member = (char *)options + row->offset;
    switch (row->type) {
    case FLAG: *(bool *)member = value == NULL || strcmp(value, "true") == 0; return true;
    case TEXT: *(const char **)member = value; return true;
    case LIST: break;
    }
    struct pin_oci_list *list = member;
    if (list->count == PIN_COUNT(list->items))
        return pin_fail(err, PIN_ERROR_USAGE, "too many of --%s", row->name);
    list->items[list->count++] = value;
    return true;
}

/* One option at argv[0]; returns how many words it took, 0 on failure. */
static int take(const char *verb, int argc, char **argv, struct pin_oci_options *options,
                struct pin_error *err) {
    const char *word = argv[0];
    bool full = word[1] == '-';
    const char *name = word + (full ? 2 : 1), *equals = strchr(name, '=');
    size_t length = equals != NULL ? (size_t)(equals - name) : strlen(name);
    /* as the Go programs have it, one dash is as good as two */
    const struct row *row = length == 1 && !full ? find_letter(verb, name[0]) : find(verb, name, length);
    if (row == NULL) {
        (void)pin_fail(err, PIN_ERROR_USAGE, "flag provided but not defined: -%.*s", (int)length, name);
        return 0;
    }
    if (row->type == FLAG || equals != NULL)
        return store(row, equals != NULL ? equals + 1 : NULL, options, err) ? 1 : 0;
    if (argc < 2) {
        (void)pin_fail(err, PIN_ERROR_USAGE, "flag needs an argument: -%s", row->name);
        return 0;
    }
    return store(row, argv[1], options, err) ? 2 : 0;
}

bool pin_oci_parse_global(int argc, char **argv, struct pin_oci_options *options, int *used,
                          struct pin_error *err) {
    int at = 0;
    while (at < argc && argv[at][0] == '-' && argv[at][1] != '\0') {
        int took = take(NULL, argc - at, argv + at, options, err);
        if (took == 0)
            return false;
        at += took;
    }
    *used = at;
    return true;
}

bool pin_oci_parse_verb(const struct pin_oci_verb *verb, int argc, char **argv,
                        struct pin_oci_options *options, size_t *count, struct pin_error *err) {
    bool command = strcmp(verb->name, "exec") == 0;
    size_t kept = 0;
    for (int at = 0; at < argc;) {
        bool ended = command && kept > 0;
        if (!ended && strcmp(argv[at], "--") == 0) {
            for (at++; at < argc; at++)
                argv[kept++] = argv[at];
            break;
        }
        if (ended || argv[at][0] != '-' || argv[at][1] == '\0') {
            argv[kept++] = argv[at++];
            continue;
        }
        int took = take(verb->name, argc - at, argv + at, options, err);
        if (took == 0)
            return false;
        at += took;
    }
    argv[kept] = NULL;
    *count = kept;
    if (!options->help && (kept < verb->least || kept > verb->most))
        return pin_fail(err, PIN_ERROR_USAGE, "\"%s\" needs: %s", verb->name, verb->synopsis);
    return true;
}

static void print_rows(const char *verb) {
    for (size_t i = 0; i < PIN_COUNT(rows); i++) {
        const struct row *row = &rows[i];
        if (!belongs(row, verb) || (verb != NULL && row->verbs[0] == '\0'))
            continue;
        char letter[8] = "";
        if (row->letter != '\0')
            (void)snprintf(letter, sizeof(letter), ", -%c", row->letter);
        (void)printf("  --%s%s%s\n        %s\n", row->name, letter, row->type == FLAG ? "" : " VALUE",
                     row->help);
    }
}

void pin_oci_print_help(const struct pin_oci_verb *verbs, size_t count, const struct pin_oci_verb *verb) {
    if (verb != NULL) {
        (void)printf("usage: pinfold-oci %s [OPTION…] %s\n\n%s\n\n", verb->name, verb->synopsis,
                     verb->summary);
        print_rows(verb->name);
        return;
    }
    (void)printf("usage: pinfold-oci [OPTION…] VERB …\n\nRuns OCI bundles for container engines.\n\n");
    for (size_t i = 0; i < count; i++)
        (void)printf("  %-9s %s\n", verbs[i].name, verbs[i].summary);
    (void)printf("\n");
    print_rows(NULL);
}
