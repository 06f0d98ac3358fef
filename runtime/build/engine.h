/* engine.h: what only the containers of OCI engines need while they are built; used by this folder, but for
 * struct pin_engine_build.
 *
 * Everything but pin_engine_clone() runs in the set-up child. Source: OCI runtime-spec 1.2, "runtime.md
 * Lifecycle" and config-linux.md; setns(2), pid_namespaces(7), time_namespaces(7).
 */
#pragma once

#include <limits.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/error.h"
#include "runtime/build/cgroup/cgroup.h"
#include "runtime/build/seccomp/load.h"
#include "runtime/plan/plan.h"

struct pin_engine_build {
    const char *cgroup_path;        /* below the bases: made for the container; NULL: none */
    struct pin_cgroup *joins_group; /* of the container that runs; borrowed; NULL: none */
    int container;                  /* its pidfd; -1: none is joined */
    uint64_t joins;                 /* CLONE_NEW* that aren't the caller's own */
    int cgroup_space;               /* that of them which the child enters by itself; borrowed; -1: none */
    int start;                      /* a listening socket on which the start is told; -1: goes on at once */
    int console;                    /* a connected socket that takes the terminal's master; -1: none */
    int listener;                   /* a connected socket that takes the filter's listener; -1: it has none */
    const char *told;               /* shared memory: what is said with the listener */
    const char *state;              /* shared memory: the state for hooks inside; NULL: there are none */
    /* What the maker does when the namespaces are there and the old root still is: the hooks outside. NULL:
     * nothing. */
    bool (*before_pivot)(void *self, pid_t pid, struct pin_error *err);
    void *self;
};

/* The cgroups of a container, for the child to enter and to show. */
struct pin_engine_groups {
    int entrances[PIN_CGROUP_HIERARCHIES], entrance_count;
    int trees[PIN_CGROUP_HIERARCHIES], tree_count; /* detached mounts */
    const char *names[PIN_CGROUP_HIERARCHIES];     /* where v1 hierarchies are mounted; borrowed */
    bool v2_alone;
    bool tracking; /* the host has systemd's own hierarchy of version 1, which a bundle may bind in its usual
                      place */
};
bool pin_engine_groups_open(const struct pin_cgroup *group, bool with_trees,
                            const struct pin_cgroup_facts *cgroups, struct pin_engine_groups *groups,
                            struct pin_error *err);
void pin_engine_groups_close(struct pin_engine_groups *groups);

/* Whether the child must be made from within namespaces that others have made. */
bool pin_engine_needs_helper(const struct pin_plan *plan, const struct pin_engine_build *engine);

/* As the plan has it: of a child, which has no way to its own file once it is in its namespaces, or of the
 * helper, from which the child inherits it. */
bool pin_oom_score_set(const struct pin_plan *plan, pid_t pid, struct pin_error *err);

/* clone3(2) from within the namespaces to join; the child is ours, not the helper's. 0 in the child, -1 on
 * failure. */
pid_t pin_engine_clone(const struct pin_plan *plan, const struct pin_engine_build *engine, uint64_t flags,
                       int cgroup, int *pidfd, struct pin_error *err);

/* The mount namespace last: the root is made in ours, and entered in theirs. */
bool pin_engine_join_mounts(const struct pin_plan *plan, struct pin_error *err);

bool pin_engine_set_system(const struct pin_plan *plan, struct pin_error *err);
bool pin_engine_open_terminal(const struct pin_plan *plan, int console, struct pin_error *err);
bool pin_engine_set_scheduling(const struct pin_plan *plan, struct pin_error *err);

/* Leaves 0 to 2 and the kept descriptors; *control, *start and *listener move behind those, all others are
 * closed. */
bool pin_engine_close_unlisted(const struct pin_plan *plan, int *control, int *start, int *listener,
                               struct pin_error *err);

/* Loads a filter whose notifications somebody else answers, and sends its listener to `socket` with `told`.
 */
bool pin_engine_load_notify(const struct pin_program *program, int socket, const void *told, size_t size,
                            struct pin_error *err);

/* Enters the working directory, completes the environment, and finds the program as its user would. */
bool pin_engine_find_program(const struct pin_plan *plan, char program[PATH_MAX], struct pin_error *err);

/* Waits for the start; *report becomes the connection on which a failure is told from then on. */
bool pin_engine_await_start(int start, int *report, struct pin_error *err);

bool pin_engine_make_device(const struct pin_op *op, int parent, const char *name, int *bind,
                            struct pin_error *err);
bool pin_engine_copy_up(int from, int to, struct pin_error *err);
