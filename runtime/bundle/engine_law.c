#include "runtime/bundle/engine_law.h"

#include <stdio.h>
#include <string.h>

#include "base/names.h"
#include "base/text.h"
#include "policy/checks.h"
#include "policy/covers.h"
#include "policy/label_rules.h"
#include "policy/policy_order.h"
#include "policy/policy_read.h"
#include "policy/policy_write.h"
#include "runtime/bundle/bundle_ceiling.h"
#include "runtime/bundle/bundle_wall.h"
#include "runtime/bundle/fill.h"
#include "runtime/bundle/systemd_property.h"

#define SYSTEM_IDS 65536u      /* below it are the host's own users; ranges for containers begin above */
#define LEAST_OOM_SCORE (-998) /* Kubernetes gives it; what is below is never chosen at all */

#define SHORT_PATH "PATH=/usr/sbin:/usr/bin:/sbin:/bin"
#define USUAL_PATH "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

struct law {
    struct pin_bundle *bundle;
    const struct pin_policy *ceiling;
    const struct pin_engine_caller *caller;
    struct pin_policy *asked;
    struct pin_findings *found;
};

#define REFUSE(law, pointer, hint, ...)                                                                      \
    (void)pin_find((law)->found, PIN_ERROR_REFUSED, "config.json " pointer, hint, __VA_ARGS__)

/* --- what is asked, in the words of a policy --- */

static const struct {
    enum pin_namespace ns;
    enum pin_space space;
} spaces[] = {
    {PIN_NS_USER,    PIN_SPACE_USER   },
    {PIN_NS_PID,     PIN_SPACE_PID    },
    {PIN_NS_NETWORK, PIN_SPACE_NETWORK},
    {PIN_NS_IPC,     PIN_SPACE_IPC    },
    {PIN_NS_UTS,     PIN_SPACE_UTS    },
    {PIN_NS_CGROUP,  PIN_SPACE_CGROUP },
};
_Static_assert(PIN_COUNT(spaces) == PIN_SPACE_COUNT, "every namespace of a policy is one of a bundle");

static void state_spaces(struct law *law) {
    law->asked->engine.shares = law->asked->engine.joins = 0;
    for (size_t i = 0; i < PIN_COUNT(spaces); i++) {
        const struct pin_bundle_namespace *ns = &law->bundle->namespaces[spaces[i].ns];
        bool own_already = spaces[i].space == PIN_SPACE_USER && !law->caller->on_host;
        if (ns->path != NULL)
            law->asked->engine.joins |= 1u << spaces[i].space;
        else if (!ns->present && !own_already)
            law->asked->engine.shares |= 1u << spaces[i].space;
    }
}

static void add_string(struct law *law, struct pin_strings *list, const char *text) {
    struct pin_string *item = pin_arena_grow(&law->asked->arena, &list->items, &list->count, sizeof(*item));
    *item = (struct pin_string){.text = pin_arena_strdup(&law->asked->arena, text)};
}

static bool may(const struct law *law, enum pin_field field, const char *path) {
    const struct pin_field_row *row = pin_field_row(field);
    const struct pin_list granted = pin_list_of(law->ceiling, row);
    const struct pin_string asked = {.text = path};
    for (size_t i = 0; i < granted.count; i++)
        if (pin_covers_of(row)(pin_list_at(&granted, i), &asked))
            return true;
    return false;
}

/* What may be written may be read as well. */
static void state_binds(struct law *law) {
    struct pin_policy *asked = law->asked;
    asked->filesystem.mounts = NULL;
    asked->filesystem.mount_count = 0;
    asked->engine.read = asked->engine.write = (struct pin_strings){0};
    for (size_t i = 0; i < law->bundle->mount_count; i++) {
        const struct pin_bundle_mount *mount = &law->bundle->mounts[i];
        if (!pin_bundle_mount_is_bind(mount) || mount->source == NULL)
            continue;
        if (pin_bundle_mount_is_writable(mount))
            add_string(law, &asked->engine.write, mount->source);
        else if (!may(law, PIN_FIELD_ENGINE_WRITE, mount->source))
            add_string(law, &asked->engine.read, mount->source);
    }
}

