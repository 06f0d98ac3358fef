#include "runtime/plan/plan_mounts.h"

#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>

#include <linux/mount.h>

#include "base/names.h"
#include "images/rootfs.h"
#include "runtime/plan/mount_options.h"
#include "runtime/plan/plan_parts.h"

#define USUAL_OPS 128 /* a power of two that the host image stays below */

struct pin_op *pin_plan_add_op(struct pin_plan *plan, enum pin_op_kind kind, const char *target) {
    struct pin_op *op =
        pin_arena_grow_from(&plan->arena, &plan->ops, &plan->op_count, sizeof(*op), USUAL_OPS);
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
        struct pin_op *op = pin_plan_add_op(plan, kinds[entry->kind], entry->path);
        op->content = entry->content;
        op->size = entry->size;
        op->mode = entry->mode;
    }
}

/* An engine's container has nodes of its own: it may be allowed to remove them. */
static struct pin_op *add_node(struct pin_plan *plan, const char *path, int64_t major, int64_t minor) {
    struct pin_op *op = pin_plan_add_op(plan, PIN_OP_DEVICE, without_slash(path));
    op->device =
        (struct pin_bundle_device){.type = 'c', .path = path, .major = major, .minor = minor, .mode = 0666};
    op->make_target = true;
    return op;
}

static void add_links(struct pin_plan *plan, const char *dev) {
    static const char *const links[][2] = {
        {"fd",     "/proc/self/fd"  },
        {"stdin",  "/proc/self/fd/0"},
        {"stdout", "/proc/self/fd/1"},
        {"stderr", "/proc/self/fd/2"},
        {"ptmx",   "pts/ptmx"       },
    };
    for (size_t i = 0; i < PIN_COUNT(links); i++) {
        struct pin_op *op =
            pin_plan_add_op(plan, PIN_OP_SYMLINK, pin_arena_printf(&plan->arena, "%s/%s", dev, links[i][0]));
        op->content = links[i][1];
    }
}

static bool is_listed(const struct pin_bundle *bundle, const char *path) {
    for (size_t i = 0; i < bundle->device_count; i++)
        if (strcmp(bundle->devices[i].path, path) == 0)
            return true;
    return false;
}

/* A /dev that is bound from the host is left as it is. */
static bool has_own_dev(const struct pin_bundle *bundle) {
    for (size_t i = 0; i < bundle->mount_count; i++) {
        const struct pin_bundle_mount *mount = &bundle->mounts[i];
        bool bind = mount->type == NULL || strcmp(mount->type, "bind") == 0;
        for (size_t j = 0; j < mount->option_count && !bind; j++)
            bind = strcmp(mount->options[j], "bind") == 0 || strcmp(mount->options[j], "rbind") == 0;
        if (bind && strcmp(mount->destination, "/dev") == 0)
            return false;
    }
    return true;
}

static void add_engine_devices(struct pin_plan *plan) {
    static const struct {
        const char *path;
        int minor, major;
    } nodes[] = {
        {"/dev/null",    3, 1},
        {"/dev/zero",    5, 1},
        {"/dev/full",    7, 1},
        {"/dev/random",  8, 1},
        {"/dev/urandom", 9, 1},
        {"/dev/tty",     0, 5}
    };
    const struct pin_bundle *bundle = plan->bundle;
    if (!has_own_dev(bundle))
        return;
    for (size_t i = 0; i < PIN_COUNT(nodes); i++)
        if (!is_listed(bundle, nodes[i].path))
            (void)add_node(plan, nodes[i].path, nodes[i].major, nodes[i].minor);
    for (size_t i = 0; i < bundle->device_count; i++) {
        const struct pin_bundle_device *device = &bundle->devices[i];
        struct pin_op *op = add_node(plan, device->path, device->major, device->minor);
        op->device = *device;
        if (!device->has_mode)
            op->device.mode = 0666;
    }
    add_links(plan, "dev");
}

/* The devices that every container has (OCI runtime-spec 1.2 config-linux.md "Default Devices"), as binds of
 * the host's nodes: a user namespace can't make nodes of its own. */
static void add_devices(struct pin_plan *plan, const char *dev) {
    static const char *const nodes[] = {"null", "zero", "full", "random", "urandom", "tty"};
    for (size_t i = 0; i < PIN_COUNT(nodes); i++) {
        struct pin_op *op =
            pin_plan_add_op(plan, PIN_OP_BIND, pin_arena_printf(&plan->arena, "%s/%s", dev, nodes[i]));
        op->source = pin_arena_printf(&plan->arena, "/dev/%s", nodes[i]);
        op->attributes = MOUNT_ATTR_NOSUID | MOUNT_ATTR_NOEXEC;
        op->make_target = op->no_symlinks = true;
    }
    add_links(plan, dev);
}

static bool is_workspace(const struct pin_bundle *bundle, const struct pin_bundle_mount *mount) {
    return bundle->ext.present && bundle->ext.workspace.source != NULL && mount->source != NULL &&
           strcmp(mount->destination, bundle->ext.workspace.target) == 0 &&
           strcmp(mount->source, bundle->ext.workspace.source) == 0;
}

