#include "runtime/bundle/bundle_ceiling.h"

#include <stdio.h>
#include <string.h>

#include "base/names.h"
#include "base/text.h"
#include "base/units.h"
#include "policy/checks.h"
#include "policy/egress_terms.h"
#include "policy/policy_order.h"
#include "policy/policy_read.h"
#include "policy/policy_write.h"
#include "runtime/bundle/bundle_wall.h"
#include "runtime/bundle/fill.h"
#include "runtime/bundle/resolve.h"
#include "runtime/bundle/resolve_env.h"
#include "runtime/bundle/resolve_mounts.h"

/* Where an item stands of which the reader has kept no line. */
#define IN_BUNDLE                                                                                            \
    { "config.json", 0, 0 }

static uint64_t limit_of(int64_t value) {
    return value < 0 ? PIN_UNLIMITED : (uint64_t)value;
}

/* Thousandths of a processor, rounded up; 0 is no limit, as in a policy. */
static uint32_t millicpus_of(const struct pin_bundle_resources *resources) {
    uint64_t period = resources->has_cpu_period && resources->cpu_period > 0 ? resources->cpu_period : 100000;
    uint64_t scaled;
    if (resources->cpu_quota < 0)
        return 0;
    if (__builtin_mul_overflow((uint64_t)resources->cpu_quota, UINT64_C(1000), &scaled))
        return UINT32_MAX;
    uint64_t millicpus = scaled / period + (scaled % period != 0);
    return millicpus > UINT32_MAX ? UINT32_MAX : (uint32_t)millicpus;
}

void pin_bundle_state_resources(struct pin_policy *asked, const struct pin_bundle *bundle) {
    const struct pin_bundle_resources *resources = &bundle->resources;
    if (resources->has_memory && resources->memory != 0)
        asked->resources.memory_bytes = limit_of(resources->memory);
    if (resources->has_swap && resources->swap != 0) {
        uint64_t both = limit_of(resources->swap), memory = asked->resources.memory_bytes;
        asked->resources.swap_bytes = both == PIN_UNLIMITED ? both : both > memory ? both - memory : 0;
    }
    if (resources->has_pids && resources->pids != 0)
        asked->resources.pids = limit_of(resources->pids);
    if (resources->has_cpu_quota && resources->cpu_quota != 0)
        asked->resources.millicpus = millicpus_of(resources);
    for (size_t i = 0; i < bundle->process.rlimit_count; i++) {
        const struct pin_bundle_rlimit *limit = &bundle->process.rlimits[i];
        if (strcmp(limit->type, "RLIMIT_NOFILE") == 0)
            asked->resources.files = limit->hard;
        else if (strcmp(limit->type, "RLIMIT_CORE") == 0)
            asked->resources.core_bytes = limit->hard;
    }
}

static void state_limits(struct pin_policy *asked, const struct pin_bundle_ext *ext) {
    const struct {
        uint64_t *to;
        uint64_t value;
    } rows[] = {
        {&asked->resources.wall_time_ns, ext->wall_time_ns},
        {&asked->resources.cpu_time_ns,  ext->cpu_time_ns },
        {&asked->resources.grace_ns,     ext->grace_ns    },
        {&asked->resources.stdout_bytes, ext->stdout_bytes},
        {&asked->resources.stderr_bytes, ext->stderr_bytes},
        {&asked->resources.frame_bytes,  ext->frame_bytes },
    };
    for (size_t i = 0; i < PIN_COUNT(rows); i++)
        if (rows[i].value != 0)
            *rows[i].to = rows[i].value;
}