/* A root inside the bundle is the bundle's own. */
static void state_root(struct law *law) {
    const char *path = law->bundle->root.path;
    law->asked->engine.roots = (struct pin_strings){0};
    if (path == NULL || path[0] == '\0')
        (void)pin_find(law->found, PIN_ERROR_INVALID, "config.json /root", NULL,
                       "there is no root directory");
    else if (path[0] == '/')
        add_string(law, &law->asked->engine.roots, path);
    else if (strcmp(path, ".") == 0 || strcmp(path, "..") == 0 || strncmp(path, "../", 3) == 0 ||
             strstr(path, "/..") != NULL)
        REFUSE(law, "/root/path", "write a directory inside the bundle",
               "the root '%.120s' is not inside the bundle", path);
}

/* A variable such as LD_PRELOAD or PYTHONPATH makes another program of a hook, run on the host by our caller.
 */
static void check_hook_environment(struct law *law, const struct pin_bundle_hook *hook) {
    for (size_t i = 0; i < hook->env_count; i++)
        if (strcmp(hook->env[i], USUAL_PATH) != 0 && strcmp(hook->env[i], SHORT_PATH) != 0)
            REFUSE(law, "/hooks", "leave the variable out; " USUAL_PATH " may stand",
                   "'%.64s' would change what the hook '%.80s' does", hook->env[i], hook->path);
}

static void state_hooks(struct law *law) {
    const struct pin_bundle *bundle = law->bundle;
    law->asked->engine.hooks = (struct pin_strings){0};
    for (unsigned stage = 0; stage < PIN_HOOK_STAGE_COUNT; stage++)
        for (size_t i = 0; i < bundle->hook_count[stage]; i++) {
            const struct pin_bundle_hook *hook = &bundle->hooks[stage][i];
            const char *name = hook->arg_count > 0 ? hook->args[0] : "";
            if (stage == PIN_HOOK_START_CONTAINER) /* a file of the container, with the powers of its maker */
                REFUSE(law, "/hooks/startContainer", "leave it out",
                       "wants '%.80s' run before the container is confined", hook->path);
            check_hook_environment(law, hook);
            add_string(
                law, &law->asked->engine.hooks,
                pin_arena_printf(&law->asked->arena, name[0] != '\0' ? "%s %s" : "%s", hook->path, name));
        }
}

#define PAYLOAD "/libpod-payload-"

static bool ends_in_unit(const char *path, size_t length, const char *ending) {
    size_t size = strlen(ending);
    return length > size && memcmp(path + length - size, ending, size) == 0 && path[length - size - 1] != '/';
}

/* podman --cgroups=split, which its units of systemd ("quadlets") have by default: a group of its own in the
 * unit that the engine itself was started in. It is held to that unit's limits and ends with it, as the
 * engine does, and reaches no other unit: like a group of our own choice it needs no grant. */
static bool is_payload_of_own_unit(const struct pin_engine_caller *caller) {
    size_t unit = 0;
    for (size_t i = 1; caller->own != NULL && caller->own[i - 1] != '\0'; i++)
        if ((caller->own[i] == '/' || caller->own[i] == '\0') &&
            (ends_in_unit(caller->own, i, ".service") || ends_in_unit(caller->own, i, ".scope")))
            unit = i; /* the innermost: a user's own systemd is a service itself */
    if (unit == 0 || strncmp(caller->cgroup, caller->own, unit) != 0)
        return false;
    const char *name = caller->cgroup + unit;
    return strncmp(name, PAYLOAD, strlen(PAYLOAD)) == 0 && strchr(name + 1, '/') == NULL;
}

/* Whose limits hold beside its own, and who ends it by ending that group. */
static void state_cgroup(struct law *law) {
    const char *path = law->caller->cgroup;
    law->asked->engine.cgroups = (struct pin_strings){0};
    if (path != NULL && !pin_is_plain_path(path))
        REFUSE(law, "/linux/cgroupsPath", "a path without '.' and '..'", "'%.120s' is no place for a cgroup",
               path);
    else if (path != NULL && !is_payload_of_own_unit(law->caller))
        add_string(law, &law->asked->engine.cgroups, path);
}

