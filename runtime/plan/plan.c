#include "runtime/plan/plan.h"

#include <inttypes.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include <linux/mount.h>

#include "base/names.h"
#include "base/units.h"
#include "images/rootfs.h"
#include "runtime/egress/session.h"
#include "runtime/plan/plan_mounts.h"
#include "runtime/plan/plan_parts.h"
#include "runtime/plan/plan_refuse.h"

#define RANGE_IDS 65536u

const uint64_t pin_plan_clone_flags[PIN_NS_COUNT] = {
    [PIN_NS_USER] = CLONE_NEWUSER,     [PIN_NS_MOUNT] = CLONE_NEWNS,
    [PIN_NS_PID] = CLONE_NEWPID,       [PIN_NS_NETWORK] = CLONE_NEWNET,
    [PIN_NS_IPC] = CLONE_NEWIPC,       [PIN_NS_UTS] = CLONE_NEWUTS,
    [PIN_NS_CGROUP] = CLONE_NEWCGROUP, [PIN_NS_TIME] = 0x80 /* CLONE_NEWTIME */,
};

static void plan_namespaces(struct pin_plan *plan, const struct pin_host *host, struct pin_findings *found) {
    const struct pin_bundle *bundle = plan->bundle;
    for (int ns = 0; ns < PIN_NS_COUNT; ns++) {
        const char *name = pin_namespace_name((enum pin_namespace)ns);
        if (bundle->namespaces[ns].path != NULL)
            (void)pin_find(found, PIN_ERROR_UNSUPPORTED, "/linux/namespaces", "leave the path out",
                           "a %s namespace can't be joined by path here", name);
        if (ns == PIN_NS_TIME && !host->time_namespaces)
            continue; /* a kernel without them has nothing to hide behind one: the clocks can't be set anyway
                       */
        if (bundle->namespaces[ns].present)
            plan->clone_flags |= pin_plan_clone_flags[ns];
        else if (ns != PIN_NS_TIME)
            (void)pin_find(found, PIN_ERROR_UNSUPPORTED, "/linux/namespaces", "add it to the list",
                           "a sandbox without a %s namespace of its own", name);
    }
}

static struct pin_id_map *one_map(struct pin_plan *plan, uint32_t inside, uint32_t outside, uint32_t count) {
    struct pin_id_map *map = pin_arena_alloc(&plan->arena, sizeof(*map));
    *map = (struct pin_id_map){inside, outside, count};
    return map;
}

/* Subordinate ids for all but one id inside, which is the user's own: [0, own), own, (own, ids). */
static struct pin_id_map *maps_around(struct pin_plan *plan, const struct pin_id_map *own, uint32_t first,
                                      uint32_t ids, size_t *count) {
    const struct pin_id_map parts[] = {
        {0,               first,               own->inside          },
        *own,
        {own->inside + 1, first + own->inside, ids - own->inside - 1},
    };
    struct pin_id_map *maps = pin_arena_array(&plan->arena, PIN_COUNT(parts), sizeof(*maps));
    *count = 0;
    for (size_t i = 0; i < PIN_COUNT(parts); i++)
        if (parts[i].count > 0)
            maps[(*count)++] = parts[i];
    return maps;
}

/* The layers of an ordinary user's store belong to that user, who must be somebody inside: the one that the
 * command runs as, as with a single id. */
static void map_own_ids(struct pin_plan *plan, const struct pin_host *host) {
    const struct pin_bundle *bundle = plan->bundle;
    const struct pin_id_map uid = {bundle->process.uid, host->uid, 1},
                            gid = {bundle->process.gid, host->gid, 1};
    uint32_t ids = bundle->ext.ids;
    if (uid.inside >= ids || gid.inside >= ids)
        return;
    plan->uid_maps = maps_around(plan, &uid, host->subuids.start, ids, &plan->uid_map_count);
    plan->gid_maps = maps_around(plan, &gid, host->subgids.start, ids, &plan->gid_map_count);
}