/* The bytes of a tmpfs, as mount(8) writes its size; without one it may fill half of the host's memory. */
static uint64_t tmpfs_bytes(const struct pin_bundle_mount *mount) {
    static const char suffixes[] = "kmg";
    uint64_t bytes = PIN_UNLIMITED;
    for (size_t i = 0; i < mount->option_count; i++) {
        if (strncmp(mount->options[i], "nr_blocks", 9) == 0)
            return PIN_UNLIMITED; /* the same in pages, and the last of the two counts */
        if (strncmp(mount->options[i], "size=", 5) != 0)
            continue;
        char digits[24];
        const char *text = mount->options[i] + 5;
        size_t length = strspn(text, "0123456789");
        const char *suffix = text[length] == '\0' ? NULL : strchr(suffixes, text[length] | 0x20);
        uint64_t unit = suffix == NULL ? 1 : UINT64_C(1024) << (10 * (suffix - suffixes));
        bool right = length > 0 && length < sizeof(digits) &&
                     (text[length] == '\0' || (suffix != NULL && text[length + 1] == '\0'));
        (void)snprintf(digits, sizeof(digits), "%.*s", (int)(right ? length : 0), text);
        if (!right || !pin_parse_u64(digits, &bytes) || __builtin_mul_overflow(bytes, unit, &bytes) ||
            bytes == 0)
            return PIN_UNLIMITED; /* a share of the memory, or nonsense; and 0 means no limit */
    }
    return bytes;
}

static bool is_workspace(const struct pin_bundle *bundle, const struct pin_bundle_mount *mount) {
    const char *source = bundle->ext.workspace.source, *target = bundle->ext.workspace.target;
    return source != NULL && mount->source != NULL && strcmp(mount->source, source) == 0 &&
           strcmp(mount->destination, target) == 0 &&
           (bundle->ext.workspace.access == PIN_ACCESS_WRITE || !pin_bundle_mount_is_writable(mount));
}

static bool is_of_host_image(const struct pin_rootfs *host, const struct pin_bundle_mount *mount) {
    if (host == NULL || mount->source == NULL || pin_bundle_mount_is_writable(mount))
        return false;
    for (size_t i = 0; i < host->bind_count; i++)
        if (strcmp(host->binds[i].source, mount->source) == 0 &&
            strcmp(host->binds[i].target, mount->destination + 1) == 0)
            return true;
    return false;
}

static void state_mounts(struct pin_policy *asked, const struct pin_bundle *bundle,
                         const struct pin_rootfs *host) {
    asked->filesystem.mounts = NULL;
    asked->filesystem.mount_count = 0;
    for (size_t i = 0; i < bundle->mount_count; i++) {
        const struct pin_bundle_mount *mount = &bundle->mounts[i];
        if (!pin_bundle_mount_is_bind(mount)) {
            bool tmpfs = strcmp(mount->type, "tmpfs") == 0;
            if (tmpfs && tmpfs_bytes(mount) > asked->filesystem.tmp_bytes)
                asked->filesystem.tmp_bytes = tmpfs_bytes(mount);
            continue;
        }
        if (mount->source == NULL || is_workspace(bundle, mount) || is_of_host_image(host, mount))
            continue;
        struct pin_mount_rule *rule = pin_arena_grow(&asked->arena, &asked->filesystem.mounts,
                                                     &asked->filesystem.mount_count, sizeof(*rule));
        rule->source = pin_arena_strdup(&asked->arena, mount->source);
        rule->target = pin_arena_strdup(&asked->arena, mount->destination);
        rule->access = pin_bundle_mount_is_writable(mount) ? PIN_ACCESS_WRITE : PIN_ACCESS_READ;
        rule->place = (struct pin_place)IN_BUNDLE;
    }
}

/* Each up to a byte of `end`: "KEY:file" asks for the secret "KEY". */
static struct pin_strings strings_of(struct pin_arena *arena, const char *const *list, size_t count,
                                     const char *end) {
    struct pin_strings strings = {pin_arena_array(arena, count, sizeof(*strings.items)), count};
    for (size_t i = 0; i < count; i++)
        strings.items[i] =
            (struct pin_string){pin_arena_strndup(arena, list[i], strcspn(list[i], end)), IN_BUNDLE};
    return strings;
}

