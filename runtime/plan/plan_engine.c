#include <linux/ioprio.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>

#include <linux/sched.h>

#include "base/names.h"
#include "base/units.h"
#include "runtime/egress/session.h"
#include "runtime/plan/plan.h"
#include "runtime/plan/plan_mounts.h"
#include "runtime/plan/plan_parts.h"

static bool has_own(const struct pin_bundle *bundle, enum pin_namespace ns) {
    return bundle->namespaces[ns].present && bundle->namespaces[ns].path == NULL;
}

static void plan_namespaces(struct pin_plan *plan, struct pin_findings *found) {
    const struct pin_bundle *bundle = plan->bundle;
    for (int ns = 0; ns < PIN_NS_COUNT; ns++) {
        if (has_own(bundle, (enum pin_namespace)ns))
            plan->clone_flags |= pin_plan_clone_flags[ns];
        else
            plan->engine.join[ns] = bundle->namespaces[ns].path;
    }
    plan->engine.root_apart = !has_own(bundle, PIN_NS_MOUNT);
    if (plan->engine.root_apart && bundle->rootfs_propagation != NULL)
        (void)pin_find(found, PIN_ERROR_INVALID, "/linux/rootfsPropagation", "leave it out",
                       "a mount namespace of others keeps its own propagation");
}

static bool maps_zero(const struct pin_id_map *maps, size_t count) {
    for (size_t i = 0; i < count; i++)
        if (maps[i].inside == 0)
            return true;
    return count == 0;
}

static void plan_maps(struct pin_plan *plan, const struct pin_host *host, struct pin_findings *found) {
    const struct pin_bundle *bundle = plan->bundle;
    bool own = has_own(bundle, PIN_NS_USER);
    bool mapped = own ? bundle->uid_map_count > 0 && bundle->gid_map_count > 0
                      : bundle->uid_map_count + bundle->gid_map_count > 0;
    if (own != mapped && bundle->namespaces[PIN_NS_USER].path == NULL)
        (void)pin_find(found, PIN_ERROR_INVALID, "/linux/uidMappings", NULL, "%s",
                       own ? "user namespaces enabled, but no id mappings were given"
                           : "id mappings need a user namespace");
    plan->may_set_groups = plan->privileged || !own;
    plan->engine.enter_as_root =
        bundle->namespaces[PIN_NS_USER].present && maps_zero(bundle->uid_maps, bundle->uid_map_count);
    if (!own)
        return;
    plan->uid_maps = bundle->uid_maps;
    plan->gid_maps = bundle->gid_maps;
    plan->uid_map_count = bundle->uid_map_count;
    plan->gid_map_count = bundle->gid_map_count;
    bool single = plan->uid_map_count == 1 && plan->gid_map_count == 1 && plan->uid_maps[0].count == 1 &&
                  plan->gid_maps[0].count == 1;
    if (!plan->privileged && host->uid != 0 && !single) {
        plan->map_method = PIN_MAP_HELPERS;
        plan->may_set_groups = true;
    }
}

static const struct {
    const char *name;
    unsigned flags;
} propagations[] = {
    {"shared",      MS_SHARED             },
    {"rshared",     MS_SHARED | MS_REC    },
    {"slave",       MS_SLAVE              },
    {"rslave",      MS_SLAVE | MS_REC     },
    {"private",     MS_PRIVATE            },
    {"rprivate",    MS_PRIVATE | MS_REC   },
    {"unbindable",  MS_UNBINDABLE         },
    {"runbindable", MS_UNBINDABLE | MS_REC},
};

static void plan_root(struct pin_plan *plan, struct pin_findings *found) {
    const char *asked = plan->bundle->rootfs_propagation;
    bool known = asked == NULL;
    for (size_t i = 0; i < PIN_COUNT(propagations) && !known; i++)
        if (strcmp(propagations[i].name, asked) == 0) {
            plan->engine.root_propagation = propagations[i].flags;
            known = true;
        }
    if (!known)
        (void)pin_find(found, PIN_ERROR_INVALID, "/linux/rootfsPropagation", NULL,
                       "'%.20s' is no propagation", asked);
    pin_plan_root(plan, found);
    plan->root_bind.idmap = PIN_IDMAP_NONE;
    plan->root_bind.of_engine = true;
    if (plan->engine.root_propagation & MS_SLAVE) /* it is shared only once it is the root: pivot_root(2) */
        plan->root_bind.propagation = plan->engine.root_propagation;
}