/* An ordinary user has one id to give, or a range of subordinate ones when the policy asks for more. */
static void plan_user_maps(struct pin_plan *plan, const struct pin_host *host, struct pin_findings *found) {
    const struct pin_bundle *bundle = plan->bundle;
    uint32_t ids = bundle->ext.ids;
    if (ids <= 1) {
        plan->uid_maps = one_map(plan, bundle->process.uid, host->uid, 1);
        plan->gid_maps = one_map(plan, bundle->process.gid, host->gid, 1);
        if (bundle->process.group_count > 0)
            (void)pin_find(found, PIN_ERROR_UNSUPPORTED, "/identity/ids", "set identity.ids to 65536",
                           "additional groups need more than one id");
        return;
    }
    if (host->subuids.count < ids || host->subgids.count < ids) {
        (void)pin_find(found, PIN_ERROR_UNSUPPORTED, "/identity/ids",
                       "add a range to /etc/subuid and /etc/subgid with usermod",
                       "the policy asks for %u ids and this user has %u subordinate uids and %u gids", ids,
                       host->subuids.count, host->subgids.count);
        return;
    }
    plan->uid_maps = one_map(plan, 0, host->subuids.start, ids);
    plan->gid_maps = one_map(plan, 0, host->subgids.start, ids);
    if (bundle->rootfs != NULL && bundle->rootfs->kind == PIN_ROOTFS_LAYERS)
        map_own_ids(plan, host);
    plan->map_method = PIN_MAP_HELPERS;
    plan->may_set_groups = true;
}

static void plan_maps(struct pin_plan *plan, const struct pin_host *host, struct pin_findings *found) {
    plan->uid_map_count = plan->gid_map_count = 1;
    if (plan->privileged) {
        plan->ranged = true;
        plan->may_set_groups = true;
        plan->uid_maps = one_map(plan, 0, 0, RANGE_IDS);
        plan->gid_maps = one_map(plan, 0, 0, RANGE_IDS);
    } else {
        plan_user_maps(plan, host, found);
    }
    if (plan->bundle->process.uid >= RANGE_IDS || plan->bundle->process.gid >= RANGE_IDS)
        (void)pin_find(found, PIN_ERROR_INVALID, "/process/user", "choose ids below 65536",
                       "a sandbox has the ids 0 to 65535");
}

void pin_plan_root(struct pin_plan *plan, struct pin_findings *found) {
    const struct pin_bundle *bundle = plan->bundle;
    plan->root_read_only = bundle->root.read_only;
    if (bundle->rootfs != NULL && bundle->rootfs->kind == PIN_ROOTFS_SKELETON) {
        plan->root = PIN_ROOT_FROM_TMPFS;
        plan->root_tmpfs_bytes = 4 * PIN_MIB;
        if (bundle->ext.root_overlay.enabled && bundle->ext.root_overlay.storage == PIN_ROOT_ON_DISK)
            (void)pin_find(found, PIN_ERROR_UNSUPPORTED, "/filesystem/root_storage",
                           "name an image, or set it to \"memory\"",
                           "the root of the host image is in memory");
        return;
    }
    if (bundle->rootfs != NULL && bundle->rootfs->kind == PIN_ROOTFS_LAYERS) {
        pin_plan_layers(plan, found);
        return;
    }
    const char *path = bundle->root.path;
    if (bundle->rootfs != NULL && bundle->rootfs->kind == PIN_ROOTFS_DIRECTORY)
        path = bundle->rootfs->directory;
    if (path == NULL || (path[0] != '/' && bundle->directory == NULL)) {
        (void)pin_find(found, PIN_ERROR_INVALID, "/root/path", NULL, "the bundle names no root filesystem");
        return;
    }
    if (path[0] != '/')
        path = pin_arena_printf(&plan->arena, "%s/%s", bundle->directory, path);
    if (!bundle->root.read_only && bundle->ext.root_overlay.enabled && !plan->engine.direct) {
        pin_plan_directory_overlay(plan, path, found);
        return;
    }
    plan->root = PIN_ROOT_FROM_BIND;
    plan->root_bind.kind = PIN_OP_BIND;
    plan->root_bind.target = "";
    plan->root_bind.source = path;
    plan->root_bind.recursive = true;
    plan->root_bind.below = !plan->engine.direct && plan->root_read_only ? MOUNT_ATTR_RDONLY : 0;
    plan->root_bind.attributes = plan->engine.direct ? 0 : MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV;
    plan->root_bind.idmap = plan->privileged ? PIN_IDMAP_SANDBOX : PIN_IDMAP_NONE;
}

struct rlimit_row {
    const char *name;
    int resource;
    bool is_cap; /* it takes from a sandbox what none needs: with less of it the sandbox is as good */
    const char *pointer;
};

