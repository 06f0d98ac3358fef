#include "runtime/bundle/resolve.h"

#include <inttypes.h>
#include <string.h>

#include "base/names.h"
#include "base/units.h"
#include "policy/policy_read.h"
#include "runtime/bundle/resolve_env.h"
#include "runtime/bundle/resolve_mounts.h"

static const char *copy_text(struct pin_bundle *bundle, const char *text) {
    return text == NULL ? NULL : pin_arena_strdup(&bundle->arena, text);
}

static const char **copy_list(struct pin_bundle *bundle, const char *const *items, size_t count) {
    const char **list = pin_arena_array(&bundle->arena, count, sizeof(*list));
    for (size_t i = 0; i < count; i++)
        list[i] = copy_text(bundle, items[i]);
    return list;
}

static const char **copy_strings(struct pin_bundle *bundle, const struct pin_strings *strings) {
    const char **list = pin_arena_array(&bundle->arena, strings->count, sizeof(*list));
    for (size_t i = 0; i < strings->count; i++)
        list[i] = copy_text(bundle, strings->items[i].text);
    return list;
}

/* What a process may not raise again. Limits that the sandbox's cgroup has are not repeated. */
static void set_rlimits(struct pin_bundle *bundle, const struct pin_policy *policy) {
    const struct pin_bundle_rlimit limits[] = {
        {"RLIMIT_NOFILE",     policy->resources.files,      policy->resources.files     },
        {"RLIMIT_CORE",       policy->resources.core_bytes, policy->resources.core_bytes},
        {"RLIMIT_MEMLOCK",    64 * PIN_KIB,                 64 * PIN_KIB                },
        {"RLIMIT_MSGQUEUE",   0,                            0                           }, /* kernel memory that no page of the sandbox accounts for */
        {"RLIMIT_RTPRIO",     0,                            0                           },
        {"RLIMIT_NICE",       0,                            0                           },
        {"RLIMIT_SIGPENDING", 4096,                         4096                        },
    };
    bundle->process.rlimits = pin_arena_memdup(&bundle->arena, limits, sizeof(limits));
    bundle->process.rlimit_count = PIN_COUNT(limits);
}

static const char *working_directory(const struct pin_bundle *bundle, const struct pin_request *request) {
    if (request->cwd != NULL)
        return request->cwd;
    if (bundle->ext.workspace.source != NULL)
        return bundle->ext.workspace.target;
    for (size_t i = 0; i < bundle->mount_count; i++)
        if (strcmp(bundle->mounts[i].destination, "/tmp") == 0)
            return "/tmp";
    return "/";
}

static void set_process(struct pin_bundle *bundle, const struct pin_policy *policy,
                        const struct pin_request *request) {
    bundle->process.terminal = request->tty;
    bundle->process.console_rows = request->rows;
    bundle->process.console_columns = request->columns;
    bundle->process.args = copy_list(bundle, request->args, request->arg_count);
    bundle->process.arg_count = request->arg_count;
    bundle->process.cwd = copy_text(bundle, working_directory(bundle, request));
    bundle->process.uid = policy->identity.user;
    bundle->process.gid = policy->identity.group;
    bundle->process.has_umask = true;
    bundle->process.umask = 022;
    bundle->process.no_new_privileges = true;
    bundle->process.has_capabilities = true;
    bundle->process.capabilities[PIN_CAP_BOUNDING] = policy->capabilities;
    bundle->process.capabilities[PIN_CAP_EFFECTIVE] = policy->capabilities;
    bundle->process.capabilities[PIN_CAP_PERMITTED] = policy->capabilities;
    /* without ambient ones a user other than 0 would lose them at execve(2); inheritable is their ground */
    bundle->process.capabilities[PIN_CAP_INHERITABLE] = policy->capabilities;
    bundle->process.capabilities[PIN_CAP_AMBIENT] = policy->capabilities;
    set_rlimits(bundle, policy);
    pin_resolve_env(bundle, policy, request);
}