/* The settings that belong to a namespace, and only where the container has that one for itself. */
static const struct {
    const char *prefix;
    enum pin_namespace ns;
} sysctl_rows[] = {
    {"kernel.msgmax",          PIN_NS_IPC    },
    {"kernel.msgmnb",          PIN_NS_IPC    },
    {"kernel.msgmni",          PIN_NS_IPC    },
    {"kernel.sem",             PIN_NS_IPC    },
    {"kernel.shmall",          PIN_NS_IPC    },
    {"kernel.shmmax",          PIN_NS_IPC    },
    {"kernel.shmmni",          PIN_NS_IPC    },
    {"kernel.shm_rmid_forced", PIN_NS_IPC    },
    {"fs.mqueue.",             PIN_NS_IPC    },
    {"net.",                   PIN_NS_NETWORK},
    {"kernel.domainname",      PIN_NS_UTS    },
    {"user.",                  PIN_NS_USER   },
};

static bool is_of_container(const struct pin_bundle *bundle, const char *name) {
    for (size_t i = 0; i < PIN_COUNT(sysctl_rows); i++) {
        const char *prefix = sysctl_rows[i].prefix;
        size_t size = strlen(prefix);
        bool same = prefix[size - 1] == '.' ? strncmp(name, prefix, size) == 0 : strcmp(name, prefix) == 0;
        if (same)
            return bundle->namespaces[sysctl_rows[i].ns].present;
    }
    return false;
}

static void plan_sysctls(struct pin_plan *plan, struct pin_findings *found) {
    const struct pin_bundle *bundle = plan->bundle;
    for (size_t i = 0; i < bundle->sysctl_count; i++) {
        char *name = pin_arena_strdup(&plan->arena, bundle->sysctls[i].key);
        for (char *at = name; *at != '\0'; at++)
            *at = (char)(*at == '/' ? '.' : *at);
        if (!is_of_container(bundle, name) || strstr(name, "..") != NULL) {
            (void)pin_find(found, PIN_ERROR_REFUSED, "/linux/sysctl", "leave it out",
                           "sysctl \"%.80s\" is not in a separate kernel namespace", name);
            continue;
        }
        for (char *at = name; *at != '\0'; at++)
            *at = (char)(*at == '.' ? '/' : *at);
        struct pin_pair *pair =
            pin_arena_grow(&plan->arena, &plan->engine.sysctls, &plan->engine.sysctl_count, sizeof(*pair));
        *pair = (struct pin_pair){name, bundle->sysctls[i].value};
    }
}

static void plan_time(struct pin_plan *plan, struct pin_findings *found) {
    const struct pin_bundle *bundle = plan->bundle;
    const char *text = NULL;
    if (bundle->time_offset_count > 0 && !has_own(bundle, PIN_NS_TIME))
        (void)pin_find(found, PIN_ERROR_INVALID, "/linux/timeOffsets", "add a time namespace",
                       "time offsets need a time namespace of the container's own");
    for (size_t i = 0; i < bundle->time_offset_count; i++) {
        const struct pin_pair *offset = &bundle->time_offsets[i];
        const char *dot = strchr(offset->value, '.');
        text = pin_arena_printf(&plan->arena, "%s%s %.*s %s\n", text != NULL ? text : "", offset->key,
                                (int)strcspn(offset->value, "."), offset->value, dot != NULL ? dot + 1 : "0");
    }
    plan->engine.time_offsets = text;
}

static const char *const io_classes[] = {
    [IOPRIO_CLASS_RT] = "IOPRIO_CLASS_RT",
    [IOPRIO_CLASS_BE] = "IOPRIO_CLASS_BE",
    [IOPRIO_CLASS_IDLE] = "IOPRIO_CLASS_IDLE",
};

static const char *const scheduler_policies[] = {
    [SCHED_NORMAL] = "SCHED_OTHER",      [SCHED_FIFO] = "SCHED_FIFO", [SCHED_RR] = "SCHED_RR",
    [SCHED_BATCH] = "SCHED_BATCH",       [4] = "SCHED_ISO",           [SCHED_IDLE] = "SCHED_IDLE",
    [SCHED_DEADLINE] = "SCHED_DEADLINE",
};

