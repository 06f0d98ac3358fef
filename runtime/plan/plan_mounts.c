#include "runtime/plan/plan_mounts.h"

#include <stdio.h>
#include <string.h>

#include <linux/mount.h>

#include "base/names.h"
#include "images/rootfs.h"
#include "runtime/plan/mount_options.h"

static struct pin_op *add(struct pin_plan *plan, enum pin_op_kind kind, const char *target) {
    struct pin_op *op = pin_arena_grow(&plan->arena, &plan->ops, &plan->op_count, sizeof(*op));
    op->kind = kind;
    op->target = target;
    return op;
}

static const char *without_slash(const char *path) {
    return path + strspn(path, "/");
}

/* "/a/b" is below "/a" and "/a" itself; "/ab" is not. */
static bool is_below(const char *path, const char *folder) {
    size_t length = strlen(folder);
    return strncmp(path, folder, length) == 0 && (path[length] == '/' || path[length] == '\0');
}

static void add_skeleton(struct pin_plan *plan, const struct pin_rootfs *rootfs) {
    static const enum pin_op_kind kinds[] = {
        [PIN_ENTRY_DIRECTORY] = PIN_OP_DIRECTORY,
        [PIN_ENTRY_SYMLINK] = PIN_OP_SYMLINK,
        [PIN_ENTRY_FILE] = PIN_OP_FILE,
    };
    for (size_t i = 0; i < rootfs->entry_count; i++) {
        const struct pin_rootfs_entry *entry = &rootfs->entries[i];
        struct pin_op *op = add(plan, kinds[entry->kind], entry->path);
        op->content = entry->content;
        op->size = entry->size;
        op->mode = entry->mode;
    }
}

/* The devices that every container has (OCI runtime-spec 1.2 config-linux.md "Default Devices"), as binds of
 * the host's nodes: a user namespace can't make nodes of its own. */
static void add_devices(struct pin_plan *plan, const char *dev) {
    static const char *const nodes[] = {"null", "zero", "full", "random", "urandom", "tty"};
    static const char *const links[][2] = {
        {"fd",     "/proc/self/fd"  },
        {"stdin",  "/proc/self/fd/0"},
        {"stdout", "/proc/self/fd/1"},
        {"stderr", "/proc/self/fd/2"},
        {"ptmx",   "pts/ptmx"       },
    };
    for (size_t i = 0; i < PIN_COUNT(nodes); i++) {
        struct pin_op *op = add(plan, PIN_OP_BIND, pin_arena_printf(&plan->arena, "%s/%s", dev, nodes[i]));
        op->source = pin_arena_printf(&plan->arena, "/dev/%s", nodes[i]);
        op->attributes = MOUNT_ATTR_NOSUID | MOUNT_ATTR_NOEXEC;
        op->make_target = op->no_symlinks = true;
    }
    for (size_t i = 0; i < PIN_COUNT(links); i++) {
        struct pin_op *op =
            add(plan, PIN_OP_SYMLINK, pin_arena_printf(&plan->arena, "%s/%s", dev, links[i][0]));
        op->content = links[i][1];
    }
}

static bool is_workspace(const struct pin_bundle *bundle, const struct pin_bundle_mount *mount) {
    return bundle->ext.present && bundle->ext.workspace.source != NULL && mount->source != NULL &&
           strcmp(mount->destination, bundle->ext.workspace.target) == 0 &&
           strcmp(mount->source, bundle->ext.workspace.source) == 0;
}

static void add_bind(struct pin_plan *plan, const struct pin_bundle_mount *mount, const char *pointer,
                     const struct pin_mount_options *options, struct pin_findings *found) {
    if (mount->source == NULL || mount->source[0] != '/') {
        (void)pin_find(found, PIN_ERROR_INVALID, pointer, "write the whole path",
                       "a bind's source isn't absolute");
        return;
    }
    if (options->data_count > 0)
        (void)pin_find(found, PIN_ERROR_UNSUPPORTED, pointer, "leave the option out",
                       "a bind can't have the option '%s'", options->data[0]);
    struct pin_op *op = add(plan, PIN_OP_BIND, without_slash(mount->destination));
    op->source = mount->source;
    op->recursive = options->recursive;
    op->attributes = options->attributes;
    op->make_target = true;
    if (plan->privileged && is_workspace(plan->bundle, mount))
        op->idmap = PIN_IDMAP_OWNER;
}

static const char *const filesystems[] = {"proc", "tmpfs", "devpts", "mqueue", "sysfs", "cgroup", "cgroup2"};

