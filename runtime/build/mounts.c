#include "runtime/build/mounts.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <linux/magic.h>
#include <sys/vfs.h>

#include "base/cleanup.h"
#include "base/io.h"
#include "base/names.h"
#include "runtime/build/engine.h"
#include "runtime/build/layers.h"
#include "runtime/build/masks.h"
#include "runtime/build/overlay.h"

int pin_mounts_new(const char *type, const char *const *options, size_t option_count, uint64_t attributes,
                   struct pin_error *err) {
    PIN_CLOSE int fs = fsopen(type, FSOPEN_CLOEXEC);
    if (fs < 0) {
        (void)pin_fail_errno(err, "open the file system '%s'", type);
        return -1;
    }
    for (size_t i = 0; i < option_count; i++) {
        const char *key = options[2 * i], *value = options[2 * i + 1];
        if (fsconfig(fs, value != NULL ? FSCONFIG_SET_STRING : FSCONFIG_SET_FLAG, key, value, 0) != 0) {
            (void)pin_fail_errno(err, "set '%s%s%s' of the file system '%s'", key, value != NULL ? "=" : "",
                                 value != NULL ? value : "", type);
            return -1;
        }
    }
    int mount = -1;
    if (fsconfig(fs, FSCONFIG_CMD_CREATE, NULL, NULL, 0) != 0 ||
        (mount = fsmount(fs, FSMOUNT_CLOEXEC, (unsigned)attributes)) < 0)
        (void)pin_fail_errno(err, "make a file system '%s'", type);
    return mount;
}

bool pin_mounts_attach(int tree, int target, struct pin_error *err) {
    if (move_mount(tree, "", target, "", MOVE_MOUNT_F_EMPTY_PATH | MOVE_MOUNT_T_EMPTY_PATH) != 0)
        return pin_fail_errno(err, "attach a mount");
    return true;
}

/* Opens the parent of `path` and makes what is missing on the way, all below the root. */
static int open_parent(int root, const char *path, const char **name, struct pin_error *err) {
    char folder[PATH_MAX];
    const char *slash = strrchr(path, '/');
    *name = slash != NULL ? slash + 1 : path;
    if (slash == NULL)
        return openat(root, ".", O_PATH | O_DIRECTORY | O_CLOEXEC);
    size_t length = (size_t)(slash - path);
    if (length >= sizeof(folder)) {
        (void)pin_fail(err, PIN_ERROR_INVALID, "a path is too long");
        return -1;
    }
    memcpy(folder, path, length);
    for (size_t end = 1; end <= length; end++) {
        if (end < length && path[end] != '/')
            continue;
        folder[end] = '\0';
        struct pin_error missing = {0};
        int at = pin_open_in_root(root, folder, O_PATH | O_DIRECTORY, 0, &missing);
        if (at < 0 && missing.os_errno == ENOENT) {
            const char *step;
            PIN_CLOSE int above = open_parent(root, folder, &step, err);
            if (above < 0 || (mkdirat(above, step, 0755) != 0 && errno != EEXIST)) {
                if (above >= 0)
                    (void)pin_fail_errno(err, "make the directory '%s'", folder);
                return -1;
            }
            at = pin_open_in_root(root, folder, O_PATH | O_DIRECTORY, 0, err);
            if (at < 0)
                return -1;
        } else if (at < 0) {
            *err = missing;
            return -1;
        }
        if (end == length)
            return at;
        (void)close(at);
        folder[end] = path[end];
    }
    return -1;
}

static void forget_folder(struct pin_mounts *mounts) {
    pin_close_fd(&mounts->folder.fd);
}

/* The folder of `path`: the root, or one that `mounts` keeps. Plain: without a symbolic link on the way, and
 * -1 without an error where there is no such folder; otherwise what is missing is made. */