/* One that lets everything through is none. */
static bool is_unfiltered(const struct pin_filter *filter) {
    bool open = filter->default_action == PIN_FILTER_ALLOW || filter->default_action == PIN_FILTER_LOG;
    return !filter->present || (open && filter->rule_count == 0);
}

static void state_all(struct law *law) {
    state_spaces(law);
    state_binds(law);
    state_root(law);
    state_hooks(law);
    state_cgroup(law);
    law->asked->engine.unfiltered = is_unfiltered(&law->bundle->seccomp);
    law->asked->privileged = false; /* what that grants is no longer judged; asking itself is no more */
}

/* --- what no policy has a word for --- */

static void check_maps(const struct law *law) {
    const struct pin_bundle *bundle = law->bundle;
    const struct {
        const struct pin_id_map *maps;
        size_t count;
        const char *pointer;
    } rows[] = {
        {bundle->uid_maps, bundle->uid_map_count, "config.json /linux/uidMappings"},
        {bundle->gid_maps, bundle->gid_map_count, "config.json /linux/gidMappings"},
    };
    for (size_t row = 0; row < PIN_COUNT(rows) && law->caller->on_host; row++)
        for (size_t i = 0; i < rows[row].count; i++)
            if (rows[row].maps[i].outside < SYSTEM_IDS)
                (void)pin_find(law->found, PIN_ERROR_REFUSED, rows[row].pointer,
                               "map to ids from 65536 on, of a range that /etc/subuid sets aside",
                               "gives the container the host's id %u", rows[row].maps[i].outside);
}

static void check_mount_namespace(const struct law *law) {
    const struct pin_bundle_namespace *mounts = &law->bundle->namespaces[PIN_NS_MOUNT];
    if (!mounts->present || mounts->path != NULL)
        REFUSE(law, "/linux/namespaces", "add {\"type\": \"mount\"}", "is in others' mount namespace");
}

static void check_process(const struct law *law) {
    const struct pin_bundle *bundle = law->bundle;
    if (bundle->process.has_oom_score_adj && bundle->process.oom_score_adj < LEAST_OOM_SCORE)
        REFUSE(law, "/process/oomScoreAdj", "write -998 or more",
               "asks that all other processes are killed in its place");
    for (size_t i = 0; i < bundle->process.group_count; i++)
        if (law->ceiling->identity.group != 0 && bundle->process.groups[i] != law->ceiling->identity.group)
            REFUSE(law, "/process/user/additionalGids", "leave it out",
                   "the policy doesn't grant the group %u", bundle->process.groups[i]);
    for (size_t i = 0; i < bundle->process.env_count; i++) {
        const char *variable = bundle->process.env[i];
        const char *name = pin_arena_strndup(&law->asked->arena, variable, strcspn(variable, "="));
        for (size_t j = 0; j < law->ceiling->environment.refuse.count; j++)
            if (pin_glob_match(law->ceiling->environment.refuse.items[j].text, name))
                REFUSE(law, "/process/env", "leave the variable out",
                       "the policy refuses the variable '%.64s'", name);
    }
}

static void check_egress(const struct law *law) {
    const struct pin_bundle *bundle = law->bundle;
    const struct pin_bundle_namespace *network = &bundle->namespaces[PIN_NS_NETWORK];
    if (bundle->ext.egress_count == 0)
        return;
    if (!network->present || network->path != NULL)
        REFUSE(law, "/annotations/io.pinfold.egress", "have the engine give it no network (--network none)",
               "egress by host name needs a network namespace that is new and empty");
    if (!law->caller->has_broker)
        (void)pin_find(law->found, PIN_ERROR_UNSUPPORTED, "config.json /annotations/io.pinfold.egress",
                       "install pinfold's libexec folder", "there is no broker on this host");
}