static void add_filesystem(struct pin_plan *plan, const struct pin_bundle_mount *mount, const char *pointer,
                           const struct pin_mount_options *options, struct pin_findings *found) {
    if (pin_name_find(filesystems, PIN_COUNT(filesystems), mount->type) < 0) {
        (void)pin_find(found, PIN_ERROR_UNSUPPORTED, pointer,
                       "a sandbox may mount proc, tmpfs, devpts, mqueue, sysfs, cgroup2",
                       "the file system '%.40s' can't be mounted in a sandbox", mount->type);
        return;
    }
    struct pin_op *op = add(plan, PIN_OP_FILESYSTEM, without_slash(mount->destination));
    bool on_v2 = strcmp(mount->type, "cgroup") == 0;
    op->type = on_v2 ? "cgroup2" : mount->type;
    op->attributes = options->attributes;
    op->options = options->data;
    op->option_count = options->data_count;
    op->make_target = true;
    op->no_symlinks = strcmp(mount->type, "tmpfs") != 0;
    if (strcmp(mount->destination, "/dev") == 0)
        add_devices(plan, "dev");
}

static void add_mount(struct pin_plan *plan, size_t index, struct pin_findings *found) {
    const struct pin_bundle_mount *mount = &plan->bundle->mounts[index];
    char pointer[32];
    (void)snprintf(pointer, sizeof(pointer), "/mounts/%zu", index);
    if (mount->destination == NULL || mount->destination[0] != '/' ||
        without_slash(mount->destination)[0] == '\0') {
        (void)pin_find(found, PIN_ERROR_INVALID, pointer, "write a path below /",
                       "a mount needs an absolute destination");
        return;
    }
    struct pin_mount_options options = {0};
    pin_mount_options_sort(mount->options, mount->option_count, pointer, &plan->arena, &options, found);
    bool bind = options.bind || mount->type == NULL || strcmp(mount->type, "bind") == 0;
    if (bind)
        add_bind(plan, mount, pointer, &options, found);
    else
        add_filesystem(plan, mount, pointer, &options, found);
}

static void add_workspace_overlay(struct pin_plan *plan) {
    const struct pin_bundle_ext *ext = &plan->bundle->ext;
    if (!ext->present || ext->workspace.source == NULL || ext->workspace.access != PIN_ACCESS_COW)
        return;
    struct pin_op *op = add(plan, PIN_OP_OVERLAY, without_slash(ext->workspace.target));
    op->source = ext->workspace.source;
    op->size = ext->workspace.size_bytes;
    op->attributes = MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV;
    op->idmap = plan->privileged ? PIN_IDMAP_OWNER : PIN_IDMAP_NONE;
    op->make_target = true;
}

static void add_masks(struct pin_plan *plan) {
    const struct pin_bundle *bundle = plan->bundle;
    for (size_t i = 0; bundle->ext.present && i < plan->op_count; i++)
        if (plan->ops[i].kind == PIN_OP_FILESYSTEM && strcmp(plan->ops[i].target, "dev") == 0) {
            (void)add(plan, PIN_OP_SEAL, "dev");
            break;
        }
    for (size_t i = 0; i < bundle->masked_path_count; i++)
        (void)add(plan, PIN_OP_MASK, without_slash(bundle->masked_paths[i]));
    for (size_t i = 0; i < bundle->readonly_path_count; i++)
        (void)add(plan, PIN_OP_READ_ONLY, without_slash(bundle->readonly_paths[i]));
}

/* The mount points of a sandbox are never pinfold's own state: what is written there would steer the next
 * run. */
static void refuse_own_state(const struct pin_plan *plan, struct pin_findings *found) {
    static const char *const own[] = {"/run/pinfold", "/var/lib/pinfold", "/var/cache/pinfold",
                                      "/etc/pinfold"};
    for (size_t i = 0; i < plan->op_count; i++) {
        const struct pin_op *op = &plan->ops[i];
        if (op->source == NULL || op->inside)
            continue;
        bool writable = op->kind == PIN_OP_BIND && (op->attributes & MOUNT_ATTR_RDONLY) == 0;
        for (size_t j = 0; j < PIN_COUNT(own); j++)
            if ((writable && is_below(own[j], strcmp(op->source, "/") == 0 ? "" : op->source)) ||
                is_below(op->source, own[j]))
                (void)pin_find(found, PIN_ERROR_REFUSED, op->source,
                               "choose a directory that holds none of pinfold's own",
                               "'%.80s' would show pinfold's own state ('%s') inside", op->source, own[j]);
    }
}

void pin_plan_mounts(struct pin_plan *plan, struct pin_findings *found) {
    const struct pin_bundle *bundle = plan->bundle;
    if (bundle->rootfs != NULL && bundle->rootfs->kind == PIN_ROOTFS_SKELETON)
        add_skeleton(plan, bundle->rootfs);
    for (size_t i = 0; i < bundle->mount_count; i++)
        add_mount(plan, i, found);
    add_workspace_overlay(plan);
    add_masks(plan);
    refuse_own_state(plan, found);
}