static int parent_of(struct pin_mounts *mounts, const char *path, bool plain, const char **name,
                     struct pin_error *err) {
    struct pin_folder *folder = &mounts->folder;
    const char *slash = strrchr(path, '/');
    char text[PATH_MAX];
    *name = slash != NULL ? slash + 1 : path;
    if (slash == NULL)
        return mounts->root;
    size_t length = (size_t)(slash - path);
    if (folder->fd >= 0 && (folder->plain || !plain) && folder->length == length &&
        memcmp(folder->path, path, length) == 0)
        return folder->fd;
    forget_folder(mounts);
    *folder = (struct pin_folder){-1, path, length, plain};
    if (!plain)
        return folder->fd = open_parent(mounts->root, path, name, err);
    struct pin_error missing = {0};
    if (length < sizeof(text)) {
        memcpy(text, path, length);
        text[length] = '\0';
        folder->fd = pin_open_beneath(mounts->root, text, O_PATH | O_DIRECTORY | O_NOFOLLOW, 0, &missing);
    }
    return folder->fd;
}

static int open_target(int root, const struct pin_op *op, struct pin_error *err) {
    return op->no_symlinks ? pin_open_beneath(root, op->target, O_PATH | O_NOFOLLOW, 0, err)
                           : pin_open_in_root(root, op->target, O_PATH, 0, err);
}

/* The new file, or directory, itself. */
static int make_target(int parent, const char *name, bool directory) {
    if (!directory)
        return openat(parent, name, O_CREAT | O_EXCL | O_WRONLY | O_NOFOLLOW | O_CLOEXEC, 0644);
    return mkdirat(parent, name, 0755) == 0
               ? openat(parent, name, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC)
               : -1;
}

/* A mount point that is made at once, in a folder to which no link leads: what is mounted on it doesn't cover
 * the folder, which is kept for the next one. -1: it is there already, or can't be made so. */
static int make_at_once(struct pin_mounts *mounts, const struct pin_op *op, bool directory) {
    struct pin_error none = {0};
    const char *name;
    if (!op->make_target || !op->no_symlinks)
        return -1;
    int parent = parent_of(mounts, op->target, true, &name, &none);
    return parent >= 0 ? make_target(parent, name, directory) : -1;
}

/* The mount point, made if the plan lets it be missing. */
static int reach_target(struct pin_mounts *mounts, const struct pin_op *op, bool directory,
                        struct pin_error *err) {
    struct pin_error missing = {0};
    int target = make_at_once(mounts, op, directory);
    if (target >= 0)
        return target;
    target = open_target(mounts->root, op, &missing);
    if (target >= 0 || missing.os_errno != ENOENT || !op->make_target) {
        forget_folder(mounts); /* it may be about to be covered */
        if (target < 0)
            *err = missing;
        return target;
    }
    const char *name;
    int parent = parent_of(mounts, op->target, false, &name, err), made = -1;
    if (parent >= 0 && (made = make_target(parent, name, directory)) < 0)
        (void)pin_fail_errno(err, "make the mount point '/%s'", op->target);
    forget_folder(mounts);
    if (made < 0)
        return -1;
    (void)close(made); /* it may have been reached by a link */
    return open_target(mounts->root, op, err);
}

/* In the tree of an image: a link on the way leads to where it does inside, and what is there stays. */
static bool make_missing(const struct pin_op *op, struct pin_mounts *mounts, struct pin_error *err) {
    const char *name;
    int parent = parent_of(mounts, op->target, false, &name, err);
    PIN_CLOSE int file = -1;
    if (parent < 0)
        return false;
    if (op->kind == PIN_OP_DIRECTORY)
        return mkdirat(parent, name, op->mode) == 0 || errno == EEXIST ||
               pin_fail_errno(err, "make the directory '/%s'", op->target);
    file = openat(parent, name, O_CREAT | O_EXCL | O_WRONLY | O_NOFOLLOW | O_CLOEXEC, op->mode);
    if (file < 0)
        return errno == EEXIST || pin_fail_errno(err, "make the file '/%s'", op->target);
    return pin_write_all(file, op->content, op->size, err);
}

static bool make_directory(const struct pin_op *op, struct pin_mounts *mounts, struct pin_error *err) {
    if (mkdirat(mounts->root, op->target, op->mode) != 0 && errno != EEXIST)
        return pin_fail_errno(err, "make the directory '/%s'", op->target);
    return true;
}

