#include "runtime/bundle/bundle_wall.h"

#include <stdio.h>
#include <string.h>

#include "base/names.h"
#include "base/text.h"

#define REFUSE(found, pointer, hint, ...)                                                                    \
    (void)pin_find(found, PIN_ERROR_REFUSED, "config.json " pointer, hint, __VA_ARGS__)
#define UNSUPPORTED(found, pointer, hint, ...)                                                               \
    (void)pin_find(found, PIN_ERROR_UNSUPPORTED, "config.json " pointer, hint, __VA_ARGS__)

static bool is_one_of(const char *const *list, size_t count, const char *text) {
    return pin_name_find(list, count, text) >= 0;
}

static void check_namespaces(const struct pin_bundle *bundle, struct pin_findings *found) {
    for (unsigned i = 0; i < PIN_NS_COUNT; i++) {
        const struct pin_bundle_namespace *ns = &bundle->namespaces[i];
        const char *name = pin_namespace_name((enum pin_namespace)i);
        if (ns->path != NULL)
            REFUSE(found, "/linux/namespaces", "leave out its path", "joins the %s namespace '%.80s'", name,
                   ns->path);
        else if (i == PIN_NS_USER && !ns->present)
            REFUSE(found, "/linux/namespaces", "add {\"type\": \"user\"}",
                   "has the host's ids: no user namespace");
        else if (i != PIN_NS_TIME && !ns->present)
            REFUSE(found, "/linux/namespaces", "add it to the list", "shares the host's %s namespace", name);
    }
}

static void check_id_maps(const struct pin_bundle *bundle, struct pin_findings *found) {
    if (bundle->uid_map_count + bundle->gid_map_count > 0)
        REFUSE(found, "/linux/uidMappings", "leave them out: each sandbox gets ids of its own",
               "chooses the host ids that it runs as");
}

static void check_process(const struct pin_bundle *bundle, struct pin_findings *found) {
    if (!bundle->process.no_new_privileges)
        REFUSE(found, "/process/noNewPrivileges", "set it to true", "lets programs gain privileges");
    if (bundle->process.has_oom_score_adj && bundle->process.oom_score_adj < 0)
        REFUSE(found, "/process/oomScoreAdj", "write 0 or more",
               "asks that the host's processes are killed in its place");
}

static bool is_set(const char *text) {
    return text != NULL && text[0] != '\0';
}

static void check_labels(const struct pin_bundle *bundle, struct pin_findings *found) {
    const char *profile = bundle->process.apparmor_profile;
    if (is_set(profile) && strcmp(profile, "unconfined") != 0)
        UNSUPPORTED(found, "/process/apparmorProfile", "leave it out",
                    "AppArmor profiles are not offered here");
    if (is_set(bundle->process.selinux_label))
        UNSUPPORTED(found, "/process/selinuxLabel", "leave it out", "SELinux labels are not offered here");
    if (is_set(bundle->mount_label))
        UNSUPPORTED(found, "/linux/mountLabel", "leave it out", "SELinux labels are not offered here");
}

static void check_scheduling(const struct pin_bundle *bundle, struct pin_findings *found) {
    static const char *const plain[] = {"SCHED_OTHER", "SCHED_BATCH", "SCHED_IDLE"};
    const char *policy = bundle->process.scheduler_policy;
    if (bundle->process.has_scheduler &&
        (bundle->process.scheduler_nice < 0 || !is_one_of(plain, PIN_COUNT(plain), policy)))
        REFUSE(found, "/process/scheduler",
               "SCHED_OTHER, SCHED_BATCH or SCHED_IDLE, with a nice of 0 or more",
               "asks to run before the host's processes");
    if (bundle->process.has_io_priority && strcmp(bundle->process.io_priority_class, "IOPRIO_CLASS_RT") == 0)
        REFUSE(found, "/process/ioPriority", "IOPRIO_CLASS_BE or IOPRIO_CLASS_IDLE",
               "asks to be served before the host's processes");
}