static int64_t bytes_or_unlimited(uint64_t bytes) {
    return bytes > INT64_MAX ? -1 : (int64_t)bytes;
}

static void set_resources(struct pin_bundle *bundle, const struct pin_policy *policy) {
    struct pin_bundle_resources *to = &bundle->resources;
    uint64_t memory = policy->resources.memory_bytes, total;
    if (memory != PIN_UNLIMITED) {
        to->has_memory = true;
        to->memory = bytes_or_unlimited(memory);
        to->has_swap = true; /* OCI counts memory and swap together */
        to->swap = __builtin_add_overflow(memory, policy->resources.swap_bytes, &total)
                       ? -1
                       : bytes_or_unlimited(total);
    }
    if (policy->resources.pids != PIN_UNLIMITED) {
        to->has_pids = true;
        to->pids = bytes_or_unlimited(policy->resources.pids);
    }
    if (policy->resources.millicpus != 0) {
        to->has_cpu_period = to->has_cpu_quota = true;
        to->cpu_period = 100000; /* microseconds: the kernel's own default */
        to->cpu_quota = (int64_t)policy->resources.millicpus * 100;
    }
}

/* Kernel tables that tell of the host or of other sandboxes; what isn't there is no error. */
static const char *const masked_paths[] = {
    "/proc/acpi",
    "/proc/asound",
    "/proc/interrupts",
    "/proc/kallsyms",
    "/proc/kcore",
    "/proc/key-users",
    "/proc/keys",
    "/proc/kmsg",
    "/proc/kpagecgroup",
    "/proc/kpagecount",
    "/proc/kpageflags",
    "/proc/latency_stats",
    "/proc/scsi",
    "/proc/sched_debug",
    "/proc/slabinfo",
    "/proc/timer_list",
    "/proc/timer_stats",
    "/sys/firmware",
    "/sys/devices/virtual/powercap",
};
static const char *const readonly_paths[] = {
    "/proc/bus", "/proc/fs", "/proc/irq", "/proc/sys", "/proc/sysrq-trigger",
};

static void set_walls(struct pin_bundle *bundle) {
    bundle->masked_paths = copy_list(bundle, masked_paths, PIN_COUNT(masked_paths));
    bundle->masked_path_count = PIN_COUNT(masked_paths);
    bundle->readonly_paths = copy_list(bundle, readonly_paths, PIN_COUNT(readonly_paths));
    bundle->readonly_path_count = PIN_COUNT(readonly_paths);
    for (size_t i = 0; i < PIN_NS_COUNT; i++)
        bundle->namespaces[i].present = true;
}

static void set_root(struct pin_bundle *bundle, const struct pin_policy *policy,
                     const struct pin_rootfs *rootfs) {
    bundle->rootfs = rootfs;
    if (rootfs->kind == PIN_ROOTFS_DIRECTORY)
        bundle->root.path = copy_text(bundle, rootfs->directory);
    if (rootfs->kind == PIN_ROOTFS_LAYERS) {
        bundle->ext.layers = copy_list(bundle, rootfs->layers, rootfs->layer_count);
        bundle->ext.layer_count = rootfs->layer_count;
    }
    bundle->root.read_only = policy->filesystem.root == PIN_ROOT_READ_ONLY;
    bundle->ext.root_overlay.enabled = policy->filesystem.root == PIN_ROOT_OVERLAY;
    if (bundle->ext.root_overlay.enabled)
        bundle->ext.root_overlay.size_bytes = policy->filesystem.root_size_bytes;
}

static void set_workspace(struct pin_bundle *bundle, const struct pin_policy *policy,
                          const struct pin_request *request) {
    if (request->workspace.source == NULL || policy->filesystem.workspace == PIN_ACCESS_NONE)
        return;
    bundle->ext.workspace.source = copy_text(bundle, request->workspace.source);
    bundle->ext.workspace.target = PIN_WORKSPACE_TARGET;
    bundle->ext.workspace.access = policy->filesystem.workspace;
    bundle->ext.workspace.on_exit = request->workspace.on_exit;
    if (policy->filesystem.workspace == PIN_ACCESS_COW)
        bundle->ext.workspace.size_bytes = policy->filesystem.workspace_size_bytes;
}

