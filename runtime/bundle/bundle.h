/* bundle.h: an OCI runtime configuration and pinfold's extension block, as C structs.
 *
 * The one intermediate form: every front door ends in a struct pin_bundle, and the plan is made from it
 * alone. It is read and written as config.json (bundle_read.h, bundle_write.h). Strings and arrays live in
 * `arena`. A zeroed field is an absent one, unless a `has_` field says otherwise. `mounts` is complete: it
 * has the binds of a skeleton root (struct pin_rootfs lends only its entries) and the workspace, except a
 * copy-on-write one, which is in `ext.workspace` alone. Source: OCI runtime-spec 1.2, config.md and
 * config-linux.md; docs/bundle.md for the "pinfold" block.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/sha256.h"
#include "policy/filter.h"
#include "policy/policy.h"

enum pin_namespace {
    PIN_NS_USER,
    PIN_NS_MOUNT,
    PIN_NS_PID,
    PIN_NS_NETWORK,
    PIN_NS_IPC,
    PIN_NS_UTS,
    PIN_NS_CGROUP,
    PIN_NS_TIME,
    PIN_NS_COUNT
};
const char *pin_namespace_name(enum pin_namespace ns); /* OCI's names: "mount", "network", … */

struct pin_bundle_namespace {
    bool present;     /* false: the host's */
    const char *path; /* join this one; NULL: a new one */
};

struct pin_id_map {
    uint32_t inside, outside, count;
};

struct pin_bundle_mount {
    const char *destination, *type, *source; /* type NULL with "bind" or "rbind" in the options */
    const char **options;
    size_t option_count;
    bool real_source; /* no symbolic link may lead to the source; not written: a bundle that is brought has
                         no other sources */
    struct pin_id_map *uid_maps, *gid_maps; /* an idmapped mount */
    size_t uid_map_count, gid_map_count;
};

struct pin_bundle_rlimit {
    const char *type; /* "RLIMIT_NOFILE" */
    uint64_t soft, hard;
};

struct pin_bundle_hook {
    const char *path;
    const char **args, **env;
    size_t arg_count, env_count;
    uint32_t timeout_s; /* 0: none */
};

enum pin_hook_stage {
    PIN_HOOK_PRESTART,
    PIN_HOOK_CREATE_RUNTIME,
    PIN_HOOK_CREATE_CONTAINER,
    PIN_HOOK_START_CONTAINER,
    PIN_HOOK_POSTSTART,
    PIN_HOOK_POSTSTOP,
    PIN_HOOK_STAGE_COUNT
};
const char *pin_hook_stage_name(enum pin_hook_stage stage); /* "createRuntime" */

struct pin_bundle_device { /* linux.devices */
    char type;             /* 'c', 'b', 'p', 'u' */
    const char *path;
    int64_t major, minor;
    uint32_t mode, uid, gid;
    bool has_mode, has_uid, has_gid;
};

struct pin_bundle_device_rule { /* linux.resources.devices */
    bool allow;
    char type;            /* 'a', 'c', 'b' */
    int64_t major, minor; /* -1: any */
    const char *access;   /* "rwm" */
};

struct pin_pair {
    const char *key, *value;
};

struct pin_bundle_throttle {
    int64_t major, minor;
    uint64_t rate; /* or a weight */
};

struct pin_bundle_resources {
    bool has_memory, has_swap, has_reservation, has_swappiness, has_pids, has_cpu_shares, has_cpu_quota,
        has_cpu_period, has_cpu_burst, has_cpu_idle, has_rt_runtime, has_rt_period, has_blkio_weight,
        has_check_before_update, has_kernel_tcp;
    bool disable_oom_killer, use_hierarchy, check_before_update;
    int64_t memory, swap, reservation,
        kernel_tcp; /* bytes; -1: unlimited; swap is memory + swap, as OCI has it */
    uint64_t swappiness;
    int64_t pids; /* <= 0: unlimited */
    uint64_t cpu_shares, cpu_period, rt_period, cpu_burst;
    int64_t cpu_quota, cpu_idle, rt_runtime;
    const char *cpuset_cpus, *cpuset_mems;
    uint16_t blkio_weight;
    struct pin_bundle_throttle *weight_device, *read_bps, *write_bps, *read_iops, *write_iops;
    size_t weight_device_count, read_bps_count, write_bps_count, read_iops_count, write_iops_count;
    struct pin_pair *hugepages; /* page size, limit in bytes */
    size_t hugepage_count;
    struct pin_bundle_device_rule *devices;
    size_t device_count;
    struct pin_pair *unified; /* cgroup v2 file, value */
    size_t unified_count;
    struct pin_pair *net_priorities; /* interface, priority */
    size_t net_priority_count;
    uint32_t net_class_id;
    struct pin_pair *rdma; /* name, "hca_handle=N hca_object=N" */
    size_t rdma_count;
};

enum pin_cap_set {
    PIN_CAP_BOUNDING,
    PIN_CAP_EFFECTIVE,
    PIN_CAP_INHERITABLE,
    PIN_CAP_PERMITTED,
    PIN_CAP_AMBIENT,
    PIN_CAP_SET_COUNT
};

/* What an image contributes when the root isn't a directory: see images/rootfs.h. */
struct pin_rootfs;

enum pin_on_exit { PIN_ON_EXIT_DISCARD, PIN_ON_EXIT_KEEP, PIN_ON_EXIT_MERGE, PIN_ON_EXIT_COUNT };

