/* mounts.h: makes the root of a sandbox from the plan's operations. Runs in the set-up child, which has
 * capabilities in its own user namespace alone; only system calls, no allocation.
 */
#pragma once

#include <stdbool.h>

#include "base/error.h"
#include "runtime/build/sources.h"
#include "runtime/plan/plan.h"

struct pin_folder {   /* where the last operation took place: the next one is often in the same folder */
    int fd;           /* -1: none */
    const char *path; /* of the plan's; not ended */
    size_t length;
    bool plain; /* reached without a symbolic link */
};

struct pin_mounts {
    int root;    /* the new root's mount, attached over the old one */
    int null;    /* the host's /dev/null, proven: what masks files */
    int changes; /* the upper directory of a copy-on-write workspace; -1: none */
    int upper;   /* the upper directory of a root from layers that can be written; or -1 */
    int proc;    /* what was mounted on /proc last, where it is a file system of ours; -1: none */
    int sys;     /* the same of /sys */
    int blank;   /* a copy of `null` that masks nothing yet; or -1 */
    int empty;   /* a folder without anything, whose copies mask folders; -1: none is known yet */
    struct pin_engine_groups *groups; /* of an engine's container: borrowed; NULL: none */
    struct pin_folder folder;
};

bool pin_mounts_make(const struct pin_plan *plan, struct pin_host_sources *sources, struct pin_mounts *mounts,
                     struct pin_error *err);

/* Makes the new root the only one: pivot_root(2), then nothing of the old one is left. */
bool pin_mounts_enter(const struct pin_plan *plan, const struct pin_mounts *mounts, struct pin_error *err);

/* Shared with overlay.c: a new instance of a file system, not attached to anything. -1 on failure. */
int pin_mounts_new(const char *type, const char *const *options, size_t option_count, uint64_t attributes,
                   struct pin_error *err);
/* Attaches a detached mount to the directory or file behind `target`. */
bool pin_mounts_attach(int tree, int target, struct pin_error *err);
