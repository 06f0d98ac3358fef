#include "runtime/bundle/fill.h"

#include <string.h>

#include "base/names.h"
#include "base/units.h"
#include "policy/checks.h"
#include "policy/egress_rule.h"
#include "policy/egress_terms.h"
#include "runtime/bundle/bundle_places.h"
#include "runtime/bundle/resolve.h"

static bool has_rlimit(const struct pin_bundle *bundle, const char *type) {
    for (size_t i = 0; i < bundle->process.rlimit_count; i++)
        if (strcmp(bundle->process.rlimits[i].type, type) == 0)
            return true;
    return false;
}

#define FILES_MOST UINT64_C(1048576) /* fs.nr_open of every usual host */

/* What a process may not raise again. Limits that the sandbox's cgroup has are not repeated; the memory of
 * message queues is the kernel's, for which no page of the sandbox accounts. */
void pin_fill_rlimits(struct pin_bundle *bundle, const struct pin_policy *policy) {
    uint64_t files = policy->resources.files < FILES_MOST ? policy->resources.files : FILES_MOST;
    const struct pin_bundle_rlimit limits[] = {
        {"RLIMIT_NOFILE",     files,                        files                       },
        {"RLIMIT_CORE",       policy->resources.core_bytes, policy->resources.core_bytes},
        {"RLIMIT_MEMLOCK",    64 * PIN_KIB,                 64 * PIN_KIB                },
        {"RLIMIT_MSGQUEUE",   0,                            0                           },
        {"RLIMIT_RTPRIO",     0,                            0                           },
        {"RLIMIT_NICE",       0,                            0                           },
        {"RLIMIT_SIGPENDING", 1024,                         1024                        },
    };
    size_t count = bundle->process.rlimit_count;
    struct pin_bundle_rlimit *all = pin_arena_array(&bundle->arena, count + PIN_COUNT(limits), sizeof(*all));
    if (count > 0)
        memcpy(all, bundle->process.rlimits, count * sizeof(*all));
    for (size_t i = 0; i < PIN_COUNT(limits); i++)
        if (!has_rlimit(bundle, limits[i].type))
            all[count++] = limits[i];
    bundle->process.rlimits = all;
    bundle->process.rlimit_count = count;
}

static int64_t bytes_or_unlimited(uint64_t bytes) {
    return bytes > INT64_MAX ? -1 : (int64_t)bytes;
}

void pin_fill_memory(struct pin_bundle_resources *to, const struct pin_policy *policy) {
    if ((!to->has_memory || to->memory == 0) && policy->resources.memory_bytes != PIN_UNLIMITED) {
        to->has_memory = true;
        to->memory = bytes_or_unlimited(policy->resources.memory_bytes);
    }
    uint64_t total; /* OCI counts memory and swap together */
    if ((to->has_swap && to->swap != 0) || !to->has_memory || to->memory <= 0)
        return;
    to->has_swap = true;
    to->swap = __builtin_add_overflow((uint64_t)to->memory, policy->resources.swap_bytes, &total)
                   ? -1
                   : bytes_or_unlimited(total);
}

void pin_fill_resources(struct pin_bundle *bundle, const struct pin_policy *policy) {
    struct pin_bundle_resources *to = &bundle->resources;
    pin_fill_memory(to, policy);
    if ((!to->has_pids || to->pids == 0) && policy->resources.pids != PIN_UNLIMITED) {
        to->has_pids = true;
        to->pids = bytes_or_unlimited(policy->resources.pids);
    }
    if ((!to->has_cpu_quota || to->cpu_quota == 0) && policy->resources.millicpus != 0) {
        if (!to->has_cpu_period || to->cpu_period == 0)
            to->cpu_period = PIN_CPU_PERIOD_US;
        to->has_cpu_period = to->has_cpu_quota = true;
        to->cpu_quota = (int64_t)(policy->resources.millicpus * to->cpu_period / 1000);
    }
}