/* What gives the container nothing: it is found, ordered, limited or stopped by it. Others start and stop
 * units of the host, or leave processes behind. By its names for seconds and for microseconds. */
static bool is_harmless_property(const char *name) {
    static const char *const names[] = {
        "After",         "Before",         "CollectMode",    "Delegate",        "Description",
        "Documentation", "KillSignal",     "MemoryHigh",     "MemoryMax",       "MemorySwapMax",
        "RuntimeMaxSec", "RuntimeMaxUSec", "TimeoutStopSec", "TimeoutStopUSec",
    };
    for (size_t i = 0; i < PIN_COUNT(names); i++)
        if (strcmp(names[i], name) == 0)
            return true;
    return false;
}

static void check_unit(const struct law *law) {
    const struct pin_bundle *bundle = law->bundle;
    for (size_t i = 0; law->caller->systemd && i < bundle->annotation_count; i++) {
        const char *name = pin_systemd_property_of(bundle->annotations[i].key);
        if (name != NULL && !law->ceiling->privileged && !is_harmless_property(name))
            REFUSE(law, "/annotations", "leave the annotation out", "sets '%.64s' of its unit of systemd",
                   name);
    }
}

static void check_label(void *context, const struct pin_string *label, const char *pointer,
                        const char *cause) {
    const struct law *law = context;
    const struct pin_bundle_ext *ext = &law->bundle->ext;
    (void)pointer;
    for (size_t i = 0; i < ext->label_count; i++)
        if (strcmp(ext->labels[i].key, label->text) == 0)
            return;
    REFUSE(law, "/annotations/io.pinfold.labels", "annotate the container with it",
           "the policy requires the label '%s'%s%s", label->text, cause != NULL ? " of " : "",
           cause != NULL ? cause : "");
}

static void check_extensions(const struct law *law) {
    const struct pin_bundle_ext *ext = &law->bundle->ext;
    if (ext->present)
        REFUSE(law, "/pinfold", "ask by annotations", "an engine's bundle has no such block");
    if (ext->secret_count > 0)
        (void)pin_find(law->found, PIN_ERROR_UNSUPPORTED, "config.json /annotations/io.pinfold.secrets",
                       "use the engine's own secrets", "secrets aren't handed over beneath an engine");
    unsigned causes = (ext->egress_count > 0 ? PIN_LABELS_FOR_EGRESS : 0) |
                      (law->ceiling->privileged ? PIN_LABELS_FOR_PRIVILEGED : 0);
    pin_labels_needed(law->ceiling, causes, check_label, (void *)(uintptr_t)law);
}

/* --- mounts --- */

static bool is_kernel_place(const char *path) {
    return pin_path_beneath(path, "/proc") || pin_path_beneath(path, "/sys");
}

static const struct place {
    const char *type, *at;
    bool read_only;
} places[] = {
    {"proc",    "/proc",          false},
    {"sysfs",   "/sys",           true },
    {"cgroup",  "/sys/fs/cgroup", true },
    {"cgroup2", "/sys/fs/cgroup", true },
    {"devpts",  "/dev/pts",       false},
    {"mqueue",  "/dev/mqueue",    false},
    {"tmpfs",   NULL,             false},
};

static const char *fault_of_mount(const struct law *law, const struct pin_bundle_mount *mount) {
    static const char *const shown[] = {"shared", "rshared"};
    const char *at = mount->destination;
    if (!pin_is_plain_path(at) || strcmp(at, "/") == 0)
        return "can't mount at";
    for (size_t i = 0; i < PIN_COUNT(shown); i++)
        if (pin_bundle_mount_has(mount, shown[i]))
            return "mounts would travel to the host from";
    if (pin_bundle_mount_is_bind(mount))
        return is_kernel_place(at) && !law->ceiling->privileged ? "would cover a part of the kernel's at"
                                                                : NULL;
    for (size_t i = 0; i < PIN_COUNT(places); i++) {
        const struct place *place = &places[i];
        if (strcmp(place->type, mount->type) != 0)
            continue;
        if (place->at != NULL ? strcmp(place->at, at) != 0 : is_kernel_place(at))
            return "a file system of the kernel at";
        return place->read_only && pin_bundle_mount_is_writable(mount) && !law->ceiling->privileged
                   ? "leaves the host's settings writable at"
                   : NULL;
    }
    return "would show more of the host: a file system at";
}

