#include "runtime/bundle/resolve_mounts.h"

#include <inttypes.h>
#include <string.h>

#include "base/names.h"
#include "base/units.h"
#include "policy/checks.h"
#include "policy/covers.h"
#include "runtime/bundle/resolve.h"

static struct pin_bundle_mount *add_mount(struct pin_bundle *bundle, const char *destination,
                                          const char *type, const char *source) {
    struct pin_bundle_mount *mount =
        pin_arena_grow(&bundle->arena, &bundle->mounts, &bundle->mount_count, sizeof(*bundle->mounts));
    mount->destination = destination;
    mount->type = type;
    mount->source = source;
    return mount;
}

static void add_option(struct pin_bundle *bundle, const char ***list, size_t *count, const char *option) {
    *(const char **)pin_arena_grow(&bundle->arena, list, count, sizeof(**list)) = option;
}

/* `options` is "nosuid,noexec"; `size` 0 adds none. The size alone doesn't count empty files, whose inodes
 * are the kernel's memory. */
static void set_options(struct pin_bundle *bundle, struct pin_bundle_mount *mount, const char *options,
                        uint64_t size) {
    const char **list = NULL;
    size_t count = 0;
    while (*options != '\0') {
        size_t length = strcspn(options, ",");
        add_option(bundle, &list, &count, pin_arena_strndup(&bundle->arena, options, length));
        options += length + (options[length] == ',');
    }
    if (size != 0 && size != PIN_UNLIMITED) {
        add_option(bundle, &list, &count, pin_arena_printf(&bundle->arena, "size=%" PRIu64, size));
        add_option(bundle, &list, &count,
                   pin_arena_printf(&bundle->arena, "nr_inodes=%" PRIu64, pin_inodes_of(size)));
    }
    mount->options = list;
    mount->option_count = count;
}

static void add_bind(struct pin_bundle *bundle, const char *source, const char *destination, bool writable) {
    struct pin_bundle_mount *mount = add_mount(bundle, pin_arena_strdup(&bundle->arena, destination), "bind",
                                               pin_arena_strdup(&bundle->arena, source));
    set_options(bundle, mount, writable ? "rbind,rw,rnosuid,rnodev" : "rbind,rro,rnosuid,rnodev", 0);
}

static void add_root_binds(struct pin_bundle *bundle, const struct pin_rootfs *rootfs) {
    for (size_t i = 0; i < rootfs->bind_count; i++) {
        const struct pin_rootfs_bind *bind = &rootfs->binds[i];
        add_bind(bundle, bind->source, pin_arena_printf(&bundle->arena, "/%s", bind->target), false);
    }
}

static void add_kernel_file_systems(struct pin_bundle *bundle) {
    static const struct {
        const char *destination, *type, *source, *options;
    } rows[] = {
        {"/proc",    "proc",   "proc",   "nosuid,noexec,nodev"                              },
        {"/dev",     "tmpfs",  "tmpfs",  "nosuid,noexec,mode=755,size=64k"                  },
        {"/dev/pts", "devpts", "devpts", "nosuid,noexec,newinstance,ptmxmode=0666,mode=0620"},
    };
    for (size_t i = 0; i < PIN_COUNT(rows); i++)
        set_options(bundle, add_mount(bundle, rows[i].destination, rows[i].type, rows[i].source),
                    rows[i].options, 0);
}

static void add_tmpfs(struct pin_bundle *bundle, const char *destination, const char *options,
                      uint64_t size) {
    set_options(bundle, add_mount(bundle, pin_arena_strdup(&bundle->arena, destination), "tmpfs", "tmpfs"),
                options, size);
}

/* Whether the path is in what was mounted from the index `after` on, or in what the policy shows. The root's
 * own binds don't count: a path in them becomes writable by a tmpfs over it. */
static bool is_mounted(const struct pin_bundle *bundle, const struct pin_policy *policy, size_t after,
                       const char *path) {
    for (size_t i = after; i < bundle->mount_count; i++)
        if (pin_path_beneath(path, bundle->mounts[i].destination))
            return true;
    for (size_t i = 0; i < policy->filesystem.mount_count; i++)
        if (pin_path_beneath(path, policy->filesystem.mounts[i].target))
            return true;
    return false;
}

void pin_add_workspace_mount(struct pin_bundle *bundle) {
    if (bundle->ext.workspace.source == NULL || bundle->ext.workspace.access == PIN_ACCESS_COW)
        return;
    for (size_t i = 0; i < bundle->mount_count; i++)
        if (strcmp(bundle->mounts[i].destination, bundle->ext.workspace.target) == 0)
            return;
    add_bind(bundle, bundle->ext.workspace.source, bundle->ext.workspace.target,
             bundle->ext.workspace.access == PIN_ACCESS_WRITE);
}

static void add_memory(struct pin_bundle *bundle, const char *path, uint64_t size) {
    bool is_shm = strcmp(path, "/dev/shm") == 0;
    add_tmpfs(bundle, path, is_shm ? "nosuid,noexec,nodev,mode=1777" : "nosuid,nodev,mode=1777", size);
}

static void add_scratch(struct pin_bundle *bundle, const struct pin_policy *policy) {
    size_t kernel = bundle->mount_count; /* what comes before is the root's, and the kernel's */
    uint64_t size = policy->filesystem.tmp_bytes;
    bool overlay = policy->filesystem.root == PIN_ROOT_OVERLAY;
    for (size_t i = 0; i < policy->filesystem.write.count && size > 0; i++) {
        const char *path = policy->filesystem.write.items[i].text;
        bool usual = strcmp(path, "/dev/shm") == 0 || strcmp(path, "/tmp") == 0;
        if (overlay && strcmp(path, "/") == 0 && !is_mounted(bundle, policy, kernel, "/dev/shm"))
            add_memory(bundle, "/dev/shm", size); /* /dev is no part of the overlay */
        if (pin_path_beneath(path, PIN_WORKSPACE_TARGET) || strcmp(path, "/") == 0 ||
            is_mounted(bundle, policy, kernel, path) || (overlay && !usual))
            continue;
        add_memory(bundle, path, size);
    }
}

/* The site grants places, and the policy names them: a link on the way, planted by whoever may write there,
 * would lead from what is granted to what isn't. */
static bool is_bounded(const struct pin_policy *policy, const struct pin_mount_rule *rule) {
    const struct pin_policy *site = policy->site;
    pin_covers *covers = pin_covers_of(pin_field_row(PIN_FIELD_MOUNTS));
    for (size_t i = 0; site != NULL && i < site->filesystem.mount_count; i++) {
        const struct pin_mount_rule *granted = &site->filesystem.mounts[i];
        if (strcmp(granted->source, "/") == 0 && covers(granted, rule))
            return false;
    }
    return site != NULL;
}

void pin_resolve_mounts(struct pin_bundle *bundle, const struct pin_policy *policy,
                        const struct pin_rootfs *rootfs) {
    add_root_binds(bundle, rootfs);
    add_kernel_file_systems(bundle);
    add_scratch(bundle, policy);
    pin_add_workspace_mount(bundle);
    for (size_t i = 0; i < policy->filesystem.mount_count; i++) {
        const struct pin_mount_rule *rule = &policy->filesystem.mounts[i];
        add_bind(bundle, rule->source, rule->target, rule->access == PIN_ACCESS_WRITE);
        bundle->mounts[bundle->mount_count - 1].real_source = is_bounded(policy, rule);
    }
}