static bool make_file(const struct pin_op *op, struct pin_mounts *mounts, struct pin_error *err) {
    PIN_CLOSE int fd =
        openat(mounts->root, op->target, O_CREAT | O_EXCL | O_WRONLY | O_NOFOLLOW | O_CLOEXEC, op->mode);
    if (fd < 0)
        return pin_fail_errno(err, "make the file '/%s'", op->target);
    return pin_write_all(fd, op->content, op->size, err) || pin_wrap(err, "'/%s'", op->target);
}

/* Whoever runs the command may read it, and nobody else. */
static bool make_secret(const struct pin_plan *plan, const struct pin_op *op, int root,
                        struct pin_error *err) {
    PIN_CLOSE int fd = pin_open_beneath(root, op->target, O_CREAT | O_EXCL | O_WRONLY, op->mode, err);
    if (fd < 0)
        return false;
    if (op->content == NULL)
        return pin_fail(err, PIN_ERROR_INTERNAL, "nobody has brought the secret");
    if (!pin_write_all(fd, op->content, op->size, err))
        return false;
    if (fchown(fd, plan->bundle->process.uid, plan->bundle->process.gid) != 0 || fchmod(fd, op->mode) != 0)
        return pin_fail_errno(err, "give the file to the command's user");
    return true;
}

/* Where the root itself says that the parent is: a /dev of an image's may be a link to a place of the host's.
 */
static bool make_link(const struct pin_op *op, struct pin_mounts *mounts, struct pin_error *err) {
    const char *name;
    int parent = parent_of(mounts, op->target, false, &name, err);
    if (parent < 0)
        return false;
    if (symlinkat(op->content, parent, name) != 0 && errno != EEXIST)
        return pin_fail_errno(err, "make the link '/%s'", op->target);
    return true;
}

/* A bind that mounts of the host reach was made before the rest, where they are. Programs take the order of
 * /proc/self/mountinfo, which is that of making, for the order of the mounts: so it is made once more, by a
 * copy of what hangs there. */
static bool attach_anew(int tree, int target, struct pin_error *err) {
    const struct mount_attr bindable = {.propagation = MS_PRIVATE},
                            unbindable = {.propagation = MS_UNBINDABLE};
    const unsigned all = AT_EMPTY_PATH | AT_RECURSIVE;
    int copy = open_tree(tree, "", OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC | all);
    bool is_unbindable = copy < 0 && errno == EINVAL;
    if (is_unbindable &&
        mount_setattr(tree, "", all, (struct mount_attr *)(uintptr_t)&bindable, sizeof(bindable)) == 0)
        copy = open_tree(tree, "", OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC | all);
    PIN_CLOSE int again = copy;
    char path[32];
    (void)snprintf(path, sizeof(path), "/proc/self/fd/%d", tree);
    if (again < 0 || umount2(path, MNT_DETACH) != 0 ||
        (is_unbindable &&
         mount_setattr(again, "", all, (struct mount_attr *)(uintptr_t)&unbindable, sizeof(unbindable)) != 0))
        return pin_fail_errno(err, "make a mount in its turn");
    return pin_mounts_attach(again, target, err);
}

static bool bind_source(const struct pin_op *op, struct pin_host_source *source, struct pin_mounts *mounts,
                        struct pin_error *err) {
    if (source->missing)
        return true;
    PIN_CLOSE int target = reach_target(mounts, op, source->directory, err);
    if (target < 0)
        return false;
    PIN_CLOSE int tree = pin_source_tree(op, source, err);
    if (tree < 0)
        return false;
    if (!pin_mounts_attach(tree, target, err))
        return false;
    pin_masks_forget_mount(mounts, op->target);
    return !op->in_turn || op->late || attach_anew(tree, target, err);
}

/* No user namespace can be made in a namespace whose limit is 0: user_namespaces(7), "/proc/sys/user". The
 * handle is of a proc that we mounted a moment ago and that nobody else has seen. */