static void state_filesystem(struct pin_policy *asked, const struct pin_bundle *bundle,
                             const struct pin_rootfs *host) {
    const struct pin_bundle_ext *ext = &bundle->ext;
    asked->filesystem.root = bundle->root.read_only ? PIN_ROOT_READ_ONLY : PIN_ROOT_OVERLAY;
    if (ext->root_overlay.enabled && ext->root_overlay.size_bytes != 0)
        asked->filesystem.root_size_bytes = ext->root_overlay.size_bytes;
    asked->filesystem.root_storage =
        ext->root_overlay.enabled ? ext->root_overlay.storage : PIN_ROOT_IN_MEMORY;
    asked->filesystem.workspace = ext->workspace.source != NULL ? ext->workspace.access : PIN_ACCESS_NONE;
    if (ext->workspace.size_bytes != 0)
        asked->filesystem.workspace_size_bytes = ext->workspace.size_bytes;
    state_mounts(asked, bundle, host);
    if (!ext->landlock.enabled)
        return;
    asked->filesystem.write = (struct pin_strings){0};
    for (size_t i = 0; i < ext->landlock.write_count; i++) {
        const char *path = ext->landlock.write[i];
        bool granted = strcmp(path, "/dev") == 0 || /* always: its nodes */
                       (ext->workspace.source != NULL && strcmp(path, ext->workspace.target) == 0);
        if (granted)
            continue;
        struct pin_string *item = pin_arena_grow(&asked->arena, &asked->filesystem.write.items,
                                                 &asked->filesystem.write.count, sizeof(*item));
        *item = (struct pin_string){pin_arena_strdup(&asked->arena, path), IN_BUNDLE};
    }
}

static void state_identity(struct pin_policy *asked, const struct pin_bundle *bundle) {
    asked->identity.user = bundle->process.uid;
    asked->identity.group = bundle->process.gid;
    if (bundle->ext.ids != 0)
        asked->identity.ids = bundle->ext.ids;
    asked->capabilities = 0;
    for (size_t i = 0; i < PIN_CAP_SET_COUNT; i++)
        asked->capabilities |= bundle->process.capabilities[i];
}

/* A rule whose budget nobody has declared keeps the bare name: no budget of the ceiling is it. */
static void give_budgets(struct pin_policy *asked) {
    (void)pin_egress_give_budgets(asked->network.egress, asked->network.egress_count, asked->network.budgets,
                                  asked->network.budget_count);
}

static void state_grants(struct pin_policy *asked, const struct pin_bundle *bundle) {
    const struct pin_bundle_ext *ext = &bundle->ext;
    pin_policy_state_egress(asked, ext->egress, ext->egress_count);
    if (ext->egress_budget_count > 0)
        pin_policy_state_budgets(asked, ext->egress_budgets, ext->egress_budget_count);
    give_budgets(asked);
    if (ext->has_egress_limits)
        asked->network.limits = ext->egress_limits;
    asked->network.publish = strings_of(&asked->arena, ext->publish, ext->publish_count, "");
    asked->secrets = strings_of(&asked->arena, ext->secrets, ext->secret_count, ":");
    asked->tty = bundle->process.terminal;
    asked->frames = ext->frames;
    asked->optional = ext->optional;
    if (ext->present && ext->record != NULL) {
        asked->audit.record = strings_of(&asked->arena, ext->record, ext->record_count, "");
        asked->audit.on_failure = ext->audit_failure;
    }
}

struct pin_policy *pin_bundle_as_policy(const struct pin_bundle *bundle, const struct pin_policy *ceiling,
                                        const struct pin_rootfs *host) {
    struct pin_policy *asked = pin_policy_copy(ceiling);
    pin_bundle_state_resources(asked, bundle);
    state_limits(asked, &bundle->ext);
    state_filesystem(asked, bundle, host);
    state_identity(asked, bundle);
    state_grants(asked, bundle);
    return asked;
}

void pin_bundle_state_places(struct pin_policy *asked, const struct pin_policy *ceiling) {
    PIN_ARENA struct pin_arena arena = {0};
    for (unsigned i = 0; i < PIN_FIELD_COUNT; i++)
        if (strcmp(pin_policy_value_text(&arena, asked, (enum pin_field)i),
                   pin_policy_value_text(&arena, ceiling, (enum pin_field)i)) != 0)
            asked->places[i] = (struct pin_place)IN_BUNDLE;
    for (unsigned i = 0; i < PIN_CAPABILITY_COUNT; i++)
        if ((asked->capabilities >> i & 1) != 0 && (ceiling->capabilities >> i & 1) == 0)
            asked->capability_places[i] = (struct pin_place)IN_BUNDLE;
}