/* Options that are written for the mount count for it alone, those with an "r" for what is below it, too. */
static void finish_engine_bind(const struct pin_plan *plan, const struct pin_bundle_mount *mount,
                               const char *pointer, const struct pin_mount_options *options,
                               struct pin_op *op, struct pin_findings *found) {
    op->of_engine = true;
    op->cleared = options->cleared;
    op->below = options->below;
    op->below_cleared = options->below_cleared;
    op->propagation = options->propagation != 0 ? options->propagation : plan->engine.root_propagation;
    op->in_turn = (plan->clone_flags & CLONE_NEWUSER) == 0 && !plan->engine.root_apart &&
                  plan->engine.join[PIN_NS_USER] == NULL;
    op->late = op->in_turn && (op->propagation & (MS_SHARED | MS_SLAVE | MS_UNBINDABLE)) == 0 &&
               !options->idmap && mount->uid_map_count + mount->gid_map_count == 0;
    bool mapped = mount->uid_map_count > 0 && mount->gid_map_count > 0;
    if (mapped) {
        op->idmap = PIN_IDMAP_MAPS;
        op->mount = mount;
    } else if (options->idmap || mount->uid_map_count + mount->gid_map_count > 0) {
        (void)pin_find(found, PIN_ERROR_INVALID, pointer, "give it uidMappings and gidMappings",
                       "an idmapped mount without maps");
    }
}

static void add_bind(struct pin_plan *plan, const struct pin_bundle_mount *mount, const char *pointer,
                     const struct pin_mount_options *options, struct pin_findings *found) {
    if (mount->source == NULL || mount->source[0] == '\0' ||
        (mount->source[0] != '/' && !plan->engine.direct)) {
        (void)pin_find(found, PIN_ERROR_INVALID, pointer, "write the whole path",
                       "a bind's source isn't absolute");
        return;
    }
    if (options->data_count > 0 && plan->engine.direct) /* the kernel passes them over for binds */
        pin_plan_unheeded(
            plan, pointer,
            pin_arena_printf(&plan->arena, "a bind can't have the option '%s'", options->data[0]));
    else if (options->data_count > 0)
        (void)pin_find(found, PIN_ERROR_UNSUPPORTED, pointer, "leave the option out",
                       "a bind can't have the option '%s'", options->data[0]);
    struct pin_op *op = pin_plan_add_op(plan, PIN_OP_BIND, without_slash(mount->destination));
    op->source = mount->source[0] == '/'
                     ? mount->source
                     : pin_arena_printf(&plan->arena, "%s/%s", plan->bundle->directory, mount->source);
    op->recursive = options->recursive;
    op->attributes = options->attributes;
    op->make_target = true;
    op->real_source = mount->real_source;
    if (plan->engine.direct)
        finish_engine_bind(plan, mount, pointer, options, op, found);
    else
        op->directory = is_workspace(plan->bundle, mount);
    if (op->directory && plan->privileged)
        op->idmap = PIN_IDMAP_OWNER;
}

static const char *const filesystems[] = {"proc", "tmpfs", "devpts", "mqueue", "sysfs", "cgroup", "cgroup2"};

/* Those that take a label of SELinux for all their files. */
static const char *const labelled[] = {"tmpfs", "devpts", "mqueue"};

/* Which file systems there are is the kernel's affair, and what is mounted where the policy's. */
static void add_engine_filesystem(struct pin_plan *plan, const struct pin_bundle_mount *mount,
                                  const struct pin_mount_options *options) {
    bool cgroups = strcmp(mount->type, "cgroup") == 0;
    struct pin_op *op = pin_plan_add_op(plan, cgroups ? PIN_OP_CGROUPS : PIN_OP_FILESYSTEM,
                                        without_slash(mount->destination));
    plan->engine.cgroup_mounts |= cgroups;
    op->type = mount->type;
    op->source = NULL;
    op->attributes = options->attributes;
    op->propagation = options->propagation;
    op->copy_up = options->copy_up;
    op->make_target = true;
    op->no_symlinks = strcmp(mount->type, "proc") == 0 || strcmp(mount->type, "sysfs") == 0;
    op->option_count = options->data_count + 1;
    op->options = pin_arena_array(&plan->arena, (op->option_count + 1) * 2, sizeof(*op->options));
    op->options[0] = "source";
    op->options[1] = mount->source != NULL ? mount->source : mount->type;
    if (options->data_count > 0)
        memcpy(op->options + 2, options->data, options->data_count * 2 * sizeof(*op->options));
    if (plan->engine.mount_label != NULL && pin_name_find(labelled, PIN_COUNT(labelled), mount->type) >= 0) {
        op->options[2 * op->option_count] = "context";
        op->options[2 * op->option_count++ + 1] = plan->engine.mount_label;
    }
}

/* There are 4,096 terminals on a host (kernel.pty.max), and one sandbox could take all that aren't the host's
 * own. The last word counts: Documentation/filesystems/devpts.rst. */