/* An idmapped mount writes other ids to the disk than the container has. Where the policy keeps containers
 * from host ids, they must not leave programs there that belong to the host's root and are set-id. */
static void check_disk_ids(const struct law *law, const struct pin_bundle_mount *mount, const char *pointer) {
    const struct {
        const struct pin_id_map *maps;
        size_t count;
    } rows[] = {
        {mount->uid_maps, mount->uid_map_count},
        {mount->gid_maps, mount->gid_map_count}
    };
    bool may_be_root = (law->ceiling->engine.shares >> PIN_SPACE_USER & 1) != 0 &&
                       law->ceiling->identity.user == 0 && law->ceiling->identity.group == 0;
    if (may_be_root || !law->caller->on_host || !pin_bundle_mount_is_writable(mount))
        return;
    for (size_t row = 0; row < PIN_COUNT(rows); row++)
        for (size_t i = 0; i < rows[row].count; i++)
            if (rows[row].maps[i].inside < SYSTEM_IDS)
                (void)pin_find(law->found, PIN_ERROR_REFUSED, pointer,
                               "mount it read-only, or with ids from 65536 on",
                               "would write files of the host's id %u at '%.120s'", rows[row].maps[i].inside,
                               mount->destination);
}

static void check_mounts(const struct law *law) {
    for (size_t i = 0; i < law->bundle->mount_count; i++) {
        const struct pin_bundle_mount *mount = &law->bundle->mounts[i];
        const char *fault = fault_of_mount(law, mount);
        char pointer[48];
        (void)snprintf(pointer, sizeof(pointer), "config.json /mounts/%zu", i);
        if (fault != NULL)
            (void)pin_find(law->found, PIN_ERROR_REFUSED, pointer, "leave the mount out", "%s '%.120s'",
                           fault, mount->destination);
        check_disk_ids(law, mount, pointer);
        if (pin_bundle_mount_is_bind(mount) && (mount->source == NULL || !pin_is_plain_path(mount->source)))
            (void)pin_find(law->found, PIN_ERROR_INVALID, pointer, "an absolute path without '.' and '..'",
                           "'%.120s' can't be bound", mount->source != NULL ? mount->source : "");
    }
}

/* --- what is left open --- */

static bool has_option(const struct pin_bundle_mount *mount, const char *prefix) {
    for (size_t i = 0; i < mount->option_count; i++)
        if (strncmp(mount->options[i], prefix, strlen(prefix)) == 0)
            return true;
    return false;
}

static void add_option(struct law *law, struct pin_bundle_mount *mount, const char *option) {
    const char **options = pin_arena_array(&law->bundle->arena, mount->option_count + 1, sizeof(*options));
    if (mount->option_count > 0)
        memcpy(options, mount->options, mount->option_count * sizeof(*options));
    options[mount->option_count++] = option;
    mount->options = options;
}

/* What may only be read may be read below, too: "ro" is for the mount itself, not for those beneath it. */
static void close_binds(struct law *law) {
    for (size_t i = 0; i < law->bundle->mount_count; i++) {
        struct pin_bundle_mount *mount = &law->bundle->mounts[i];
        if (pin_bundle_mount_is_bind(mount) && mount->source != NULL &&
            !pin_bundle_mount_is_writable(mount) && !may(law, PIN_FIELD_ENGINE_WRITE, mount->source))
            add_option(law, mount, "rro");
    }
}

/* A tmpfs without a size may fill half of the host's memory. */
static void size_tmpfs(struct law *law) {
    for (size_t i = 0; i < law->bundle->mount_count; i++) {
        struct pin_bundle_mount *mount = &law->bundle->mounts[i];
        if (pin_bundle_mount_is_bind(mount) || strcmp(mount->type, "tmpfs") != 0 ||
            has_option(mount, "size=") || has_option(mount, "nr_blocks="))
            continue;
        add_option(law, mount,
                   pin_arena_printf(&law->bundle->arena, "size=%llu",
                                    (unsigned long long)law->ceiling->filesystem.tmp_bytes));
    }
}