static bool forbid_user_namespaces(int proc, struct pin_error *err) {
    struct statfs fs;
    if (fstatfs(proc, &fs) != 0 || fs.f_type != PROC_SUPER_MAGIC)
        return pin_fail(err, PIN_ERROR_INTERNAL, "what was mounted as proc is none");
    return pin_write_value_at(proc, "sys/user/max_user_namespaces", "0", err);
}

/* A quarter of what a user has on a host that nobody has tuned: the rest is left for the user, who is root
 * where root made the sandbox, and for its other sandboxes. A kernel without inotify has no such limits. */
static bool bound_watches(int proc, struct pin_error *err) {
    static const struct {
        const char *path, *most;
    } bounds[] = {
        {"sys/user/max_inotify_instances", "32"   },
        {"sys/user/max_inotify_watches",   "16384"},
    };
    for (size_t i = 0; i < PIN_COUNT(bounds); i++)
        if (faccessat(proc, bounds[i].path, F_OK, 0) == 0 &&
            !pin_write_value_at(proc, bounds[i].path, bounds[i].most, err))
            return false;
    return true;
}

static bool bound_namespace(const struct pin_plan *plan, int proc, struct pin_error *err) {
    return (!plan->forbid_user_namespaces || forbid_user_namespaces(proc, err)) &&
           (!plan->bound_watches || bound_watches(proc, err));
}