static void limit_terminals(struct pin_plan *plan, struct pin_op *op) {
    const char **options = pin_arena_array(&plan->arena, (op->option_count + 1) * 2, sizeof(*options));
    if (op->option_count > 0)
        memcpy(options, op->options, op->option_count * 2 * sizeof(*options));
    options[2 * op->option_count] = "max";
    options[2 * op->option_count + 1] = "64";
    op->options = options;
    op->option_count++;
}

static void add_filesystem(struct pin_plan *plan, const struct pin_bundle_mount *mount, const char *pointer,
                           const struct pin_mount_options *options, struct pin_findings *found) {
    if (pin_name_find(filesystems, PIN_COUNT(filesystems), mount->type) < 0) {
        (void)pin_find(found, PIN_ERROR_UNSUPPORTED, pointer,
                       "a sandbox may mount proc, tmpfs, devpts, mqueue, sysfs, cgroup2",
                       "the file system '%.40s' can't be mounted in a sandbox", mount->type);
        return;
    }
    struct pin_op *op = pin_plan_add_op(plan, PIN_OP_FILESYSTEM, without_slash(mount->destination));
    bool on_v2 = strcmp(mount->type, "cgroup") == 0;
    op->type = on_v2 ? "cgroup2" : mount->type;
    op->attributes = options->attributes;
    op->options = options->data;
    op->option_count = options->data_count;
    op->make_target = true;
    op->no_symlinks = strcmp(mount->type, "tmpfs") != 0;
    if (strcmp(mount->type, "devpts") == 0)
        limit_terminals(plan, op);
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
    if (options.special != NULL && !plan->engine.direct)
        (void)pin_find(found, PIN_ERROR_UNSUPPORTED, pointer, "leave the option out",
                       "a mount can't have the option '%s' here", options.special);
    bool bind = options.bind || mount->type == NULL || strcmp(mount->type, "bind") == 0;
    if (!bind && plan->engine.direct)
        add_engine_filesystem(plan, mount, &options);
    else if (bind)
        add_bind(plan, mount, pointer, &options, found);
    else
        add_filesystem(plan, mount, pointer, &options, found);
}

static void add_workspace_overlay(struct pin_plan *plan) {
    const struct pin_bundle_ext *ext = &plan->bundle->ext;
    if (!ext->present || ext->workspace.source == NULL || ext->workspace.access != PIN_ACCESS_COW)
        return;
    struct pin_op *op = pin_plan_add_op(plan, PIN_OP_OVERLAY, without_slash(ext->workspace.target));
    op->source = ext->workspace.source;
    op->size = ext->workspace.size_bytes;
    op->attributes = MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV;
    op->idmap = plan->privileged ? PIN_IDMAP_OWNER : PIN_IDMAP_NONE;
    op->make_target = true;
}

static bool is_masked(const struct pin_bundle *bundle, const char *path) {
    for (size_t i = 0; i < bundle->masked_path_count; i++)
        if (bundle->masked_paths[i][0] == '/' && is_below(path, bundle->masked_paths[i]))
            return true;
    return false;
}

/* Masks last: one may lie in what is made read-only. */
static void add_masks(struct pin_plan *plan) {
    const struct pin_bundle *bundle = plan->bundle;
    for (size_t i = 0; bundle->ext.present && i < plan->op_count; i++)
        if (plan->ops[i].kind == PIN_OP_FILESYSTEM && strcmp(plan->ops[i].target, "dev") == 0) {
            (void)pin_plan_add_op(plan, PIN_OP_SEAL, "dev");
            break;
        }
    for (size_t i = 0; i < bundle->readonly_path_count; i++)
        if (!is_masked(bundle, bundle->readonly_paths[i]))
            (void)pin_plan_add_op(plan, PIN_OP_READ_ONLY, without_slash(bundle->readonly_paths[i]));
    for (size_t i = 0; i < bundle->masked_path_count; i++)
        (void)pin_plan_add_op(plan, PIN_OP_MASK, without_slash(bundle->masked_paths[i]));
}

/* A layer of installed requirements is there to be shown; also writable while it is being made. */
static bool is_layer(const char *source, bool writable) {
    static const char folder[] = "/var/lib/pinfold/deps/", made[] = "tmp/";
    if (strncmp(source, folder, sizeof(folder) - 1) != 0)
        return false;
    const char *key = source + sizeof(folder) - 1;
    bool being_made = strncmp(key, made, sizeof(made) - 1) == 0;
    key += being_made ? sizeof(made) - 1 : 0;
    size_t digits = strspn(key, "0123456789abcdef");
    return digits > 0 && strcmp(key + digits, "/layer") == 0 && (being_made || !writable);
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
        if (is_layer(op->source, writable))
            continue;
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
    if (bundle->rootfs != NULL && bundle->rootfs->kind == PIN_ROOTFS_LAYERS)
        pin_plan_missing_entries(plan);
    for (size_t i = 0; i < bundle->mount_count; i++)
        add_mount(plan, i, found);
    if (plan->engine.direct)
        add_engine_devices(plan);
    add_workspace_overlay(plan);
    pin_plan_secrets(plan, found);
    add_masks(plan);
    if (!plan->engine.direct)
        refuse_own_state(plan, found);
}
