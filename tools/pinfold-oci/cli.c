#include "tools/pinfold-oci/cli.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/names.h"
#include "base/units.h"
#include "tools/pinfold-oci/common.h"

enum type { FLAG, TEXT, LIST, COUNT, TIME };

struct row {
    const char *verbs; /* " create run "; "" is global */
    const char *name;
    char letter;
    enum type type;
    size_t offset;
    const char *value; /* what stands for it in the help; NULL of a flag */
    const char *help;
    const char *words; /* " text json ": the values that there are; NULL: any */
};

#define ROW(verbs, name, letter, type, member, value, help)                                                  \
    { verbs, name, letter, type, offsetof(struct pin_oci_options, member), value, help, NULL }
#define CHOICE(verbs, name, letter, member, value, words, help)                                              \
    { verbs, name, letter, TEXT, offsetof(struct pin_oci_options, member), value, help, words }

static const struct row rows[] = {
    ROW("", "root", 0, TEXT, root, "DIR", "where the containers' state is kept"),
    ROW("", "log", 0, TEXT, log, "FILE", "append messages to this file"),
    CHOICE("", "log-format", 0, log_format, "FORMAT", " text json ", "text or json"),
    ROW("", "systemd-cgroup", 0, FLAG, systemd_cgroup, NULL, "have systemd make the cgroups"),
    CHOICE("", "cgroup-manager", 0, cgroup_manager, "NAME", " cgroupfs systemd disabled ",
           "cgroupfs, systemd or disabled"),
    CHOICE("", "rootless", 0, rootless, "WORD", " auto true false ", "auto, true or false; it is found out"),
    ROW("", "policy", 0, TEXT, policy, "POLICY", "the policy that no bundle may go beyond"),
    ROW("", "criu", 0, TEXT, criu, "PATH", "not offered; taken for callers that always give it"),
    ROW("", "debug", 0, FLAG, debug, NULL, "more messages"),
    ROW("", "version", 'v', FLAG, version, NULL, "print the version"),
    ROW("", "help", 'h', FLAG, help, NULL, "print this"),
    ROW(" create run spec ", "bundle", 'b', TEXT, bundle, "DIR", "the directory of config.json (.)"),
    ROW(" create run exec ", "console-socket", 0, TEXT, console_socket, "SOCKET",
        "where the terminal's master is sent"),
    ROW(" create run exec ", "pid-file", 0, TEXT, pid_file, "FILE", "write the process's number here"),
    ROW(" create run exec ", "preserve-fds", 0, COUNT, preserve_fds, "N", "keep N descriptors from 3 on"),
    ROW(" create run ", "no-pivot", 0, FLAG, no_pivot, NULL, "change the root by chroot(2), on a ramfs"),
    ROW(" create run ", "no-new-keyring", 0, FLAG, no_new_keyring, NULL, "keep the caller's session keyring"),
    ROW(" spec ", "rootless", 0, FLAG, for_user, NULL,
        "for an ordinary user: the caller as root, nobody else"),
    ROW(" run ", "no-subreaper", 0, FLAG, no_subreaper, NULL, "taken and needless: nothing is reaped"),
    ROW(" run ", "keep", 0, FLAG, keep, NULL, "don't delete the container after it has ended"),
    ROW(" run exec ", "detach", 'd', FLAG, detach, NULL, "don't wait for the process"),
    ROW(" exec ", "process", 'p', TEXT, process, "FILE", "a file with the process, as config.json has it"),
    ROW(" exec ", "tty", 't', FLAG, tty, NULL, "give it a terminal"),
    ROW(" exec ", "user", 'u', TEXT, user, "UID[:GID]", "whom it runs as"),
    ROW(" exec ", "additional-gids", 'g', LIST, additional_gids, "GID", "one more group"),
    ROW(" exec ", "cwd", 0, TEXT, cwd, "DIR", "the working directory"),
    ROW(" exec ", "env", 'e', LIST, env, "NAME=VALUE", "a variable"),
    ROW(" exec ", "cap", 'c', LIST, cap, "CAP", "one more capability"),
    ROW(" exec ", "no-new-privs", 0, FLAG, no_new_privs, NULL, "it may gain no privileges"),
    ROW(" exec ", "apparmor", 0, TEXT, apparmor, "PROFILE", "its AppArmor profile"),
    ROW(" exec ", "process-label", 0, TEXT, process_label, "LABEL", "its SELinux label"),
    ROW(" exec ", "cgroup", 0, TEXT, cgroup, "PATH", "not offered"),
    ROW(" exec ", "ignore-paused", 0, FLAG, ignore_paused, NULL, "also in a paused container"),
    ROW(" kill ", "all", 'a', FLAG, all, NULL, "signal every process of the container"),
    ROW(" delete ", "force", 'f', FLAG, force, NULL, "kill it if it runs"),
    CHOICE(" list ps ", "format", 'f', format, "FORMAT", " table json ", "table or json"),
    ROW(" list ", "quiet", 'q', FLAG, quiet, NULL, "names alone"),
    ROW(" events ", "stats", 0, FLAG, stats, NULL, "print the figures once"),
    ROW(" events ", "interval", 0, TIME, interval, "TIME", "time between two figures (5s)"),
    ROW(" update ", "resources", 'r', TEXT, resources, "FILE", "a file as linux.resources has it, or -"),
    ROW(" update ", "memory", 0, TEXT, memory, "N", "bytes"),
    ROW(" update ", "memory-reservation", 0, TEXT, memory_reservation, "N", "bytes"),
    ROW(" update ", "memory-swap", 0, TEXT, memory_swap, "N", "bytes, with the memory; -1: no limit"),
    ROW(" update ", "cpu-period", 0, TEXT, cpu_period, "N", "microseconds"),
    ROW(" update ", "cpu-quota", 0, TEXT, cpu_quota, "N", "microseconds a period"),
    ROW(" update ", "cpu-burst", 0, TEXT, cpu_burst, "N", "microseconds"),
    ROW(" update ", "cpu-share", 0, TEXT, cpu_share, "N", "shares"),
    ROW(" update ", "cpu-idle", 0, TEXT, cpu_idle, "N", "0 or 1"),
    ROW(" update ", "cpu-rt-period", 0, TEXT, cpu_rt_period, "N", "microseconds"),
    ROW(" update ", "cpu-rt-runtime", 0, TEXT, cpu_rt_runtime, "N", "microseconds"),
    ROW(" update ", "cpuset-cpus", 0, TEXT, cpuset_cpus, "LIST", "list"),
    ROW(" update ", "cpuset-mems", 0, TEXT, cpuset_mems, "LIST", "list"),
    ROW(" update ", "pids-limit", 0, TEXT, pids_limit, "N", "number; -1: no limit"),
    ROW(" update ", "blkio-weight", 0, TEXT, blkio_weight, "N", "10 to 1000"),
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

static bool is_one_of(const char *words, const char *value) {
    char word[32];
    int length = snprintf(word, sizeof(word), " %s ", value);
    return length > 2 && (size_t)length < sizeof(word) && strchr(value, ' ') == NULL &&
           strstr(words, word) != NULL;
}

static bool store(const struct row *row, const char *value, struct pin_oci_options *options,
                  struct pin_error *err) {
    void *member = (char *)options + row->offset;
    struct pin_oci_list *list = member;
    uint64_t time_ns;
    long number;
    switch (row->type) {
    case FLAG:
        *(bool *)member = value == NULL || is_one_of(" 1 t T true TRUE True ", value);
        return value == NULL || *(bool *)member || is_one_of(" 0 f F false FALSE False ", value) ||
               pin_fail(err, PIN_ERROR_USAGE, "invalid boolean value \"%.40s\" for -%s: parse error", value,
                        row->name);
    case COUNT:
    case TIME:
        if (row->type == COUNT ? !pin_oci_parse_number(value, &number)
                               : !pin_parse_time(value, &time_ns) || time_ns == 0)
            return pin_fail(err, PIN_ERROR_USAGE, "invalid value \"%.40s\" for flag -%s: parse error", value,
                            row->name);
        *(const char **)member = value;
        return true;
    case TEXT:
        if (row->words != NULL && !is_one_of(row->words, value))
            return pin_fail(err, PIN_ERROR_USAGE, "invalid %s: %.40s", row->name, value);
        *(const char **)member = value;
        return true;
    case LIST:
        if (list->count == PIN_COUNT(list->items))
            return pin_fail(err, PIN_ERROR_USAGE, "too many of --%s", row->name);
        list->items[list->count++] = value;
        return true;
    }
    abort();
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
    bool command = verb->most == SIZE_MAX; /* whose options are not ours */
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

/* As the help library has them; what stands for a value is told by its type alone. */
size_t pin_oci_list_options(const char *verb, struct pin_option *options, size_t room) {
    static const enum pin_option_type types[] = {[FLAG] = PIN_OPTION_FLAG,
                                                 [TEXT] = PIN_OPTION_TEXT,
                                                 [LIST] = PIN_OPTION_TEXTS,
                                                 [COUNT] = PIN_OPTION_TEXT,
                                                 [TIME] = PIN_OPTION_TEXT};
    size_t count = 0;
    for (size_t i = 0; i < PIN_COUNT(rows) && count < room; i++) {
        const struct row *row = &rows[i];
        if (!belongs(row, verb) || (verb != NULL && row->verbs[0] == '\0'))
            continue;
        options[count++] = (struct pin_option){.name = row->name,
                                               .letter = row->letter,
                                               .type = types[row->type],
                                               .value = row->value,
                                               .help = row->help};
    }
    return count;
}
