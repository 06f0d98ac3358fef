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
#include "policy/publish.h"
#include "runtime/bundle/bundle.h"
#include "runtime/egress/inside.h"
#include "runtime/host/host.h"

#define PIN_PLAN_LAYERS_MAX 127 /* as many as images may have */

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
    PIN_OP_DEVICE,     /* a node; a bind of the host's where none can be made */
    PIN_OP_CGROUPS,    /* the container's own cgroups, as the host mounts them */
    PIN_OP_COUNT
};

/* How the owners of a host directory look inside. */
enum pin_idmap {
    PIN_IDMAP_NONE,    /* as the user namespace maps them */
    PIN_IDMAP_SANDBOX, /* id N of the directory is id N inside: root filesystems */
    PIN_IDMAP_OWNER,   /* the directory's owner is the sandbox's user: workspaces */
    PIN_IDMAP_MAPS,    /* by the mount's own maps */
    PIN_IDMAP_COUNT
};

struct pin_op {
    enum pin_op_kind kind;
    const char *target;  /* "" is the root itself */
    const char *content; /* FILE: bytes; SYMLINK: where it points */
    const char *secret;  /* FILE: of this secret, whose value becomes `content` when it is built */
    size_t size;         /* FILE: of the content; OVERLAY: of the upper, in bytes */
    uint32_t mode;       /* DIRECTORY, FILE */
    const char *source;  /* BIND, OVERLAY: absolute */
    bool inside;         /* BIND: the source is a path inside the new root, with no leading "/" */
    bool recursive;      /* BIND: with what is mounted below */
    bool make_target; /* the mount point is made where it is missing; DIRECTORY, FILE: what is there stays */
    bool no_symlinks; /* the target must be reached without any symbolic link */
    bool real_source; /* the source must be reached without any symbolic link: somebody else named it */
    bool optional;    /* BIND: a source that isn't there is no error */
    bool directory;   /* BIND: the source must be one */
    bool in_turn; /* BIND: no user namespace locks it: its mount can be made where it stands in the list */
    bool late;    /* BIND: of these, one that no mount of the host reaches: it is made then and not before */
    bool of_engine; /* BIND: its options count as engines mean them, and a source may be a symbolic link */
    uint64_t attributes;           /* MOUNT_ATTR_* to set */
    uint64_t cleared;              /* MOUNT_ATTR_* to take away, of a bind that an engine asks for */
    uint64_t below, below_cleared; /* the same for the mounts below, where an engine asks; RDONLY: below a
                                      read-only root */
    unsigned propagation;          /* MS_*; 0: private */
    enum pin_idmap idmap;
    const struct pin_bundle_mount *mount; /* with the maps of PIN_IDMAP_MAPS */
    struct pin_bundle_device device;      /* DEVICE */
    bool copy_up;                         /* FILESYSTEM: what is at the target is copied into it */
    const char *type;                     /* FILESYSTEM */
    const char **options;                 /* FILESYSTEM: key, value (NULL: a flag), key, value … */
    size_t option_count;                  /* of pairs */
};

struct pin_plan_rlimit {
    int resource;
    uint64_t soft, hard;
    bool raised; /* above the caller's own: set from outside, with the caller's capability */
};

struct pin_plan_limits { /* PIN_UNLIMITED (0 for processors): none */
    uint64_t memory_bytes, swap_bytes, pids;
    uint32_t millicpus;
};

/* What only an OCI engine's container has: see plan_engine.c. */
struct pin_plan_engine {
    bool direct;                    /* the bundle's process is executed itself, without an init of ours */
    bool enter_as_root;             /* id 0 of a user namespace is taken while the container is made */
    bool joins_container;           /* an additional process of a container that runs: nothing is made */
    const char *join[PIN_NS_COUNT]; /* namespaces to join, by path; NULL: none */
    unsigned root_propagation;      /* MS_*: of the new root; 0: private */
    uint32_t foreign; /* set of 1u << enum pin_namespace: joined by path, and never the host's */
    bool
        root_apart; /* the mount namespace is others': the new root is in none, and ends with the container */
    bool no_pivot;
    bool cgroup_mounts;       /* the cgroups are entered before the mounts are made */
    struct pin_pair *sysctls; /* path below /proc/sys, value */
    size_t sysctl_count;
    bool has_personality;
    unsigned long personality;
    bool has_io_priority, has_scheduler;
    int io_priority; /* as ioprio_set(2) has it */
    uint32_t scheduler_policy;
    uint64_t scheduler_flags;
    const char *time_offsets;       /* lines for /proc/PID/timens_offsets; NULL: none */
    const char *label_file, *label; /* what the security module's attribute of the next execution becomes */
    const char **unheeded;          /* what has no effect on this host: for the caller to tell */
    size_t unheeded_count;
    const char *mount_label; /* of new file systems; NULL: none */
    char **argv, **envp;     /* envp has room for one more variable before its end */
    size_t env_count;
    bool terminal;
    unsigned kept_descriptors; /* from 3 on */
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

    enum { PIN_ROOT_FROM_TMPFS, PIN_ROOT_FROM_BIND, PIN_ROOT_FROM_LAYERS, PIN_ROOT_JOINED } root;
    uint64_t root_tmpfs_bytes;
    struct pin_op root_bind; /* FROM_BIND */
    struct pin_op *layers;   /* FROM_LAYERS: a bind each, the lowest first */
    size_t layer_count;
    uint64_t upper_bytes; /* FROM_LAYERS: of what is made in the root and written to it */
    bool upper_on_disk;   /* instead of in a tmpfs */
    bool root_read_only;
    bool hands_upper; /* FROM_LAYERS: the builder gets a descriptor of what is written to the root */
    struct pin_op *ops;
    size_t op_count;

    const char *hostname, *domainname;
    bool raise_loopback;
    bool egress; /* connections leave through a broker; then it raises the loopback, too */
    struct pin_egress_plan egress_plan;
    struct pin_publish publish[PIN_PUBLISH_MAX]; /* ports inside that the host can reach */
    size_t publish_count;
    bool forbid_user_namespaces;
    bool bound_watches; /* inotify(7): the host counts them for whoever made the namespace, which may be root
                         */
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

    struct pin_plan_engine engine;
    struct pin_plan_limits limits; /* by cgroup */
    uint32_t missing; /* set of 1u << enum pin_protection: optional ones that this host can't give */
};

/* The plan, or NULL with findings; pin_plan_free() frees it, and NULL is fine. */
struct pin_plan *pin_plan_make(const struct pin_bundle *bundle, const struct pin_host *host,
                               struct pin_findings *found);

/* What an engine's command line adds to the bundle. */
struct pin_engine_request {
    const struct pin_policy *ceiling; /* that has admitted the bundle; NULL: there is none */
    bool joins_container;             /* `exec` */
    bool no_pivot, no_new_keyring;
    unsigned kept_descriptors;
    uint64_t capabilities; /* that the caller may hand on */
    bool privileged; /* it may mount where it is: as the host's root, or as root of an engine's user namespace
                      */
    bool apparmor, selinux; /* are there on this host */
};

/* The same for a container of an engine: every field of the bundle is carried out or refused by name. */
struct pin_plan *pin_plan_make_for_engine(const struct pin_bundle *bundle, const struct pin_host *host,
                                          const struct pin_engine_request *request,
                                          struct pin_findings *found);
void pin_plan_free(struct pin_plan *plan);