static const struct {
    const char *name;
    uint64_t flag;
} scheduler_flags[] = {
    {"SCHED_FLAG_RESET_ON_FORK",  SCHED_FLAG_RESET_ON_FORK },
    {"SCHED_FLAG_RECLAIM",        SCHED_FLAG_RECLAIM       },
    {"SCHED_FLAG_DL_OVERRUN",     SCHED_FLAG_DL_OVERRUN    },
    {"SCHED_FLAG_KEEP_POLICY",    SCHED_FLAG_KEEP_POLICY   },
    {"SCHED_FLAG_KEEP_PARAMS",    SCHED_FLAG_KEEP_PARAMS   },
    {"SCHED_FLAG_UTIL_CLAMP_MIN", SCHED_FLAG_UTIL_CLAMP_MIN},
    {"SCHED_FLAG_UTIL_CLAMP_MAX", SCHED_FLAG_UTIL_CLAMP_MAX},
};

static void plan_scheduler_flags(struct pin_plan *plan, struct pin_findings *found) {
    const struct pin_bundle *bundle = plan->bundle;
    for (size_t i = 0; i < bundle->process.scheduler_flag_count; i++) {
        uint64_t flag = 0;
        for (size_t j = 0; j < PIN_COUNT(scheduler_flags); j++)
            if (strcmp(scheduler_flags[j].name, bundle->process.scheduler_flags[i]) == 0)
                flag = scheduler_flags[j].flag;
        plan->engine.scheduler_flags |= flag;
        if (flag == 0)
            (void)pin_find(found, PIN_ERROR_INVALID, "/process/scheduler/flags", NULL,
                           "'%.40s' is no flag of a scheduler", bundle->process.scheduler_flags[i]);
    }
}

static void plan_scheduling(struct pin_plan *plan, struct pin_findings *found) {
    const struct pin_bundle *bundle = plan->bundle;
    struct pin_plan_engine *engine = &plan->engine;
    if (bundle->process.has_io_priority) {
        const char *name = bundle->process.io_priority_class;
        int class = name == NULL ? -1 : pin_name_find(io_classes, PIN_COUNT(io_classes), name);
        if (class < 0)
            (void)pin_find(found, PIN_ERROR_INVALID, "/process/ioPriority/class", NULL,
                           "this is no class of I/O priority");
        else
            engine->io_priority = class << IOPRIO_CLASS_SHIFT | bundle->process.io_priority;
        engine->has_io_priority = true;
    }
    if (bundle->process.has_scheduler) {
        const char *name = bundle->process.scheduler_policy;
        int policy =
            name == NULL ? -1 : pin_name_find(scheduler_policies, PIN_COUNT(scheduler_policies), name);
        if (policy < 0)
            (void)pin_find(found, PIN_ERROR_INVALID, "/process/scheduler/policy", NULL,
                           "this is no scheduling policy");
        else
            engine->scheduler_policy = (uint32_t)policy;
        engine->has_scheduler = true;
        plan_scheduler_flags(plan, found);
    }
    if (bundle->personality_domain != NULL) {
        bool linux32 = strcmp(bundle->personality_domain, "LINUX32") == 0;
        if (!linux32 && strcmp(bundle->personality_domain, "LINUX") != 0)
            (void)pin_find(found, PIN_ERROR_INVALID, "/linux/personality/domain", NULL,
                           "'%.20s' is no domain of a personality", bundle->personality_domain);
        engine->has_personality = true;
        engine->personality = linux32 ? 0x0008 : 0;
    }
}

void pin_plan_unheeded(struct pin_plan *plan, const char *pointer, const char *why) {
    *(const char **)pin_arena_grow(&plan->arena, &plan->engine.unheeded, &plan->engine.unheeded_count,
                                   sizeof(const char *)) =
        pin_arena_printf(&plan->arena, "%s (%s)", why, pointer);
}

static void plan_mount_label(struct pin_plan *plan, const struct pin_engine_request *request) {
    const char *label = plan->bundle->mount_label;
    if (label == NULL || label[0] == '\0')
        return;
    if (request->selinux)
        plan->engine.mount_label = label;
    else
        pin_plan_unheeded(plan, "/linux/mountLabel", "selinux is disabled or not supported: no label is set");
}