static void fill_rlimit(struct pin_bundle *bundle, const char *type, uint64_t most) {
    for (size_t i = 0; i < bundle->process.rlimit_count; i++)
        if (strcmp(bundle->process.rlimits[i].type, type) == 0)
            return;
    struct pin_bundle_rlimit *limit = pin_arena_grow(&bundle->arena, &bundle->process.rlimits,
                                                     &bundle->process.rlimit_count, sizeof(*limit));
    *limit = (struct pin_bundle_rlimit){type, most, most};
}

#define FILES_OF_ENGINES UINT64_C(1048576) /* what engines give anyway: then the caller's own limit stays */

static bool fill(struct law *law) {
    struct pin_bundle *bundle = law->bundle;
    const struct pin_policy *ceiling = law->ceiling;
    bool egress = bundle->ext.egress_count > 0;
    struct pin_egress_rule none = {0};
    const char *unpublished = NULL;
    if (ceiling->resources.files < FILES_OF_ENGINES)
        fill_rlimit(bundle, "RLIMIT_NOFILE", ceiling->resources.files);
    if (ceiling->resources.core_bytes != PIN_UNLIMITED)
        fill_rlimit(bundle, "RLIMIT_CORE", ceiling->resources.core_bytes);
    pin_fill_resources(bundle, ceiling);
    if (!ceiling->privileged)
        pin_fill_masks(bundle);
    if (!egress) /* an engine's container has what it asked for, not all that it may have */
        bundle->ext.egress = &none;
    bundle->ext.publish = &unpublished; /* engines publish ports by themselves */
    pin_fill_grants(bundle, ceiling);
    bundle->ext.publish = NULL;
    if (!egress)
        bundle->ext.egress = NULL;
    bundle->ext.policy_name = pin_arena_strdup(&bundle->arena, ceiling->name);
    memcpy(bundle->ext.policy_digest, ceiling->digest, sizeof(bundle->ext.policy_digest));
    return pin_policy_filter(ceiling, pin_arch_native(), &bundle->arena, &bundle->ceiling_filter, law->found);
}

/* Findings for what the policy grants within limits that nobody keeps beneath an engine. */
static void check_policy(const struct pin_policy *policy, struct pin_findings *found) {
    bool root_written = policy->filesystem.root == PIN_ROOT_OVERLAY;
    bool everywhere = false, calls = false;
    for (size_t i = 0; i < policy->filesystem.write.count; i++)
        everywhere |= strcmp(policy->filesystem.write.items[i].text, "/") == 0;
    for (size_t i = 0; i < policy->audit.record.count; i++)
        calls |= strcmp(policy->audit.record.items[i].text, "syscalls") == 0;
    const struct {
        bool wanted;
        enum pin_field field;
        const char *hint;
    } rows[] = {
        {policy->resources.wall_time_ns != PIN_UNLIMITED,                     PIN_FIELD_WALL_TIME,            "set it to \"unlimited\""                },
        {policy->resources.cpu_time_ns != PIN_UNLIMITED,                      PIN_FIELD_CPU_TIME,             "set it to \"unlimited\""                },
        {policy->resources.stdout_bytes != PIN_UNLIMITED,                     PIN_FIELD_STDOUT,               "set it to \"unlimited\""                },
        {policy->resources.stderr_bytes != PIN_UNLIMITED,                     PIN_FIELD_STDERR,               "set it to \"unlimited\""                },
        {root_written && policy->filesystem.root_size_bytes != PIN_UNLIMITED, PIN_FIELD_FILESYSTEM_ROOT_SIZE,
         "set it to \"unlimited\", or the root to read-only"                                                                                           },
        {root_written && !everywhere,                                         PIN_FIELD_WRITE,                "add \"/\", or set the root to read-only"},
        {calls,                                                               PIN_FIELD_RECORD,               "leave out syscalls"                     },
    };
    for (size_t i = 0; i < PIN_COUNT(rows); i++) {
        char pointer[PIN_PLACE_TEXT + 48], place[PIN_PLACE_TEXT];
        (void)snprintf(pointer, sizeof(pointer), "%s %s",
                       pin_place_print(place, &policy->places[rows[i].field]),
                       pin_field_pointer(rows[i].field));
        if (rows[i].wanted)
            (void)pin_find(found, PIN_ERROR_UNSUPPORTED, pointer, rows[i].hint,
                           "nobody can keep this limit of the policy beneath an engine");
    }
}

