#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>

#include "base/names.h"
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

/* A user may map its own id alone itself, and then no groups can be set: user_namespaces(7). */
static bool maps_by_helpers(const struct pin_plan *plan, const struct pin_host *host) {
    const struct pin_bundle *bundle = plan->bundle;
    bool single = bundle->uid_map_count == 1 && bundle->gid_map_count == 1 &&
                  bundle->uid_maps[0].count == 1 && bundle->gid_maps[0].count == 1;
    return !plan->privileged && host->uid != 0 && !single;
}

static bool may_set_groups(const struct pin_plan *plan, const struct pin_host *host) {
    return plan->privileged || !has_own(plan->bundle, PIN_NS_USER) || maps_by_helpers(plan, host);
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
    plan->may_set_groups = may_set_groups(plan, host);
    plan->engine.enter_as_root =
        bundle->namespaces[PIN_NS_USER].present && maps_zero(bundle->uid_maps, bundle->uid_map_count);
    if (!own)
        return;
    plan->uid_maps = bundle->uid_maps;
    plan->gid_maps = bundle->gid_maps;
    plan->uid_map_count = bundle->uid_map_count;
    plan->gid_map_count = bundle->gid_map_count;
    if (maps_by_helpers(plan, host))
        plan->map_method = PIN_MAP_HELPERS;
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

static void plan_mount_label(struct pin_plan *plan, const struct pin_engine_request *request) {
    const char *label = plan->bundle->mount_label;
    if (label == NULL || label[0] == '\0')
        return;
    if (request->selinux)
        plan->engine.mount_label = label;
    else
        pin_plan_unheeded(plan, "/linux/mountLabel", "selinux is disabled or not supported: no label is set");
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

/* Engines write "" for none: set, it would be the host's that is empty, where the container shares it. */
static void plan_names(struct pin_plan *plan, struct pin_findings *found) {
    const struct pin_bundle *bundle = plan->bundle;
    const struct {
        const char *word, *pointer, *text, **planned;
    } names[] = {
        {"hostname",   "/hostname",   bundle->hostname,   &plan->hostname  },
        {"domainname", "/domainname", bundle->domainname, &plan->domainname},
    };
    for (size_t i = 0; i < PIN_COUNT(names); i++) {
        *names[i].planned = NULL;
        if (names[i].text == NULL || names[i].text[0] == '\0')
            continue;
        *names[i].planned = names[i].text;
        if (!bundle->namespaces[PIN_NS_UTS].present)
            (void)pin_find(found, PIN_ERROR_INVALID, names[i].pointer, NULL,
                           "unable to set %s without a private UTS namespace", names[i].word);
    }
}

/* What the kernel would refuse or take for something else, by its place in the bundle. */
static void check_names(const struct pin_bundle *bundle, struct pin_findings *found) {
    enum { NAME_MAX_UTS = 64 }; /* uname(2) */
    const struct {
        const char *pointer, *text;
    } names[] = {
        {"/hostname",   bundle->hostname  },
        {"/domainname", bundle->domainname}
    };
    for (size_t i = 0; i < PIN_COUNT(names); i++)
        if (names[i].text != NULL && strlen(names[i].text) > NAME_MAX_UTS)
            (void)pin_find(found, PIN_ERROR_INVALID, names[i].pointer, NULL, "longer than %d bytes",
                           NAME_MAX_UTS);
    const struct {
        const char *pointer, **paths;
        size_t count;
    } lists[] = {
        {"/linux/maskedPaths",   bundle->masked_paths,   bundle->masked_path_count  },
        {"/linux/readonlyPaths", bundle->readonly_paths, bundle->readonly_path_count}
    };
    for (size_t i = 0; i < PIN_COUNT(lists); i++)
        for (size_t j = 0; j < lists[i].count; j++)
            if (lists[i].paths[j][0] != '/')
                (void)pin_find(found, PIN_ERROR_INVALID, lists[i].pointer, "write a path below /",
                               "'%.80s' is no absolute path", lists[i].paths[j]);
}

static void check_hooks(const struct pin_bundle *bundle, struct pin_findings *found) {
    for (int stage = 0; stage < PIN_HOOK_STAGE_COUNT; stage++)
        for (size_t i = 0; i < bundle->hook_count[stage]; i++)
            if (bundle->hooks[stage][i].path[0] != '/') {
                char pointer[64];
                (void)snprintf(pointer, sizeof(pointer), "/hooks/%s/%zu/path",
                               pin_hook_stage_name((enum pin_hook_stage)stage), i);
                (void)pin_find(found, PIN_ERROR_INVALID, pointer, "write the whole path",
                               "a hook's path isn't absolute");
            }
}

static void check_devices(const struct pin_bundle *bundle, struct pin_findings *found) {
    for (size_t i = 0; i < bundle->device_count; i++) {
        const struct pin_bundle_device *device = &bundle->devices[i];
        if (device->type != 'p' && (device->major < 0 || device->minor < 0 || device->major > UINT32_MAX ||
                                    device->minor > UINT32_MAX))
            (void)pin_find(found, PIN_ERROR_INVALID, "/linux/devices", "give its major and minor",
                           "the device '%.80s' has no numbers that can be", device->path);
    }
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
    check_names(bundle, found);
    check_devices(bundle, found);
    check_hooks(bundle, found);
    plan_names(plan, found);
    plan->raise_loopback = has_own(bundle, PIN_NS_NETWORK);
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
        plan->may_set_groups = may_set_groups(plan, host);
        plan->engine.enter_as_root =
            bundle->namespaces[PIN_NS_USER].present && maps_zero(bundle->uid_maps, bundle->uid_map_count);
    } else {
        plan_container(plan, host, request, found);
    }
    pin_plan_engine_process(plan, host, request, found);
    if (pin_found_any(found)) {
        pin_plan_free(plan);
        return NULL;
    }
    return plan;
}