static void check_rlimits(const struct pin_bundle *bundle, struct pin_findings *found) {
    static const char *const raised[] = {"RLIMIT_RTPRIO", "RLIMIT_NICE"};
    for (size_t i = 0; i < bundle->process.rlimit_count; i++) {
        const struct pin_bundle_rlimit *limit = &bundle->process.rlimits[i];
        if (is_one_of(raised, PIN_COUNT(raised), limit->type) && limit->hard > 0)
            REFUSE(found, "/process/rlimits", "leave it out",
                   "'%s' would let it run before the host's processes", limit->type);
        for (size_t j = 0; j < i; j++)
            if (strcmp(bundle->process.rlimits[j].type, limit->type) == 0)
                (void)pin_find(found, PIN_ERROR_INVALID, "config.json /process/rlimits", "keep one of them",
                               "'%.40s' stands twice", limit->type);
    }
}

static void check_hooks(const struct pin_bundle *bundle, struct pin_findings *found) {
    for (unsigned i = 0; i < PIN_HOOK_STAGE_COUNT; i++)
        if (bundle->hook_count[i] > 0)
            REFUSE(found, "/hooks", "leave the hooks out", "wants '%.80s' run on the host",
                   bundle->hooks[i][0].path != NULL ? bundle->hooks[i][0].path : "");
}

static const struct {
    const char *path;
    int64_t major, minor;
} usual_devices[] = {
    {"/dev/null",    1, 3},
    {"/dev/zero",    1, 5},
    {"/dev/full",    1, 7},
    {"/dev/random",  1, 8},
    {"/dev/urandom", 1, 9},
    {"/dev/tty",     5, 0},
};

static bool is_usual(const struct pin_bundle_device *device) {
    for (size_t i = 0; i < PIN_COUNT(usual_devices); i++)
        if (strcmp(usual_devices[i].path, device->path) == 0)
            return device->type == 'c' && device->major == usual_devices[i].major &&
                   device->minor == usual_devices[i].minor;
    return false;
}

/* Rules that engines always send: the usual devices, terminals, and making nodes, which the filter and the
 * user namespace forbid all the same. */
static bool is_usual_rule(const struct pin_bundle_device_rule *rule) {
    if (!rule->allow)
        return true;
    if (rule->type != 'c' && rule->type != 'b')
        return false;
    if (is_set(rule->access) && strcmp(rule->access, "m") == 0)
        return true;
    for (size_t i = 0; i < PIN_COUNT(usual_devices); i++)
        if (rule->type == 'c' && rule->major == usual_devices[i].major &&
            rule->minor == usual_devices[i].minor)
            return true;
    return rule->type == 'c' &&
           (rule->major == 136 || (rule->major == 5 && rule->minor >= 1 && rule->minor <= 2));
}

/* containerd's list has it for every container; what it makes lies in a network of the container's. */
static bool is_tun_rule(const struct pin_bundle_device_rule *rule) {
    return rule->type == 'c' && rule->major == 10 && rule->minor == 200;
}

static void check_devices(const struct pin_bundle *bundle, struct pin_findings *found) {
    for (size_t i = 0; i < bundle->device_count; i++)
        if (!is_usual(&bundle->devices[i]))
            REFUSE(found, "/linux/devices", "null, zero, full, random, urandom and tty are there anyway",
                   "wants the device '%.80s'", bundle->devices[i].path);
    for (size_t i = 0; i < bundle->resources.device_count; i++)
        if (!is_usual_rule(&bundle->resources.devices[i]) && !is_tun_rule(&bundle->resources.devices[i]))
            REFUSE(found, "/linux/resources/devices", "leave the rule out",
                   "rule %zu allows devices beyond the usual ones", i);
}

static void check_cgroup_limits(const struct pin_bundle *bundle, struct pin_findings *found) {
    const struct pin_bundle_resources *resources = &bundle->resources;
    if (resources->disable_oom_killer)
        REFUSE(found, "/linux/resources/memory/disableOOMKiller", "leave it out",
               "would hang at its memory limit");
    if (resources->has_rt_runtime || resources->has_rt_period)
        REFUSE(found, "/linux/resources/cpu", "leave out realtimeRuntime and realtimePeriod",
               "asks to run before the host's processes");
}