bool pin_bundle_admit_engine(struct pin_bundle *bundle, const struct pin_policy *ceiling,
                             const struct pin_engine_caller *caller, struct pin_findings *found) {
    size_t before = found->count + found->dropped;
    struct law law = {bundle, ceiling, caller, NULL, found};
    pin_bundle_make_sources_absolute(bundle);
    size_tmpfs(&law);
    close_binds(&law);
    law.asked = pin_bundle_as_policy(bundle, ceiling, NULL);
    check_policy(ceiling, found);
    state_all(&law);
    pin_bundle_check_engine_wall(bundle, ceiling->privileged, found);
    check_extensions(&law);
    check_mount_namespace(&law);
    check_maps(&law);
    check_process(&law);
    check_mounts(&law);
    check_egress(&law);
    check_unit(&law);
    (void)pin_policy_narrower(law.asked, ceiling, found);
    pin_policy_free(law.asked);
    return found->count + found->dropped == before && fill(&law);
}

bool pin_bundle_admit_hooks(struct pin_bundle *bundle, const struct pin_policy *ceiling,
                            struct pin_findings *found) {
    size_t before = found->count + found->dropped;
    struct law law = {bundle, ceiling, NULL, pin_policy_copy(ceiling), found};
    state_hooks(&law);
    (void)pin_policy_narrower(law.asked, ceiling, found);
    pin_policy_free(law.asked);
    return found->count + found->dropped == before;
}

/* What an update leaves out stays as it is, which nobody tells us here: half of a pair means something else
 * with each other half. */
static void check_pairs(struct law *law) {
    const struct pin_bundle_resources *asked = &law->bundle->resources;
    const struct pin_policy *ceiling = law->ceiling;
    if (ceiling->resources.millicpus != 0 && asked->has_cpu_period && asked->cpu_period != 0 &&
        (!asked->has_cpu_quota || asked->cpu_quota == 0))
        REFUSE(law, "/linux/resources/cpu/period", "name the quota as well",
               "a period alone would change what the quota means");
    if (ceiling->resources.millicpus != 0 && asked->has_cpu_quota && asked->cpu_quota != 0 &&
        (!asked->has_cpu_period || asked->cpu_period == 0)) {
        law->bundle->resources.has_cpu_period = true;
        law->bundle->resources.cpu_period = PIN_CPU_PERIOD_US;
    }
    bool memory = asked->has_memory && asked->memory != 0, swap = asked->has_swap && asked->swap != 0;
    if (ceiling->resources.swap_bytes == PIN_UNLIMITED || memory == swap)
        return;
    if (swap)
        REFUSE(law, "/linux/resources/memory/swap", "name the memory's limit as well",
               "memory and swap together, without the memory's limit, leave open how much is swap");
    else
        pin_fill_memory(&law->bundle->resources, ceiling);
}

bool pin_bundle_admit_update(struct pin_bundle *bundle, const struct pin_policy *ceiling,
                             struct pin_findings *found) {
    size_t before = found->count + found->dropped;
    struct law law = {bundle, ceiling, NULL, pin_policy_copy(ceiling), found};
    check_pairs(&law);
    pin_bundle_state_resources(law.asked, bundle);
    pin_bundle_check_engine_wall(bundle, ceiling->privileged, found);
    (void)pin_policy_narrower(law.asked, ceiling, found);
    pin_policy_free(law.asked);
    return found->count + found->dropped == before;
}
