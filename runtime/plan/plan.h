/* plan.h: what will be built, decided before the first privileged step.
 *
 * pin_plan_make() is pure: bundle + host facts become one plan, owned by one arena, printable (plan_print.h).
 * The builder (runtime/build) applies it and decides nothing. The plan borrows the bundle, which must outlive
 * it. Paths inside have no leading "/". docs/plan.md explains the order of the steps.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/findings.h"
#include "runtime/bundle/bundle.h"
#include "runtime/egress/inside.h"
#include "runtime/host/host.h"

/* One thing that is made or mounted in the new root, in this order. */
enum pin_op_kind {
    PIN_OP_DIRECTORY,
    PIN_OP_FILE,
    PIN_OP_SYMLINK,
    PIN_OP_BIND,       /* `source` of the host, or of the new root when `inside` */
    PIN_OP_FILESYSTEM, /* a new instance of `type` */
    PIN_OP_OVERLAY,    /* the workspace copy-on-write: `source` below a tmpfs of `size` bytes */
    PIN_OP_MASK,       /* nothing is to be seen here any more */
    PIN_OP_READ_ONLY,  /* what is mounted here becomes read-only */
    PIN_OP_SEAL,       /* the mount here takes no new entries; what is mounted below it stays as it is */
    PIN_OP_COUNT
};

/* How the owners of a host directory look inside. */
enum pin_idmap {
    PIN_IDMAP_NONE,    /* as the user namespace maps them */
    PIN_IDMAP_SANDBOX, /* id N of the directory is id N inside: root filesystems */
    PIN_IDMAP_OWNER,   /* the directory's owner is the sandbox's user: workspaces */
    PIN_IDMAP_COUNT
};

struct pin_op {
    enum pin_op_kind kind;
    const char *target;  /* "" is the root itself */
    const char *content; /* FILE: bytes; SYMLINK: where it points */
    size_t size;         /* FILE: of the content; OVERLAY: of the upper, in bytes */
    uint32_t mode;       /* DIRECTORY, FILE */
    const char *source;  /* BIND, OVERLAY: absolute */
    bool inside;         /* BIND: the source is a path inside the new root, with no leading "/" */
    bool recursive;      /* BIND: with what is mounted below */
    bool make_target;    /* the mount point is made where it is missing */
    bool no_symlinks;    /* the target must be reached without any symbolic link */
    bool optional;       /* BIND: a source that isn't there is no error */
    uint64_t attributes; /* MOUNT_ATTR_* to set */
    enum pin_idmap idmap;
    const char *type;     /* FILESYSTEM */
    const char **options; /* FILESYSTEM: key, value (NULL: a flag), key, value … */
    size_t option_count;  /* of pairs */
};

struct pin_plan_rlimit {
    int resource;
    uint64_t soft, hard;
};

struct pin_plan_limits { /* PIN_UNLIMITED (0 for processors): none */
    uint64_t memory_bytes, swap_bytes, pids;
    uint32_t millicpus;
};

enum pin_map_method {
    PIN_MAP_DIRECT,  /* write the files */
    PIN_MAP_HELPERS, /* newuidmap(1) and newgidmap(1) */
};

struct pin_plan {
    struct pin_arena arena;
    const struct pin_bundle *bundle;
    bool privileged; /* sources are opened before the sandbox is made, and ids come from a range of its own */
    uint64_t clone_flags; /* CLONE_NEW* */

    struct pin_id_map *uid_maps, *gid_maps; /* `outside` is relative to the slot's range when `ranged` */
    size_t uid_map_count, gid_map_count;
    bool ranged;
    enum pin_map_method map_method;
    bool may_set_groups;

    enum { PIN_ROOT_FROM_TMPFS, PIN_ROOT_FROM_BIND, PIN_ROOT_FROM_LAYERS } root;
    uint64_t root_tmpfs_bytes;
    struct pin_op root_bind; /* FROM_BIND */
    bool root_read_only;
    struct pin_op *ops;
    size_t op_count;

    const char *hostname, *domainname;
    bool raise_loopback;
    bool egress; /* connections leave through a broker; then it raises the loopback, too */
    struct pin_egress_plan egress_plan;
    bool forbid_user_namespaces;
    struct pin_plan_rlimit *rlimits;
    size_t rlimit_count;
    uint64_t capabilities[PIN_CAP_SET_COUNT];
    bool lock_securebits;
    bool no_new_privileges;
    bool landlock;
    int landlock_abi;
    bool new_keyring;
    bool has_oom_score_adj;
    int oom_score_adj;

    struct pin_plan_limits limits; /* by cgroup */
    uint32_t missing; /* set of 1u << enum pin_protection: optional ones that this host can't give */
};

/* The plan, or NULL with findings; pin_plan_free() frees it, and NULL is fine. */
struct pin_plan *pin_plan_make(const struct pin_bundle *bundle, const struct pin_host *host,
                               struct pin_findings *found);
void pin_plan_free(struct pin_plan *plan);
