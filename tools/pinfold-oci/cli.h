/* cli.h: the command line of an OCI runtime, as runc has it and engines call it.
 *
 * Global options stand before the verb, a verb's own after it, in front of or behind its arguments; `exec`
 * takes what follows the container's name as the command. "--name value" and "--name=value" are the same; a
 * flag may be written "--name=true". One table holds all options; help.h prints it.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "base/error.h"
#include "tools/pinfold/options.h"

struct pin_oci_list {
    const char *items[64];
    size_t count;
};

struct pin_oci_options {
    const char *root, *log, *log_format, *rootless, *policy, *cgroup_manager, *criu;
    bool debug, systemd_cgroup, version, help;
    const char *bundle, *pid_file, *console_socket, *preserve_fds;
    bool no_pivot, no_new_keyring, detach, no_subreaper, keep;
    bool for_user; /* spec --rootless */
    const char *process, *user, *cwd, *apparmor, *process_label, *cgroup;
    bool tty, no_new_privs, ignore_paused;
    struct pin_oci_list env, cap, additional_gids;
    bool all, force, quiet, stats;
    const char *format, *interval, *resources;
    const char *memory, *memory_reservation, *memory_swap, *cpu_period, *cpu_quota, *cpu_share, *cpu_burst,
        *cpu_rt_period, *cpu_rt_runtime, *cpuset_cpus, *cpuset_mems, *pids_limit, *blkio_weight, *cpu_idle;
};

struct pin_oci_verb {
    const char *name, *synopsis, *summary, *example;
    size_t least, most; /* arguments; SIZE_MAX: any number, and options after the first one are among them */
    int (*run)(const struct pin_oci_options *options, char **arguments, size_t count);
};

/* Parses what comes before the verb; *used is how many words of argv that were. */
bool pin_oci_parse_global(int argc, char **argv, struct pin_oci_options *options, int *used,
                          struct pin_error *err);

/* Parses what follows the verb; the arguments are moved to the front of argv. */
bool pin_oci_parse_verb(const struct pin_oci_verb *verb, int argc, char **argv,
                        struct pin_oci_options *options, size_t *count, struct pin_error *err);

/* The options of a verb, or the global ones where it is NULL; how many of them. */
size_t pin_oci_list_options(const char *verb, struct pin_option *options, size_t room);
#define PIN_OCI_OPTIONS_MAX 64

extern const struct pin_oci_verb pin_oci_verbs[];
extern const size_t pin_oci_verb_count;
const struct pin_oci_verb *pin_oci_find_verb(const char *name); /* NULL: there is none */

int pin_oci_create(const struct pin_oci_options *options, char **arguments, size_t count);
int pin_oci_run(const struct pin_oci_options *options, char **arguments, size_t count);
int pin_oci_exec(const struct pin_oci_options *options, char **arguments, size_t count);
int pin_oci_start(const struct pin_oci_options *options, char **arguments, size_t count);
int pin_oci_kill(const struct pin_oci_options *options, char **arguments, size_t count);
int pin_oci_delete(const struct pin_oci_options *options, char **arguments, size_t count);
int pin_oci_pause(const struct pin_oci_options *options, char **arguments, size_t count);
int pin_oci_resume(const struct pin_oci_options *options, char **arguments, size_t count);
int pin_oci_state(const struct pin_oci_options *options, char **arguments, size_t count);
int pin_oci_list(const struct pin_oci_options *options, char **arguments, size_t count);
int pin_oci_ps(const struct pin_oci_options *options, char **arguments, size_t count);
int pin_oci_events(const struct pin_oci_options *options, char **arguments, size_t count);
int pin_oci_update(const struct pin_oci_options *options, char **arguments, size_t count);
int pin_oci_spec(const struct pin_oci_options *options, char **arguments, size_t count);
int pin_oci_features(const struct pin_oci_options *options, char **arguments, size_t count);