/* The "pinfold" block. */
struct pin_bundle_ext {
    bool present;
    const char *policy_name;
    uint8_t policy_digest[PIN_SHA256_SIZE];
    const char *image; /* "host", … */
    struct {
        const char *source; /* absolute on the host; NULL: none */
        const char *target; /* "/workspace" */
        enum pin_access access;
        uint64_t size_bytes; /* of copy-on-write */
        enum pin_on_exit on_exit;
    } workspace;
    struct {
        bool enabled;
        const char **write; /* absolute inside; all else is read and execute only */
        size_t write_count;
    } landlock;
    uint64_t wall_time_ns, cpu_time_ns, grace_ns; /* PIN_UNLIMITED: none */
    uint64_t stdout_bytes, stderr_bytes, frame_bytes;
    enum pin_on_cap on_output_cap;
    uint32_t frames;                              /* enum pin_frames */
    struct pin_egress_rule *egress, *egress_deny; /* a refusal beats every grant, for both protocols */
    size_t egress_count, egress_deny_count;
    struct pin_egress_budget *egress_budgets; /* those that rules name */
    size_t egress_budget_count;
    bool has_egress_limits;
    struct pin_egress_limits egress_limits; /* of the whole sandbox */
    enum pin_unknown_names unknown_names;
    const char *proxy_url, *proxy_secret; /* NULL: none */
    const char **publish;                 /* policy/publish.h: ports inside that the host can reach */
    size_t publish_count;
    const char **secrets;
    size_t secret_count;
    bool secret_folder; /* also for files that are handed in later; not in the document */
    struct pin_pair *labels;
    size_t label_count;
    struct {
        bool enabled; /* the root is written to in an overlay; `root.read_only` is false then */
        uint64_t size_bytes;
        enum pin_root_storage storage;
    } root_overlay;
    const char **layers; /* of a root that is a stack: absolute directories, the lowest first */
    size_t layer_count;
    const char **record; /* what the audit log keeps: policy.audit.record */
    size_t record_count;
    bool audit_sync; /* policy.audit */
    enum pin_audit_failure audit_failure;
    struct pin_pair *places; /* "/resources/memory", "file:line:column": see bundle_places.h */
    size_t place_count;
    uint32_t ids;      /* policy.identity.ids */
    uint32_t optional; /* set of 1u << enum pin_protection */
};

struct pin_bundle {
    struct pin_arena arena;
    const char *directory; /* absolute, of config.json; NULL for a bundle that was never on disk */
    const char *text;      /* the bytes that were read there: what is kept is what was judged; or NULL */
    size_t text_size;
    const char *oci_version;
    struct {
        bool terminal;
        uint16_t console_rows, console_columns;
        const char **args, **env;
        size_t arg_count, env_count;
        const char *cwd;
        uint32_t uid, gid, umask;
        bool has_umask;
        uint32_t *groups;
        size_t group_count;
        uint64_t capabilities[PIN_CAP_SET_COUNT];
        bool has_capabilities;
        const char **unknown_capabilities; /* words that name none: of a kernel to come, or misspelt */
        size_t unknown_capability_count;
        struct pin_bundle_rlimit *rlimits;
        size_t rlimit_count;
        bool no_new_privileges;
        bool has_oom_score_adj;
        int32_t oom_score_adj;
        const char *apparmor_profile, *selinux_label;
        bool has_io_priority, has_scheduler;
        const char *io_priority_class;
        int32_t io_priority;
        const char *scheduler_policy;
        int32_t scheduler_nice, scheduler_priority;
        const char **scheduler_flags;
        size_t scheduler_flag_count;
        uint64_t scheduler_runtime, scheduler_deadline, scheduler_period;
    } process;
    struct {
        const char *path; /* relative to `directory`, or absolute; NULL when `rootfs` gives the root */
        bool read_only;
    } root;
    const struct pin_rootfs *rootfs; /* borrowed or in the arena */
    const char *hostname, *domainname;
    struct pin_bundle_mount *mounts;
    size_t mount_count;
    struct pin_bundle_hook *hooks[PIN_HOOK_STAGE_COUNT];
    size_t hook_count[PIN_HOOK_STAGE_COUNT];
    struct pin_bundle_namespace namespaces[PIN_NS_COUNT];
    struct pin_id_map *uid_maps, *gid_maps; /* none: pinfold chooses */
    size_t uid_map_count, gid_map_count;
    struct pin_bundle_device *devices;
    size_t device_count;
    const char *cgroups_path;
    struct pin_bundle_resources resources;
    const char *rootfs_propagation, *mount_label;
    struct pin_filter seccomp;
    struct pin_filter
        ceiling_filter; /* of the policy above an engine's bundle: both hold; never written out */
    const char **masked_paths, **readonly_paths;
    size_t masked_path_count, readonly_path_count;
    struct pin_pair *sysctls;
    size_t sysctl_count;
    const char *personality_domain;
    struct pin_pair *time_offsets; /* clock, "secs.nanosecs" */
    size_t time_offset_count;
    struct pin_pair *annotations;
    size_t annotation_count;
    struct pin_bundle_ext ext;
};

/* An empty bundle with an arena of its own. */
struct pin_bundle *pin_bundle_new(void);
/* Frees the bundle and all that it owns; NULL is fine. */
void pin_bundle_free(struct pin_bundle *bundle);
bool pin_bundle_has_hooks(const struct pin_bundle *bundle); /* of any stage */