void pin_fill_limits(struct pin_bundle_ext *ext, const struct pin_policy *policy) {
    const struct {
        uint64_t *to;
        uint64_t value;
    } rows[] = {
        {&ext->wall_time_ns, policy->resources.wall_time_ns},
        {&ext->cpu_time_ns,  policy->resources.cpu_time_ns },
        {&ext->grace_ns,     policy->resources.grace_ns    },
        {&ext->stdout_bytes, policy->resources.stdout_bytes},
        {&ext->stderr_bytes, policy->resources.stderr_bytes},
        {&ext->frame_bytes,  policy->resources.frame_bytes },
    };
    for (size_t i = 0; i < PIN_COUNT(rows); i++)
        if (*rows[i].to == 0)
            *rows[i].to = rows[i].value;
    if (ext->on_output_cap < policy->resources.on_output_cap) /* the later word is the harder one */
        ext->on_output_cap = policy->resources.on_output_cap;
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
/* What names the host's devices, its way of starting or its boot, or shows what its processes do, and no
 * ordinary program asks for. Engines' containers keep it, as they have it elsewhere. */
static const char *const telling_paths[] = {
    "/proc/bootconfig", "/proc/bus",     "/proc/cmdline",
    "/proc/diskstats",  "/proc/driver",  "/proc/fs",
    "/proc/iomem",      "/proc/ioports", "/proc/irq",
    "/proc/locks",      "/proc/mdstat",  "/proc/modules",
    "/proc/partitions", "/proc/swaps",   "/proc/sys/kernel/random/boot_id",
};
static const char *const readonly_paths[] = {
    "/proc/bus", "/proc/fs", "/proc/irq", "/proc/sys", "/proc/sysrq-trigger",
};

static void unite(struct pin_arena *arena, const char ***list, size_t *count, const char *const *more,
                  size_t more_count) {
    const char **all = pin_arena_array(arena, *count + more_count, sizeof(*all));
    size_t used = *count;
    if (used > 0)
        memcpy(all, *list, used * sizeof(*all));
    for (size_t i = 0; i < more_count; i++) {
        bool there = false;
        for (size_t j = 0; j < *count && !there; j++)
            there = strcmp((*list)[j], more[i]) == 0;
        if (!there)
            all[used++] = more[i];
    }
    *list = all;
    *count = used;
}

void pin_fill_masks(struct pin_bundle *bundle) {
    unite(&bundle->arena, &bundle->masked_paths, &bundle->masked_path_count, masked_paths,
          PIN_COUNT(masked_paths));
    unite(&bundle->arena, &bundle->readonly_paths, &bundle->readonly_path_count, readonly_paths,
          PIN_COUNT(readonly_paths));
}

void pin_fill_telling_masks(struct pin_bundle *bundle) {
    unite(&bundle->arena, &bundle->masked_paths, &bundle->masked_path_count, telling_paths,
          PIN_COUNT(telling_paths));
}

static void allow_write(struct pin_bundle *bundle, const char *path) {
    *(const char **)pin_arena_grow(&bundle->arena, &bundle->ext.landlock.write,
                                   &bundle->ext.landlock.write_count, sizeof(const char *)) =
        pin_arena_strdup(&bundle->arena, path);
}

void pin_fill_workspace_landlock(struct pin_bundle *bundle) {
    enum pin_access access = bundle->ext.workspace.access;
    if (bundle->ext.landlock.enabled && (access == PIN_ACCESS_WRITE || access == PIN_ACCESS_COW))
        allow_write(bundle, bundle->ext.workspace.target);
}

void pin_fill_landlock(struct pin_bundle *bundle, const struct pin_policy *policy) {
    if (bundle->ext.landlock.enabled)
        return;
    bundle->ext.landlock.enabled = true;
    allow_write(bundle, "/dev"); /* its nodes and terminals; the file system itself can't be written to */
    pin_fill_workspace_landlock(bundle);
    for (size_t i = 0; i < policy->filesystem.write.count; i++) {
        const char *path = policy->filesystem.write.items[i].text;
        if (!pin_path_beneath(path, PIN_WORKSPACE_TARGET) && !pin_path_beneath(path, "/dev"))
            allow_write(bundle, path);
    }
}

static const char **copy_strings(struct pin_arena *arena, const struct pin_strings *strings) {
    const char **list = pin_arena_array(arena, strings->count, sizeof(*list));
    for (size_t i = 0; i < strings->count; i++)
        list[i] = pin_arena_strdup(arena, strings->items[i].text);
    return list;
}

static void copy_rule(struct pin_bundle *bundle, struct pin_egress_rule *rule,
                      const struct pin_egress_rule *from) {
    *rule = *from;
    rule->host = rule->host == NULL ? NULL : pin_arena_strdup(&bundle->arena, rule->host);
    rule->ports = pin_arena_memdup(&bundle->arena, rule->ports, rule->port_count * sizeof(*rule->ports));
    if (rule->place.file != NULL)
        rule->place.file = pin_arena_strdup(&bundle->arena, rule->place.file);
}

static void copy_egress(struct pin_bundle *bundle, const struct pin_policy *policy) {
    size_t count = policy->network.egress_count;
    bundle->ext.egress = pin_arena_array(&bundle->arena, count, sizeof(*bundle->ext.egress));
    bundle->ext.egress_count = count;
    for (size_t i = 0; i < count; i++)
        copy_rule(bundle, &bundle->ext.egress[i], &policy->network.egress[i]);
}

static void copy_budgets(struct pin_bundle *bundle, const struct pin_policy *policy) {
    size_t count = policy->network.budget_count;
    bundle->ext.egress_budgets = pin_arena_memdup(&bundle->arena, policy->network.budgets,
                                                  count * sizeof(*bundle->ext.egress_budgets));
    bundle->ext.egress_budget_count = count;
    for (size_t i = 0; i < count; i++) {
        struct pin_egress_budget *budget = &bundle->ext.egress_budgets[i];
        budget->name = pin_arena_strdup(&bundle->arena, budget->name);
        budget->place = (struct pin_place){0};
    }
}

static bool is_denied_already(const struct pin_bundle_ext *ext, const struct pin_egress_rule *rule) {
    for (size_t i = 0; i < ext->egress_deny_count; i++)
        if (pin_egress_same(&ext->egress_deny[i], rule))
            return true;
    return false;
}

/* A bundle may bring refusals of its own; the policy's are there in any case. */
static void add_refusals(struct pin_bundle *bundle, const struct pin_policy *policy) {
    struct pin_bundle_ext *ext = &bundle->ext;
    size_t own = ext->egress_deny_count, most = own + policy->network.deny_count;
    struct pin_egress_rule *all = pin_arena_array(&bundle->arena, most, sizeof(*all));
    for (size_t i = 0; i < own; i++)
        all[i] = ext->egress_deny[i];
    ext->egress_deny = all;
    for (size_t i = 0; i < policy->network.deny_count; i++)
        if (!is_denied_already(ext, &policy->network.deny[i]))
            copy_rule(bundle, &all[ext->egress_deny_count++], &policy->network.deny[i]);
}

static const char *copy_unless_empty(struct pin_bundle *bundle, const char *text) {
    return text == NULL || *text == '\0' ? NULL : pin_arena_strdup(&bundle->arena, text);
}

void pin_fill_grants(struct pin_bundle *bundle, const struct pin_policy *policy) {
    struct pin_bundle_ext *ext = &bundle->ext;
    if (ext->egress == NULL)
        copy_egress(bundle, policy);
    if (ext->egress_budget_count == 0)
        copy_budgets(bundle, policy);
    (void)pin_egress_give_budgets(ext->egress, ext->egress_count, ext->egress_budgets,
                                  ext->egress_budget_count); /* that all are there the ceiling has seen to */
    if (!ext->has_egress_limits) {
        ext->has_egress_limits = true;
        ext->egress_limits = policy->network.limits;
    }
    if (ext->publish == NULL) {
        ext->publish = copy_strings(&bundle->arena, &policy->network.publish);
        ext->publish_count = policy->network.publish.count;
    }
    ext->proxy_url = copy_unless_empty(bundle, policy->network.proxy_url); /* the way out is the policy's */
    ext->proxy_secret = copy_unless_empty(bundle, policy->network.proxy_secret);
    if (ext->unknown_names < policy->network.unknown_names) /* the later word is the harder one */
        ext->unknown_names = policy->network.unknown_names;
    add_refusals(bundle, policy);
    if (ext->record == NULL) {
        ext->record = copy_strings(&bundle->arena, &policy->audit.record);
        ext->record_count = policy->audit.record.count;
        ext->audit_failure = policy->audit.on_failure;
    }
    ext->audit_sync = ext->audit_sync || policy->audit.sync;
    if (ext->ids == 0)
        ext->ids = policy->identity.ids;
    ext->optional = policy->optional;
    pin_fill_places(bundle, policy);
}