static void copy_egress(struct pin_bundle *bundle, const struct pin_policy *policy) {
    size_t count = policy->network.egress_count;
    bundle->ext.egress = pin_arena_array(&bundle->arena, count, sizeof(*bundle->ext.egress));
    bundle->ext.egress_count = count;
    for (size_t i = 0; i < count; i++) {
        struct pin_egress_rule *rule = &bundle->ext.egress[i];
        *rule = policy->network.egress[i];
        rule->host = copy_text(bundle, rule->host);
        rule->ports = pin_arena_memdup(&bundle->arena, rule->ports, rule->port_count * sizeof(*rule->ports));
        rule->place = (struct pin_place){0}; /* it points into the policy */
    }
}

static void copy_labels(struct pin_bundle *bundle, const struct pin_request *request) {
    bundle->ext.labels = pin_arena_array(&bundle->arena, request->label_count, sizeof(*bundle->ext.labels));
    bundle->ext.label_count = request->label_count;
    for (size_t i = 0; i < request->label_count; i++)
        bundle->ext.labels[i] = (struct pin_pair){.key = copy_text(bundle, request->labels[i].key),
                                                  .value = copy_text(bundle, request->labels[i].value)};
}

static void set_limits(struct pin_bundle_ext *ext, const struct pin_policy *policy) {
    ext->wall_time_ns = policy->resources.wall_time_ns;
    ext->cpu_time_ns = policy->resources.cpu_time_ns;
    ext->grace_ns = policy->resources.grace_ns;
    ext->stdout_bytes = policy->resources.stdout_bytes;
    ext->stderr_bytes = policy->resources.stderr_bytes;
    ext->frame_bytes = policy->resources.frame_bytes;
    ext->on_output_cap = policy->resources.on_output_cap;
}

static void set_ext(struct pin_bundle *bundle, const struct pin_policy *policy,
                    const struct pin_request *request) {
    struct pin_bundle_ext *ext = &bundle->ext;
    ext->present = true;
    ext->policy_name = copy_text(bundle, policy->name);
    memcpy(ext->policy_digest, policy->digest, sizeof(ext->policy_digest));
    ext->image = copy_text(bundle, request->image != NULL ? request->image : "host");
    set_limits(ext, policy);
    ext->frames = policy->frames;
    ext->secrets = copy_strings(bundle, &policy->secrets);
    ext->secret_count = policy->secrets.count;
    ext->record = copy_strings(bundle, &policy->audit.record);
    ext->record_count = policy->audit.record.count;
    ext->ids = policy->identity.ids;
    ext->optional = policy->optional;
    copy_egress(bundle, policy);
    copy_labels(bundle, request);
}

struct pin_bundle *pin_resolve(const struct pin_policy *effective, const struct pin_request *request,
                               const struct pin_rootfs *rootfs, struct pin_findings *found) {
    struct pin_bundle *bundle = pin_bundle_new();
    bundle->oci_version = "1.2.0";
    bundle->hostname =
        copy_text(bundle, request->hostname != NULL ? request->hostname : PIN_DEFAULT_HOSTNAME);
    set_root(bundle, effective, rootfs);
    set_workspace(bundle, effective, request);
    set_ext(bundle, effective, request);
    pin_resolve_mounts(bundle, effective, rootfs);
    set_process(bundle, effective, request);
    set_resources(bundle, effective);
    set_walls(bundle);
    if (!pin_policy_filter(effective, pin_arch_native(), &bundle->arena, &bundle->seccomp, found)) {
        pin_bundle_free(bundle);
        return NULL;
    }
    return bundle;
}
