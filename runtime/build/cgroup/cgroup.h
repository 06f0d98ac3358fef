/* cgroup.h: one sandbox's cgroups, the same on cgroup v2, v1 and hybrid hosts.
 *
 * A group is one directory in each hierarchy that is needed: BASE/GROUP/N. On a hybrid host the controllers
 * are used where they are, which is version 1 nearly always. Each directory is opened once; files are written
 * by openat on it.
 *
 * A limit that can't be set is an error with a hint, unless its protection is in `optional`: then its bit is
 * added to *missing. Where not even an empty group can be made and every limit is optional, the group has no
 * directories: then attaching and killing do nothing, usage is 0, and the pid namespace is what ends the
 * sandbox.
 *
 * The caller holds the slot's lock, so that a group of that number which exists already was left by a dead
 * owner: it is killed and made anew.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/error.h"
#include "runtime/build/cgroup/facts.h"

struct pin_cgroup_limits {
    uint64_t memory_bytes;                 /* PIN_UNLIMITED: none */
    uint64_t swap_bytes;                   /* on top of the memory; PIN_UNLIMITED: none */
    uint64_t pids;                         /* PIN_UNLIMITED: none */
    uint32_t millicpus;                    /* 0: none */
    const char *cpuset_cpus, *cpuset_mems; /* NULL: the parent's */
    uint32_t
        also; /* set of 1u << controller to be in without a limit: PIN_CGROUP_FREEZER for pausing on v1 */
    bool host_swaps; /* there is swap space, which version 1 has to be kept from */
};

struct pin_cgroup_usage {
    uint64_t cpu_ns, memory_peak_bytes, pids_peak, oom_kills; /* 0: none, or unknown to this kernel */
};

struct pin_cgroup;

/* What has to happen once in a process before its first group: for an ordinary user on v2, moving this
 * process into a leaf of its delegated cgroup, or having systemd make a delegated scope for it (by running
 * `scope_program`; NULL: don't). Nothing to do for root. The outcome is in the facts: `usable`, `why` and
 * `hint`. */
void pin_cgroup_prepare(struct pin_cgroup_facts *facts, const char *scope_program);

/* Makes the group of the slot and sets its limits. NULL on failure, and then nothing is left. */
struct pin_cgroup *pin_cgroup_create(const struct pin_cgroup_facts *facts, uint32_t slot,
                                     const struct pin_cgroup_limits *limits, uint32_t optional,
                                     uint32_t *missing, struct pin_error *err);

/* The same at "a/b/c" below the bases, for callers who bring their own names. No ".." and no empty parts. */
struct pin_cgroup *pin_cgroup_create_at(const struct pin_cgroup_facts *facts, const char *path,
                                        const struct pin_cgroup_limits *limits, uint32_t optional,
                                        uint32_t *missing, struct pin_error *err);

/* As pin_cgroup_create_at() without limits and with every controller; directories that are there already are
 * taken over, unless a process is in one of them. */
struct pin_cgroup *pin_cgroup_adopt_at(const struct pin_cgroup_facts *facts, const char *path,
                                       struct pin_error *err);

/* The directories of the group, as the host has them: O_PATH, borrowed, and the last part of the place where
 * their hierarchy is mounted ("memory", "cpu,cpuacct"). False: there is no directory of that index. */
bool pin_cgroup_directory(const struct pin_cgroup *group, size_t index, int *dir, const char **name);

/* Opens the directories of a group that exists. One without any directory is an error of kind NOT_FOUND. */
struct pin_cgroup *pin_cgroup_open_at(const struct pin_cgroup_facts *facts, const char *path,
                                      struct pin_error *err);

/* Closes the descriptors; the group stays. NULL is fine. */
void pin_cgroup_free(struct pin_cgroup *group);
static inline void pin_cgroup_free_slot(struct pin_cgroup **group) {
    pin_cgroup_free(*group);
}
#define PIN_CGROUP __attribute__((cleanup(pin_cgroup_free_slot)))

/* Moves a process with all its threads into the group. */
bool pin_cgroup_attach(const struct pin_cgroup *group, pid_t pid, struct pin_error *err);

/* Files into which a process of one thread writes itself, one for each v1 directory of the group, opened for
 * the caller to close: their number, or -1. Moving oneself takes no lock of the whole system, while moving
 * another process waits for it, milliseconds at times: cgroup_procs_write_start() since Linux 5.18. A v2
 * directory is entered at birth, by CLONE_INTO_CGROUP. */
