/* container.h: what an OCI runtime keeps about a container between its commands.
 *
 * ROOT/ID/ (mode 0700) has state.json, written whole or not at all; config.json, a copy of the bundle's as it
 * was at `create`; `start`, the socket on which the container waits; and `cgroup`, a link whose text is the
 * group, which no half-written file can lose: what is left of a container is found by it. The process is
 * known by its number, its start time, the inode of its pidfd and the boot: a number that is used again is
 * never taken for it. `create` holds a lock on ROOT/ID/creator while it lives; the commands that change
 * something take the lock on the directory itself, which nobody can make anew beneath them: who has waited
 * for it looks whether the id still leads there. A `delete --force` that waits for that lock holds another
 * one, on config.json, by which whoever has the first knows to end. Source: OCI runtime-spec 1.2 runtime.md
 * "State"; the words of errors are runc's, which engines match.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include <jansson.h>

#include "base/arena.h"
#include "base/error.h"
#include "runtime/build/cgroup/cgroup.h"

enum pin_status {
    PIN_STATUS_CREATING,
    PIN_STATUS_CREATED,
    PIN_STATUS_RUNNING,
    PIN_STATUS_PAUSED,
    PIN_STATUS_STOPPED,
    PIN_STATUS_COUNT
};
const char *pin_status_name(enum pin_status status);

struct pin_container {
    struct pin_arena arena;
    int dir;     /* ROOT/ID; -1: none */
    int lock;    /* on the directory; -1: not taken */
    int creator; /* the lock that tells that the creator lives; -1: that is another, or nobody */
    const char *id, *bundle, *rootfs, *oci_version, *created, *owner;
    const char
        *cgroup; /* below the bases of the hierarchies; systemd's, from "/", at their tops; NULL: none */
    const char *boot;
    const char *audit_log; /* absolute; its records go there, whatever a later command's environment says;
                              NULL: the command's own */
    pid_t pid;             /* 0: there is none yet */
    uint64_t inode;        /* of its pidfd: from Linux 6.9 on no other process of this boot has it */
    uint64_t start_time;   /* in clock ticks since boot, as /proc/PID/stat has it */
    json_t *annotations;   /* owned; NULL: none */
};
#define PIN_CONTAINER_NONE ((struct pin_container){.dir = -1, .lock = -1, .creator = -1})

/* ROOT; made where it is missing. -1 on failure. */
int pin_containers_open(const char *root, struct pin_error *err);

/* Makes ROOT/ID, whose creator we are. EXISTS when the id is taken. */
bool pin_container_make(int root, const char *id, struct pin_container *container, struct pin_error *err);

/* Reads a container. NOT_FOUND when there is none. One whose creator died early has no pid. Of one whose
 * state can't be read the error is of kind SYNTAX, and what else is known of it is there: it can be removed.
 */
bool pin_container_open(int root, const char *id, bool lock, struct pin_container *container,
                        struct pin_error *err);
/* Waits for the other commands on an open container. NOT_FOUND when one of them has removed it. */
bool pin_container_lock(int root, struct pin_container *container, struct pin_error *err);
/* Whether another command has it now. */
bool pin_container_is_held(const struct pin_container *container);
/* Tells the command that has it, or will have it first, that the container is to be ended: as long as the
 * descriptor is open, or whoever opened it lives. -1: it can't be told. */
int pin_container_announce_end(const struct pin_container *container);
/* Whether that is told, or the container is removed already. */
bool pin_container_is_ending(int root, const struct pin_container *container);
bool pin_container_write(const struct pin_container *container, struct pin_error *err);
/* Removes ROOT/ID with all that is in it, unless another has, and the id is free or somebody else's. */
bool pin_container_remove(int root, const struct pin_container *container, struct pin_error *err);
void pin_container_close(struct pin_container *container);

/* The process as it is now: fills in pid, start time and boot. */
bool pin_container_set_process(struct pin_container *container, pid_t pid, struct pin_error *err);
/* A pidfd of the container's process, or -1 with no error when it isn't there any more. */
int pin_container_process(const struct pin_container *container);

enum pin_status pin_container_status(const struct pin_container *container,
                                     const struct pin_cgroup_facts *cgroups);

/* The state as the specification has it, a new reference; with `more`, what `list` adds. */
json_t *pin_container_state(const struct pin_container *container, enum pin_status status, bool more);

/* The group of the container; NULL with no error when there is none. */
struct pin_cgroup *pin_container_cgroup(const struct pin_container *container,
                                        const struct pin_cgroup_facts *cgroups, struct pin_error *err);