static void check_cgroup(const struct pin_bundle *bundle, struct pin_findings *found) {
    if (is_set(bundle->cgroups_path))
        REFUSE(found, "/linux/cgroupsPath", "leave it out: each sandbox gets a cgroup of its own",
               "chooses its place among the host's cgroups");
    check_cgroup_limits(bundle, found);
}

static void check_unified(const struct pin_bundle *bundle, struct pin_findings *found) {
    if (bundle->resources.unified_count > 0)
        UNSUPPORTED(found, "/linux/resources/unified", "use the named fields",
                    "raw cgroup files are not offered here");
}

/* Files by which a container is held shorter, never its neighbours. */
static void check_own_unified(const struct pin_bundle *bundle, struct pin_findings *found) {
    static const char *const own[] = {"memory.high", "memory.oom.group", "memory.swap.high"};
    for (size_t i = 0; i < bundle->resources.unified_count; i++)
        if (!is_one_of(own, PIN_COUNT(own), bundle->resources.unified[i].key))
            REFUSE(found, "/linux/resources/unified", "leave it out", "'%.64s' takes from what others get",
                   bundle->resources.unified[i].key);
}

/* Settings that belong to a namespace of the sandbox. Everything else is the host's. */
static bool is_own_sysctl(const char *key) {
    static const char *const exact[] = {"kernel.msgmax", "kernel.msgmnb",         "kernel.msgmni",
                                        "kernel.sem",    "kernel.shmall",         "kernel.shmmax",
                                        "kernel.shmmni", "kernel.shm_rmid_forced"};
    static const char *const families[] = {"fs.mqueue.", "net.ipv4.", "net.ipv6.", "net.core.somaxconn"};
    if (strspn(key, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-") != strlen(key) ||
        strstr(key, "..") != NULL)
        return false;
    if (is_one_of(exact, PIN_COUNT(exact), key))
        return true;
    for (size_t i = 0; i < PIN_COUNT(families); i++)
        if (strncmp(key, families[i], strlen(families[i])) == 0)
            return true;
    return false;
}

static void check_sysctls(const struct pin_bundle *bundle, struct pin_findings *found) {
    char shown[96];
    for (size_t i = 0; i < bundle->sysctl_count; i++) {
        const struct pin_pair *sysctl = &bundle->sysctls[i];
        (void)pin_escape(shown, sizeof(shown), sysctl->key, strlen(sysctl->key));
        if (!is_own_sysctl(sysctl->key))
            REFUSE(found, "/linux/sysctl", "leave it out", "'%s' is a setting of the host", shown);
        else if (strspn(sysctl->value, "0123456789 \t-") != strlen(sysctl->value))
            (void)pin_find(found, PIN_ERROR_INVALID, "config.json /linux/sysctl", NULL,
                           "the value of '%s' is no list of numbers", shown);
    }
}

static bool has_path(const char *const *list, size_t count, const char *path) {
    for (size_t i = 0; i < count; i++)
        if (strcmp(list[i], path) == 0)
            return true;
    return false;
}

/* What every engine masks. Ours are more, and added; a bundle without these has meant to unmask. */
static void check_masks(const struct pin_bundle *bundle, struct pin_findings *found) {
    static const char *const masked[] = {"/proc/kcore", "/proc/keys", "/proc/timer_list",
                                         "/proc/sched_debug"};
    static const char *const read_only[] = {"/proc/sys", "/proc/sysrq-trigger", "/proc/irq", "/proc/bus"};
    bool proc = false;
    for (size_t i = 0; i < bundle->mount_count; i++)
        proc = proc || (bundle->mounts[i].type != NULL && strcmp(bundle->mounts[i].type, "proc") == 0);
    if (!proc)
        return;
    for (size_t i = 0; i < PIN_COUNT(masked); i++)
        if (!has_path(bundle->masked_paths, bundle->masked_path_count, masked[i]))
            REFUSE(found, "/linux/maskedPaths", "add it to the list", "leaves '%s' in sight", masked[i]);
    for (size_t i = 0; i < PIN_COUNT(read_only); i++)
        if (!has_path(bundle->readonly_paths, bundle->readonly_path_count, read_only[i]) &&
            !has_path(bundle->masked_paths, bundle->masked_path_count, read_only[i]))
            REFUSE(found, "/linux/readonlyPaths", "add it to the list", "leaves '%s' writable", read_only[i]);
}

static void check_propagation(const struct pin_bundle *bundle, bool inwards, struct pin_findings *found) {
    static const char *const kept[] = {"private", "rprivate", "slave", "rslave", "unbindable", "runbindable"};
    const char *asked = bundle->rootfs_propagation;
    if (is_set(asked) && !is_one_of(kept, inwards ? PIN_COUNT(kept) : 2, asked))
        REFUSE(found, "/linux/rootfsPropagation", "write private", "mounts would travel to or from the host");
}

static void check_notify(const struct pin_bundle *bundle, struct pin_findings *found) {
    bool asked = bundle->seccomp.default_action == PIN_FILTER_NOTIFY || is_set(bundle->seccomp.listener_path);
    for (size_t i = 0; i < bundle->seccomp.rule_count; i++)
        asked = asked || bundle->seccomp.rules[i].action == PIN_FILTER_NOTIFY;
    if (asked)
        UNSUPPORTED(found, "/linux/seccomp", "leave out listenerPath and SCMP_ACT_NOTIFY",
                    "system calls are not handed to another process here");
}

static void check_kernel(const struct pin_bundle *bundle, struct pin_findings *found) {
    check_propagation(bundle, false, found);
    check_notify(bundle, found);
}

/* Engines let mounts of the host appear inside; none of the container's may leave. */
static void check_travel(const struct pin_bundle *bundle, struct pin_findings *found) {
    check_propagation(bundle, true, found);
    check_notify(bundle, found);
}

static void check_personality(const struct pin_bundle *bundle, struct pin_findings *found) {
    if (is_set(bundle->personality_domain) && strcmp(bundle->personality_domain, "LINUX") != 0)
        REFUSE(found, "/linux/personality", "leave it out", "asks for another architecture's system calls");
}

static void check_root(const struct pin_bundle *bundle, struct pin_findings *found) {
    const char *path = bundle->root.path;
    if (path == NULL || path[0] == '\0')
        (void)pin_find(found, PIN_ERROR_INVALID, "config.json /root", "write {\"path\": \"rootfs\"}",
                       "there is no root directory");
    else if (path[0] == '/' || strcmp(path, ".") == 0 || strcmp(path, "..") == 0 ||
             strncmp(path, "../", 3) == 0 || strstr(path, "/..") != NULL)
        REFUSE(found, "/root/path", "write a directory inside the bundle",
               "the root '%.120s' is not inside the bundle", path);
    if (bundle->ext.layer_count > 0)
        REFUSE(found, "/pinfold/layers", "give the image by its name", "brings host directories as its root");
}

typedef void check(const struct pin_bundle *bundle, struct pin_findings *found);

static void check_all(check *const *checks, size_t count, const struct pin_bundle *bundle,
                      struct pin_findings *found) {
    for (size_t i = 0; i < count; i++)
        checks[i](bundle, found);
}

void pin_bundle_check_wall(const struct pin_bundle *bundle, struct pin_findings *found) {
    static check *const checks[] = {
        check_root,       check_namespaces, check_id_maps, check_process, check_labels,
        check_scheduling, check_rlimits,    check_hooks,   check_devices, check_cgroup,
        check_unified,    check_sysctls,    check_masks,   check_kernel,  check_personality,
    };
    check_all(checks, PIN_COUNT(checks), bundle, found);
}

void pin_bundle_check_engine_wall(const struct pin_bundle *bundle, bool privileged,
                                  struct pin_findings *found) {
    static check *const checks[] = {check_scheduling,  check_rlimits, check_cgroup_limits,
                                    check_own_unified, check_sysctls, check_travel};
    static check *const held[] = {check_devices, check_masks};
    check_all(checks, PIN_COUNT(checks), bundle, found);
    if (!privileged)
        check_all(held, PIN_COUNT(held), bundle, found);
}