#define RLIMIT_ROW(name, ...)                                                                                \
    { "RLIMIT_" #name, RLIMIT_##name, __VA_ARGS__ }

static const struct rlimit_row rlimit_rows[] = {
    RLIMIT_ROW(AS, false, "/process/rlimits"),        RLIMIT_ROW(CORE, false, "/resources/core"),
    RLIMIT_ROW(CPU, false, "/resources/cpu_time"),    RLIMIT_ROW(DATA, false, "/process/rlimits"),
    RLIMIT_ROW(FSIZE, false, "/process/rlimits"),     RLIMIT_ROW(LOCKS, true, "/process/rlimits"),
    RLIMIT_ROW(MEMLOCK, true, "/process/rlimits"),    RLIMIT_ROW(MSGQUEUE, true, "/process/rlimits"),
    RLIMIT_ROW(NICE, true, "/process/rlimits"),       RLIMIT_ROW(NOFILE, false, "/resources/files"),
    RLIMIT_ROW(NPROC, false, "/process/rlimits"),     RLIMIT_ROW(RSS, true, "/process/rlimits"),
    RLIMIT_ROW(RTPRIO, true, "/process/rlimits"),     RLIMIT_ROW(RTTIME, false, "/process/rlimits"),
    RLIMIT_ROW(SIGPENDING, true, "/process/rlimits"), RLIMIT_ROW(STACK, false, "/process/rlimits"),
};

static const struct rlimit_row *find_rlimit(const char *name) {
    for (size_t i = 0; i < PIN_COUNT(rlimit_rows); i++)
        if (strcmp(rlimit_rows[i].name, name) == 0)
            return &rlimit_rows[i];
    return NULL;
}

static void refuse_rlimit(const struct rlimit_row *row, uint64_t asked, uint64_t most,
                          struct pin_findings *found) {
    (void)pin_find(found, PIN_ERROR_UNSUPPORTED, row->pointer,
                   "raise the caller's own hard limit (ulimit -H), or lower the policy's",
                   "%s can't be %" PRIu64 ": the caller's own hard limit is %" PRIu64, row->name, asked,
                   most);
}

#define FILES_ALL UINT64_C(1048576) /* what is written for "unlimited": fs.nr_open of every usual host */

/* Where the policy sets no limit, or one that only takes away, the caller's own stays. */
static bool may_be_less(const struct rlimit_row *row, uint64_t hard) {
    return row->is_cap || hard == PIN_UNLIMITED || (row->resource == RLIMIT_NOFILE && hard >= FILES_ALL);
}

/* A core_pattern that names a program is handed the memory of a process whose limit is 0, and of none whose
 * limit is 1, which is no room for a file either (core(5), fs/coredump.c). An engine's limits are its own. */
static bool is_no_core(const struct pin_plan *plan, const struct rlimit_row *row, uint64_t hard) {
    return row->resource == RLIMIT_CORE && hard == 0 && !plan->engine.direct;
}

/* What lies above the caller's own hard limit is raised by those who may, and otherwise refused, not lowered.
 */
static void add_rlimit(struct pin_plan *plan, const struct pin_host *host, const struct rlimit_row *row,
                       uint64_t soft, uint64_t hard, struct pin_findings *found) {
    uint64_t most = host->raises_limits ? PIN_UNLIMITED : host->hard_limits[row->resource];
    if (is_no_core(plan, row, hard) && most >= 1)
        soft = hard = 1;
    if (hard > most && plan->engine.direct) /* engines ask for what their own service has */
        pin_plan_unheeded(plan, "/process/rlimits",
                          pin_arena_printf(&plan->arena, "%s becomes the caller's own hard limit, %" PRIu64,
                                           row->name, most));
    else if (hard > most && !may_be_less(row, hard)) {
        refuse_rlimit(row, hard, most, found);
        return;
    }
    struct pin_plan_rlimit *limit =
        pin_arena_grow(&plan->arena, &plan->rlimits, &plan->rlimit_count, sizeof(*limit));
    *limit =
        (struct pin_plan_rlimit){.resource = row->resource,
                                 .soft = soft < most ? soft : most,
                                 .hard = hard < most ? hard : most,
                                 .raised = most == PIN_UNLIMITED && hard > host->hard_limits[row->resource]};
}

static bool stands_before(const struct pin_bundle *bundle, size_t at) {
    for (size_t i = 0; i < at; i++)
        if (strcmp(bundle->process.rlimits[i].type, bundle->process.rlimits[at].type) == 0)
            return true;
    return false;
}

void pin_plan_rlimits(struct pin_plan *plan, const struct pin_host *host, struct pin_findings *found) {
    const struct pin_bundle *bundle = plan->bundle;
    for (size_t i = 0; i < bundle->process.rlimit_count; i++) {
        const struct pin_bundle_rlimit *asked = &bundle->process.rlimits[i];
        const struct rlimit_row *row = find_rlimit(asked->type);
        if (row == NULL || asked->soft > asked->hard)
            (void)pin_find(found, PIN_ERROR_INVALID, "/process/rlimits", NULL,
                           "'%.40s' is not a limit that can be set", asked->type);
        else if (stands_before(bundle, i))
            (void)pin_find(found, PIN_ERROR_INVALID, "/process/rlimits", "keep one of them",
                           "'%s' stands twice", asked->type);
        else
            add_rlimit(plan, host, row, asked->soft, asked->hard, found);
    }
    uint64_t cpu_ns = bundle->ext.present ? bundle->ext.cpu_time_ns : PIN_UNLIMITED;
    if (cpu_ns != PIN_UNLIMITED) { /* of one process; the supervisor watches the sum of all */
        uint64_t seconds = cpu_ns / PIN_NS_PER_S + 1;
        add_rlimit(plan, host, find_rlimit("RLIMIT_CPU"), seconds, seconds + 1, found);
    }
}

static uint64_t limit_or_none(bool has, int64_t value) {
    return has && value >= 0 ? (uint64_t)value : PIN_UNLIMITED;
}

static void plan_limits(struct pin_plan *plan) {
    const struct pin_bundle_resources *asked = &plan->bundle->resources;
    struct pin_plan_limits *limits = &plan->limits;
    limits->memory_bytes = limit_or_none(asked->has_memory, asked->memory);
    limits->swap_bytes = PIN_UNLIMITED;
    if (asked->has_swap && asked->swap >= 0 && asked->has_memory) /* OCI counts memory and swap together */
        limits->swap_bytes = asked->swap > asked->memory ? (uint64_t)(asked->swap - asked->memory) : 0;
    limits->pids = asked->has_pids && asked->pids > 0 ? (uint64_t)asked->pids : PIN_UNLIMITED;
    if (asked->has_cpu_quota && asked->cpu_quota > 0) {
        uint64_t period = asked->has_cpu_period && asked->cpu_period > 0 ? asked->cpu_period : 100000;
        limits->millicpus = (uint32_t)((uint64_t)asked->cpu_quota * 1000 / period);
    }
}

static const char *hint_for(const struct pin_host *host, enum pin_protection protection) {
    if (protection == PIN_PROTECT_LANDLOCK)
        return "boot with lsm=landlock,… or list it under \"optional\" in the policy";
    if (protection == PIN_PROTECT_SECRET_MEMORY)
        return "turn swap off; or cgroup v2, \"swap\": 0, no RLIMIT_MEMLOCK; or list it as optional";
    return host->lacks_hint;
}

/* A protection that the bundle asks for and that this host lacks is a refusal, unless the policy called it
 * optional. */
static void plan_protections(struct pin_plan *plan, const struct pin_host *host, struct pin_findings *found) {
    const struct pin_plan_limits *limits = &plan->limits;
    const bool asked[PIN_PROTECT_COUNT] = {
        [PIN_PROTECT_MEMORY] = limits->memory_bytes != PIN_UNLIMITED,
        [PIN_PROTECT_SWAP] = limits->swap_bytes != PIN_UNLIMITED,
        [PIN_PROTECT_CPUS] = limits->millicpus != 0,
        [PIN_PROTECT_PIDS] = limits->pids != PIN_UNLIMITED,
        [PIN_PROTECT_LANDLOCK] = plan->bundle->ext.present && plan->bundle->ext.landlock.enabled,
        [PIN_PROTECT_SECRET_MEMORY] = plan->bundle->ext.secret_count > 0 || plan->bundle->ext.secret_folder,
    };
    /* what a command has been handed lies in its own memory as well */
    uint32_t lacks = host->lacks | (uint32_t)(host->swaps && limits->swap_bytes != 0)
                                       << PIN_PROTECT_SECRET_MEMORY;
    for (int i = 0; i < PIN_PROTECT_COUNT; i++) {
        uint32_t bit = 1u << i;
        if (!asked[i] || (lacks & bit) == 0)
            continue;
        plan->missing |= bit;
        if (plan->bundle->ext.optional & bit)
            continue;
        const char *name = pin_protection_name((enum pin_protection)i);
        (void)pin_find(found, PIN_ERROR_UNSUPPORTED, "/optional", hint_for(host, (enum pin_protection)i),
                       "this host can't give the protection '%s'", name);
    }
}

static bool may_watch(const struct pin_filter *filter) {
    bool may = filter->default_action == PIN_FILTER_ALLOW;
    for (size_t i = 0; i < filter->rule_count && !may; i++)
        may = strncmp(filter->rules[i].name, "inotify_init", strlen("inotify_init")) == 0;
    return may;
}

static void plan_process(struct pin_plan *plan) {
    const struct pin_bundle *bundle = plan->bundle;
    memcpy(plan->capabilities, bundle->process.capabilities, sizeof(plan->capabilities));
    plan->no_new_privileges = bundle->process.no_new_privileges;
    plan->lock_securebits = true;
    plan->new_keyring = true;
    plan->forbid_user_namespaces = true;
    plan->bound_watches = may_watch(&bundle->seccomp);
    plan->egress = bundle->ext.egress_count > 0;
    plan->egress_plan = pin_egress_plan_for(bundle->ext.egress, bundle->ext.egress_count);
    plan->raise_loopback = !plan->egress;
    plan->hostname = bundle->hostname;
    plan->domainname = bundle->domainname;
    plan->has_oom_score_adj = bundle->process.has_oom_score_adj;
    plan->oom_score_adj = bundle->process.oom_score_adj;
}

static bool is_free(const struct pin_plan *plan, const struct pin_publish *asked) {
    for (size_t i = 0; i < plan->publish_count; i++)
        if (pin_publish_collides(&plan->publish[i], asked))
            return false;
    return true;
}

static void plan_publish(struct pin_plan *plan, struct pin_findings *found) {
    const struct pin_bundle_ext *ext = &plan->bundle->ext;
    if (ext->publish_count > PIN_PUBLISH_MAX) {
        (void)pin_find(found, PIN_ERROR_INVALID, "/network/publish", "ask for fewer by --publish",
                       "a sandbox publishes at most %d ports", PIN_PUBLISH_MAX);
        return;
    }
    for (size_t i = 0; i < ext->publish_count; i++) {
        struct pin_publish *publish = &plan->publish[plan->publish_count];
        if (!pin_publish_parse(ext->publish[i], publish))
            (void)pin_find(found, PIN_ERROR_INVALID, "/network/publish", NULL, "'%.80s' is no published port",
                           ext->publish[i]);
        else if (!is_free(plan, publish))
            (void)pin_find(found, PIN_ERROR_INVALID, "/network/publish", "choose among them by --publish",
                           "'%.80s' is where another port is published, too", ext->publish[i]);
        else
            plan->publish_count++;
    }
}

/* A policy grants paths, and a bundle that was brought names them: a link on the way, planted by its author
 * or by an earlier sandbox, would lead from what is granted to what isn't. */
static void require_real_sources(struct pin_plan *plan) {
    if (plan->bundle->directory == NULL)
        return;
    plan->root_bind.real_source = true;
    for (size_t i = 0; i < plan->op_count; i++)
        plan->ops[i].real_source = true;
    for (size_t i = 0; i < plan->layer_count; i++)
        plan->layers[i].real_source = true;
}

struct pin_plan *pin_plan_make(const struct pin_bundle *bundle, const struct pin_host *host,
                               struct pin_findings *found) {
    struct pin_plan *plan = calloc(1, sizeof(*plan));
    if (plan == NULL)
        abort();
    plan->bundle = bundle;
    plan->privileged = host->privileged;
    pin_plan_refuse(bundle, found);
    plan_namespaces(plan, host, found);
    plan_maps(plan, host, found);
    pin_plan_root(plan, found);
    pin_plan_mounts(plan, found);
    require_real_sources(plan);
    pin_plan_rlimits(plan, host, found);
    plan_limits(plan);
    plan_process(plan);
    plan_publish(plan, found);
    plan->landlock_abi = host->landlock_abi;
    plan_protections(plan, host, found);
    plan->landlock = bundle->ext.present && bundle->ext.landlock.enabled && host->landlock_abi > 0;
    if (pin_found_any(found)) {
        pin_plan_free(plan);
        return NULL;
    }
    return plan;
}

void pin_plan_free(struct pin_plan *plan) {
    if (plan == NULL)
        return;
    pin_arena_free(&plan->arena);
    free(plan);
}