static void plan_label(struct pin_plan *plan, const struct pin_engine_request *request,
                       struct pin_findings *found) {
    const char *apparmor = plan->bundle->process.apparmor_profile,
               *selinux = plan->bundle->process.selinux_label;
    if (apparmor != NULL && apparmor[0] != '\0' && request->apparmor) {
        plan->engine.label_file = "/proc/thread-self/attr/apparmor/exec";
        plan->engine.label = pin_arena_printf(&plan->arena, "exec %s", apparmor);
    } else if (apparmor != NULL && apparmor[0] != '\0' && strcmp(apparmor, "unconfined") != 0) {
        (void)pin_find(found, PIN_ERROR_UNSUPPORTED, "/process/apparmorProfile", "leave it out",
                       "apparmor: config provided but apparmor not supported");
    }
    if (selinux != NULL && selinux[0] != '\0' && request->selinux) {
        plan->engine.label_file = "/proc/thread-self/attr/exec";
        plan->engine.label = selinux;
    } else if (selinux != NULL && selinux[0] != '\0') {
        (void)pin_find(found, PIN_ERROR_UNSUPPORTED, "/process/selinuxLabel", "leave it out",
                       "selinux label is specified in config, but selinux is disabled or not supported");
    }
}

static void plan_listener(const struct pin_plan *plan, struct pin_findings *found) {
    const struct pin_filter *filter = &plan->bundle->seccomp;
    bool notifies = filter->default_action == PIN_FILTER_NOTIFY;
    for (size_t i = 0; i < filter->rule_count; i++)
        notifies |= filter->rules[i].action == PIN_FILTER_NOTIFY;
    bool path = filter->listener_path != NULL && filter->listener_path[0] != '\0';
    if (filter->present && notifies && !path)
        (void)pin_find(found, PIN_ERROR_INVALID, "/linux/seccomp/listenerPath", "name the agent's socket",
                       "SCMP_ACT_NOTIFY needs somebody who answers");
    if (path && !notifies)
        (void)pin_find(found, PIN_ERROR_INVALID, "/linux/seccomp/listenerPath", "leave it out",
                       "no rule has SCMP_ACT_NOTIFY");
}

static void plan_process(struct pin_plan *plan, const struct pin_host *host,
                         const struct pin_engine_request *request, struct pin_findings *found) {
    const struct pin_bundle *bundle = plan->bundle;
    struct pin_plan_engine *engine = &plan->engine;
    if (bundle->process.arg_count == 0)
        (void)pin_find(found, PIN_ERROR_INVALID, "/process/args", NULL, "process args is empty");
    if (bundle->process.cwd == NULL || bundle->process.cwd[0] != '/')
        (void)pin_find(found, PIN_ERROR_INVALID, "/process/cwd", NULL, "cwd must be an absolute path");
    engine->argv = pin_arena_array(&plan->arena, bundle->process.arg_count + 1, sizeof(char *));
    for (size_t i = 0; i < bundle->process.arg_count; i++)
        engine->argv[i] = pin_arena_strdup(&plan->arena, bundle->process.args[i]);
    engine->envp = pin_arena_array(&plan->arena, bundle->process.env_count + 2, sizeof(char *));
    for (size_t i = 0; i < bundle->process.env_count; i++)
        engine->envp[i] = pin_arena_strdup(&plan->arena, bundle->process.env[i]);
    engine->env_count = bundle->process.env_count;
    engine->terminal = bundle->process.terminal;
    engine->kept_descriptors = request->kept_descriptors;
    for (int i = 0; i < PIN_CAP_SET_COUNT; i++)
        plan->capabilities[i] =
            bundle->process.capabilities[i] &
            (bundle->namespaces[PIN_NS_USER].present ? UINT64_MAX : request->capabilities);
    /* templates ask for ambient ones that the kernel never raises: capabilities(7) */
    plan->capabilities[PIN_CAP_AMBIENT] &=
        plan->capabilities[PIN_CAP_PERMITTED] & plan->capabilities[PIN_CAP_INHERITABLE];
    plan->no_new_privileges = bundle->process.no_new_privileges;
    plan->new_keyring = !request->no_new_keyring;
    plan->has_oom_score_adj = bundle->process.has_oom_score_adj;
    plan->oom_score_adj = bundle->process.oom_score_adj;
    plan_label(plan, request, found);
    plan_listener(plan, found);
    plan_scheduling(plan, found);
    pin_plan_rlimits(plan, host, found);
}

/* What a bundle asks of pinfold itself is granted by a policy, and without a ceiling there is none to grant
 * it. */