int pin_cgroup_entrances(const struct pin_cgroup *group, int files[PIN_CGROUP_HIERARCHIES],
                         struct pin_error *err);
/* The writing; only system calls. */
bool pin_cgroup_enter(const int *files, int count, struct pin_error *err);

/* The directory of the v2 hierarchy, for CLONE_INTO_CGROUP; -1: there is none. Borrowed. */
int pin_cgroup_unified_fd(const struct pin_cgroup *group);

/* Changes the limits that differ from "none" in place. On failure some may have changed. */
bool pin_cgroup_update(struct pin_cgroup *group, const struct pin_cgroup_limits *limits,
                       struct pin_error *err);

/* Sends SIGKILL to every process of the group and of the groups below it, also to those that fork meanwhile.
 * After it the group can't fork any more (v1). Returns after 100 ms at most: see pin_cgroup_wait_empty(). */
bool pin_cgroup_kill(const struct pin_cgroup *group, struct pin_error *err);

/* The same for a group without others below it, and nobody waits for anybody to leave. `*whole`: every
 * process has its signal, and runs no code of its own any more; what the kernel still does is to take its
 * memory apart, milliseconds for a large one. (Without cgroup.kill one may escape that was in the middle of
 * fork(2) all the while.) Otherwise pin_cgroup_kill() has to follow. */
bool pin_cgroup_strike(const struct pin_cgroup *group, bool *whole, struct pin_error *err);

/* Whether no process is left. A zombie doesn't count. */
bool pin_cgroup_is_empty(const struct pin_cgroup *group, bool *empty, struct pin_error *err);

/* Waits until no process is left; an error of kind BUSY after `timeout_ns`. */
bool pin_cgroup_wait_empty(const struct pin_cgroup *group, uint64_t timeout_ns, struct pin_error *err);

bool pin_cgroup_usage_read(const struct pin_cgroup *group, struct pin_cgroup_usage *usage,
                           struct pin_error *err);

/* What it holds at this moment, page cache and all; 0 where that isn't counted. */
bool pin_cgroup_memory_now(const struct pin_cgroup *group, uint64_t *bytes, struct pin_error *err);

/* Stops and continues every process. Version 1 needs PIN_CGROUP_FREEZER in `also`, else UNSUPPORTED. Freezing
 * waits until all are frozen, `timeout_ns` at most, and thaws again where that fails; it fails at once when
 * somebody else thaws it meanwhile, as who kills does. */
bool pin_cgroup_freeze(const struct pin_cgroup *group, uint64_t timeout_ns, struct pin_error *err);
/* Whether it is frozen, or about to be. A group that can't be frozen isn't. */
bool pin_cgroup_is_frozen(const struct pin_cgroup *group);
bool pin_cgroup_thaw(const struct pin_cgroup *group, struct pin_error *err);

/* A descriptor that polls `*events` (POLLIN or POLLPRI) when the group runs out of memory; the group owns it.
 * After it polled, pin_cgroup_oom_happened() must be asked: it says whether something was killed, and arms
 * the descriptor anew. -1 on failure. */
int pin_cgroup_oom_fd(struct pin_cgroup *group, short *events, struct pin_error *err);
bool pin_cgroup_oom_happened(struct pin_cgroup *group, bool *happened, struct pin_error *err);

/* Removes the directories, with empty groups below them; waits for dying processes, `timeout_ns` at most. The
 * group must still be freed. True too when they are gone already. */
bool pin_cgroup_remove(struct pin_cgroup *group, uint64_t timeout_ns, struct pin_error *err);

/* For the sweep, whose slot lock is held: kills, waits for and removes whatever there is of slot `slot`.
 * `path` is the group as its record has it ("" = the default place). True means that nothing is left. */
bool pin_cgroup_clean_slot(const struct pin_cgroup_facts *facts, uint32_t slot, const char *path,
                           struct pin_error *err);

/* The v2 group of the slot as its record shall have it: absolute within the v2 mount. "" where the place
 * follows from the slot alone, as it does for root. */
bool pin_cgroup_place(const struct pin_cgroup_facts *facts, uint32_t slot, char path[PIN_CGROUP_PATH],
                      struct pin_error *err);