static bool copy_up(int target, int fs, struct pin_error *err) {
    PIN_CLOSE int from = openat(target, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    PIN_CLOSE int to = openat(fs, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (from < 0 || to < 0)
        return pin_fail_errno(err, "open what is to be copied up");
    return pin_engine_copy_up(from, to, err);
}

static bool set_propagation(const struct pin_op *op, int tree, struct pin_error *err) {
    struct mount_attr spread = {.propagation = op->propagation & ~(unsigned)MS_REC};
    return spread.propagation == 0 || spread.propagation == MS_PRIVATE ||
           mount_setattr(tree, "", AT_EMPTY_PATH, &spread, sizeof(spread)) == 0 ||
           pin_fail_errno(err, "set the propagation of a mount");
}

static bool mount_filesystem(const struct pin_plan *plan, const struct pin_op *op, struct pin_mounts *mounts,
                             struct pin_error *err) {
    PIN_CLOSE int fs = pin_mounts_new(op->type, op->options, op->option_count, op->attributes, err);
    if (fs < 0 && strcmp(op->type, "proc") == 0)
        return pin_hint(err, "inside a container whose /proc is masked, a new proc can't be mounted");
    if (fs < 0)
        return false;
    if (strcmp(op->type, "proc") == 0 && strcmp(op->target, "proc") == 0 && !bound_namespace(plan, fs, err))
        return false;
    PIN_CLOSE int target = reach_target(mounts, op, true, err);
    if (target < 0 || (op->copy_up && !copy_up(target, fs, err)) || !pin_mounts_attach(fs, target, err))
        return false;
    if (plan->root == PIN_ROOT_FROM_TMPFS && strcmp(op->target, "proc") == 0)
        pin_masks_keep_empty(mounts, target);
    return set_propagation(op, fs, err) && pin_masks_keep_mount(mounts, op->target, fs, err);
}

static bool make_device(const struct pin_op *op, struct pin_mounts *mounts, struct pin_error *err) {
    const char *name;
    int parent = parent_of(mounts, op->target, false, &name, err);
    PIN_CLOSE int tree = -1;
    if (parent < 0 || !pin_engine_make_device(op, parent, name, &tree, err))
        return false;
    if (tree < 0)
        return true;
    PIN_CLOSE int target = reach_target(mounts, op, false, err);
    return target >= 0 && pin_mounts_attach(tree, target, err);
}

/* Version 1: a directory for each hierarchy, as the host has them; a mounted "cpu,cpuacct" is found by each
 * of its names, too. */
static bool show_group(const struct pin_op *op, struct pin_engine_groups *groups, int index, int at,
                       struct pin_error *err) {
    const char *name = groups->names[index];
    struct mount_attr attributes = {.attr_set = op->attributes & ~(uint64_t)MOUNT_ATTR__ATIME};
    PIN_CLOSE int target = -1;
    if (mkdirat(at, name, 0555) != 0 || (target = openat(at, name, O_PATH | O_DIRECTORY | O_CLOEXEC)) < 0)
        return pin_fail_errno(err, "make the directory of the cgroup '%s'", name);
    if (mount_setattr(groups->trees[index], "", AT_EMPTY_PATH, &attributes, sizeof(attributes)) != 0)
        return pin_fail_errno(err, "show the cgroup '%s'", name);
    for (const char *part = name; strchr(name, ',') != NULL && part != NULL; part = strchr(part, ',')) {
        char alias[64];
        part += *part == ',';
        (void)snprintf(alias, sizeof(alias), "%.*s", (int)strcspn(part, ","), part);
        pin_ignore(symlinkat(name, at, alias));
    }
    return pin_mounts_attach(groups->trees[index], target, err);
}

static bool show_groups(const struct pin_op *op, struct pin_mounts *mounts, struct pin_error *err) {
    struct pin_engine_groups *groups = mounts->groups;
    static const char *const options[] = {"source", "cgroup", "mode", "0755"};
    struct mount_attr attributes = {.attr_set = op->attributes & ~(uint64_t)MOUNT_ATTR__ATIME};
    PIN_CLOSE int target = reach_target(mounts, op, true, err);
    if (target < 0 || groups->tree_count == 0)
        return target >= 0;
    if (groups->v2_alone) {
        if (mount_setattr(groups->trees[0], "", AT_EMPTY_PATH, &attributes, sizeof(attributes)) != 0)
            return pin_fail_errno(err, "show the cgroup");
        return pin_mounts_attach(groups->trees[0], target, err);
    }
    PIN_CLOSE int fs = pin_mounts_new("tmpfs", options, 2, 0, err);
    if (fs < 0 || !pin_mounts_attach(fs, target, err))
        return false;
    for (int i = 0; i < groups->tree_count; i++)
        if (!show_group(op, groups, i, fs, err))
            return false;
    if (groups->tracking) /* it is there already where the container has a group in it */
        pin_ignore(mkdirat(fs, "systemd", 0555));
    return mount_setattr(fs, "", AT_EMPTY_PATH, &attributes, sizeof(attributes)) == 0 ||
           pin_fail_errno(err, "protect the list of cgroups");
}

static bool seal_mount(const struct pin_op *op, int root, struct pin_error *err) {
    PIN_CLOSE int target = open_target(root, op, err);
    struct mount_attr attributes = {.attr_set = MOUNT_ATTR_RDONLY};
    if (target < 0)
        return false;
    if (mount_setattr(target, "", AT_EMPTY_PATH, &attributes, sizeof(attributes)) != 0)
        return pin_fail_errno(err, "seal '/%s'", op->target);
    return true;
}

static bool apply_op(const struct pin_plan *plan, size_t index, struct pin_host_sources *sources,
                     struct pin_mounts *mounts, struct pin_error *err) {
    const struct pin_op *op = &plan->ops[index];
    switch (op->kind) {
    case PIN_OP_DIRECTORY: return (op->make_target ? make_missing : make_directory)(op, mounts, err);
    case PIN_OP_FILE:
        if (op->secret != NULL)
            return make_secret(plan, op, mounts->root, err);
        return (op->make_target ? make_missing : make_file)(op, mounts, err);
    case PIN_OP_SYMLINK: return make_link(op, mounts, err);
    case PIN_OP_BIND: return bind_source(op, &sources->ops[index], mounts, err);
    case PIN_OP_FILESYSTEM: return mount_filesystem(plan, op, mounts, err);
    case PIN_OP_MASK: forget_folder(mounts); return pin_masks_hide(op, mounts, err);
    case PIN_OP_READ_ONLY: forget_folder(mounts); return pin_masks_make_read_only(op, mounts, err);
    case PIN_OP_SEAL: return seal_mount(op, mounts->root, err);
    case PIN_OP_DEVICE: return make_device(op, mounts, err);
    case PIN_OP_CGROUPS: return show_groups(op, mounts, err);
    case PIN_OP_OVERLAY: {
        PIN_CLOSE int target = reach_target(mounts, op, true, err);
        return target >= 0 && pin_overlay_mount(op, &sources->ops[index], plan->bundle->process.uid,
                                                plan->bundle->process.gid, target, &mounts->changes, err);
    }
    case PIN_OP_COUNT: break;
    }
    return pin_fail(err, PIN_ERROR_INTERNAL, "an operation that nobody knows");
}

static bool make_root(const struct pin_plan *plan, struct pin_host_sources *sources,
                      struct pin_mounts *mounts, struct pin_error *err) {
    if (plan->engine.root_apart)
        return (mounts->root = pin_source_tree(&plan->root_bind, &sources->root, err)) >= 0;
    if (mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) != 0)
        return pin_fail_errno(err, "make the mounts private");
    PIN_CLOSE int over = open("/", O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (plan->root == PIN_ROOT_FROM_BIND) {
        mounts->root = pin_source_tree(&plan->root_bind, &sources->root, err);
    } else if (plan->root == PIN_ROOT_FROM_LAYERS) {
        mounts->root = pin_layers_mount(plan, sources, over, &mounts->upper, err);
    } else {
        char size[32];
        (void)snprintf(size, sizeof(size), "%" PRIu64, plan->root_tmpfs_bytes);
        const char *options[] = {"size", size, "mode", "0755"};
        mounts->root = pin_mounts_new("tmpfs", options, 2, MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV, err);
    }
    if (mounts->root < 0)
        return false;
    return pin_mounts_attach(mounts->root, over, err);
}

bool pin_mounts_make(const struct pin_plan *plan, struct pin_host_sources *sources, struct pin_mounts *mounts,
                     struct pin_error *err) {
    if (!pin_masks_open(mounts, err) || !make_root(plan, sources, mounts, err))
        return false;
    for (size_t i = 0; i < plan->op_count; i++)
        if (!apply_op(plan, i, sources, mounts, err))
            return plan->ops[i].target[0] != '\0' ? pin_wrap(err, "'/%s'", plan->ops[i].target) : false;
    forget_folder(mounts);
    return true;
}

bool pin_mounts_enter(const struct pin_plan *plan, const struct pin_mounts *mounts, struct pin_error *err) {
    struct mount_attr read_only = {.attr_set = MOUNT_ATTR_RDONLY};
    if (plan->root_read_only &&
        mount_setattr(mounts->root, "", AT_EMPTY_PATH, &read_only, sizeof(read_only)) != 0)
        return pin_fail_errno(err, "make the root read-only");
    /* pivot_root(2) "pivot_root(".", ".")": the old root ends up over the new one, and is taken off */
    if (fchdir(mounts->root) != 0)
        return pin_fail_errno(err, "enter the root");
    if (plan->engine.root_apart) /* a tree of its own, which hangs nowhere: ".." of its top is itself */
        return (chroot(".") == 0 && chdir("/") == 0) || pin_fail_errno(err, "change the root");
    if (plan->engine.no_pivot) /* on a root that is a ramfs: it lies below ours, and nothing leads there */
        return (chroot(".") == 0 && chdir("/") == 0) || pin_fail_errno(err, "change the root");
    if (syscall(SYS_pivot_root, ".", ".") != 0)
        return pin_fail_errno(err, "change the root");
    if (umount2(".", MNT_DETACH) != 0 || chdir("/") != 0)
        return pin_fail_errno(err, "take off the old root");
    unsigned spread = plan->engine.root_propagation & ~(unsigned)MS_REC;
    if (spread != 0 && spread != MS_SLAVE && mount(NULL, "/", NULL, spread, NULL) != 0)
        return pin_fail_errno(err, "set the propagation of the root");
    return true;
}