static void refuse_extensions(const struct pin_bundle *bundle, struct pin_findings *found) {
    static const char hint[] = "give a policy by --policy or in /etc/pinfold/oci.json";
    const struct {
        bool asked;
        const char *pointer;
    } rows[] = {
        {bundle->ext.present,                                     "/pinfold"                       },
        {bundle->ext.policy_name != NULL && !bundle->ext.present, "/annotations/io.pinfold.policy" },
        {bundle->ext.egress_count > 0,                            "/annotations/io.pinfold.egress" },
        {bundle->ext.secret_count > 0,                            "/annotations/io.pinfold.secrets"},
    };
    for (size_t i = 0; i < PIN_COUNT(rows); i++)
        if (rows[i].asked)
            (void)pin_find(found, PIN_ERROR_REFUSED, rows[i].pointer, hint,
                           "no policy is installed that could grant this");
}

/* A namespace that the policy doesn't let a container share isn't to be had by its path either. */
static void plan_foreign(struct pin_plan *plan, const struct pin_policy *ceiling) {
    static const enum pin_namespace of_space[PIN_SPACE_COUNT] = {
        [PIN_SPACE_USER] = PIN_NS_USER, [PIN_SPACE_PID] = PIN_NS_PID, [PIN_SPACE_NETWORK] = PIN_NS_NETWORK,
        [PIN_SPACE_IPC] = PIN_NS_IPC,   [PIN_SPACE_UTS] = PIN_NS_UTS, [PIN_SPACE_CGROUP] = PIN_NS_CGROUP,
    };
    for (unsigned i = 0; i < PIN_SPACE_COUNT; i++)
        if ((ceiling->engine.shares >> i & 1) == 0)
            plan->engine.foreign |= 1u << of_space[i];
}

/* What the policy grants is a place: a link that was planted on the way would lead to another. */
static void plan_ceiling(struct pin_plan *plan, const struct pin_policy *ceiling) {
    plan_foreign(plan, ceiling);
    plan->root_bind.real_source = true;
    for (size_t i = 0; i < plan->op_count; i++)
        plan->ops[i].real_source = true;
    plan->egress = plan->bundle->ext.egress_count > 0;
    plan->egress_plan = pin_egress_plan_for(plan->bundle->ext.egress, plan->bundle->ext.egress_count);
    plan->raise_loopback = plan->raise_loopback && !plan->egress;
}

static void plan_container(struct pin_plan *plan, const struct pin_host *host,
                           const struct pin_engine_request *request, struct pin_findings *found) {
    const struct pin_bundle *bundle = plan->bundle;
    if (request->ceiling == NULL)
        refuse_extensions(bundle, found);
    plan_namespaces(plan, found);
    plan_maps(plan, host, found);
    plan_root(plan, found);
    plan_mount_label(plan, request);
    pin_plan_mounts(plan, found);
    plan_sysctls(plan, found);
    plan_time(plan, found);
    plan->hostname = bundle->hostname;
    plan->domainname = bundle->domainname;
    plan->raise_loopback = has_own(bundle, PIN_NS_NETWORK);
    if (bundle->hostname != NULL && bundle->hostname[0] != '\0' && !bundle->namespaces[PIN_NS_UTS].present)
        (void)pin_find(found, PIN_ERROR_INVALID, "/hostname", NULL,
                       "unable to set hostname without a private UTS namespace");
    if (request->ceiling != NULL)
        plan_ceiling(plan, request->ceiling);
}

struct pin_plan *pin_plan_make_for_engine(const struct pin_bundle *bundle, const struct pin_host *host,
                                          const struct pin_engine_request *request,
                                          struct pin_findings *found) {
    struct pin_plan *plan = calloc(1, sizeof(*plan));
    if (plan == NULL)
        abort();
    plan->bundle = bundle;
    plan->privileged = request->privileged;
    plan->engine.direct = true;
    plan->engine.joins_container = request->joins_container;
    plan->engine.no_pivot = request->no_pivot;
    plan->limits = (struct pin_plan_limits){PIN_UNLIMITED, PIN_UNLIMITED, PIN_UNLIMITED, 0};
    if (request->joins_container) {
        plan->root = PIN_ROOT_JOINED;
        plan->may_set_groups = true;
        plan->engine.enter_as_root =
            bundle->namespaces[PIN_NS_USER].present && maps_zero(bundle->uid_maps, bundle->uid_map_count);
    } else {
        plan_container(plan, host, request, found);
    }
    plan_process(plan, host, request, found);
    if (pin_found_any(found)) {
        pin_plan_free(plan);
        return NULL;
    }
    return plan;
}
