/* sources.h: the host files and directories that a sandbox shows, opened once.
 *
 * A source is opened before the sandbox exists, without following a symbolic link at its end; what was opened
 * is what is mounted. Where we are privileged the detached mount is made here, with its attributes and its
 * idmap, and the set-up child inherits it. An ordinary user's child must make it in its own mount namespace:
 * it opens the path anew and refuses when that isn't the same inode.
 */
#pragma once

#include <stdbool.h>
#include <sys/types.h>

#include "base/error.h"
#include "runtime/plan/plan.h"

struct pin_host_source {
    int path;     /* O_PATH; -1: the operation has no source on the host */
    int tree;     /* a detached mount, ready to be moved; -1: not made yet */
    bool missing; /* an optional source that isn't there */
    bool directory;
    dev_t device;
    ino_t inode;
    uid_t uid;
    gid_t gid;
    mode_t mode;
};

struct pin_host_sources {
    struct pin_host_source root;    /* of plan->root_bind */
    struct pin_host_source *layers; /* plan->layer_count of them, behind `ops` */
    struct pin_host_source *ops;    /* plan->op_count of them */
    int disk;                       /* disk.h: a detached mount; -1: the plan has none on disk */
};

/* Opens all sources of the plan; `range` is the first host id of the sandbox's range (privileged only);
 * `state_dir`, whose directory may not lie below anything that is writable inside. The caller closes with
 * pin_sources_close(). */
bool pin_sources_open(const struct pin_plan *plan, uint32_t range, int state_dir,
                      struct pin_host_sources *sources, struct pin_error *err);
void pin_sources_close(const struct pin_plan *plan, struct pin_host_sources *sources);

/* In the set-up child: the detached mount of a source, made now if it wasn't before. The caller closes it. -1
 * on failure. */
int pin_source_tree(const struct pin_op *op, struct pin_host_source *source, struct pin_error *err);

/* The two halves of opening, for layers.c: `source` is {.path = -1, .tree = -1}; a detached mount with the
 * operation's attributes, idmapped by the namespace behind `idmap` unless that is -1. */
bool pin_source_open(const struct pin_op *op, struct pin_host_source *source, struct pin_error *err);
int pin_source_clone(const struct pin_op *op, int path, bool recursive, int idmap, struct pin_error *err);
