#include "runtime/build/sources.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <linux/openat2.h>

#include "base/cleanup.h"
#include "runtime/build/disk.h"
#include "runtime/build/idmap.h"
#include "runtime/build/layers.h"

static bool has_source(const struct pin_op *op) {
    return op->source != NULL && !op->inside && (op->kind == PIN_OP_BIND || op->kind == PIN_OP_OVERLAY);
}

static int open_path(const struct pin_op *op) {
    struct open_how how = {.flags = O_PATH | O_CLOEXEC | (op->of_engine ? 0 : O_NOFOLLOW)};
    if (op->real_source)
        how.resolve = RESOLVE_NO_SYMLINKS;
    return (int)syscall(SYS_openat2, AT_FDCWD, op->source, &how, sizeof(how));
}

bool pin_source_open(const struct pin_op *op, struct pin_host_source *source, struct pin_error *err) {
    struct stat st;
    PIN_CLOSE int fd = open_path(op);
    if (fd < 0 && errno == ENOENT && op->optional) {
        source->missing = true;
        return true;
    }
    if (fd < 0 && errno == ELOOP && op->real_source) {
        (void)pin_fail(err, PIN_ERROR_REFUSED, "a symbolic link leads to '%s'", op->source);
        (void)pin_point(err, "%s", op->source);
        return pin_hint(err, "name the place itself, and in what grants it, too");
    }
    if (fd < 0 || fstat(fd, &st) != 0) {
        bool absent = fd < 0 && errno == ENOENT;
        (void)pin_fail_errno(err, "open '%s', which the sandbox is to show", op->source);
        (void)pin_point(err, "%s", op->source);
        return absent ? pin_hint(err, "make it, or name what is there") : false;
    }
    if (S_ISLNK(st.st_mode)) {
        (void)pin_fail(err, PIN_ERROR_REFUSED, "'%s' is a symbolic link", op->source);
        (void)pin_point(err, "%s", op->source);
        return pin_hint(err, "name the directory that it points to");
    }
    source->device = st.st_dev;
    source->inode = st.st_ino;
    source->uid = st.st_uid;
    source->gid = st.st_gid;
    source->mode = st.st_mode;
    source->directory = S_ISDIR(st.st_mode);
    source->path = pin_steal_fd(&fd);
    return true;
}

/* Climbs from our state to the root: none of the directories on the way may be writable inside. */
static bool holds_state(const struct pin_host_source *source, int state_dir) {
    PIN_CLOSE int at = state_dir < 0 ? -1 : openat(state_dir, ".", O_PATH | O_DIRECTORY | O_CLOEXEC);
    dev_t device = 0;
    ino_t inode = 0;
    struct stat st;
    while (at >= 0 && fstat(at, &st) == 0) {
        if (st.st_dev == source->device && st.st_ino == source->inode)
            return true;
        if (st.st_dev == device && st.st_ino == inode)
            return false; /* ".." of the root is the root */
        device = st.st_dev;
        inode = st.st_ino;
        int up = openat(at, "..", O_PATH | O_DIRECTORY | O_CLOEXEC);
        pin_close_fd(&at);
        at = up;
    }
    return false;
}

static int open_idmap(const struct pin_plan *plan, const struct pin_op *op,
                      const struct pin_host_source *source, uint32_t range, struct pin_error *err) {
    if (op->idmap == PIN_IDMAP_MAPS)
        return pin_idmap_namespace_of(op->mount->uid_maps, op->mount->uid_map_count, op->mount->gid_maps,
                                      op->mount->gid_map_count, err);
    struct pin_id_map uids = {0, range, 65536}, gids = {0, range, 65536};
    if (op->idmap == PIN_IDMAP_OWNER) {
        uids = (struct pin_id_map){source->uid, range + plan->bundle->process.uid, 1};
        gids = (struct pin_id_map){source->gid, range + plan->bundle->process.gid, 1};
    }
    return pin_idmap_namespace(&uids, &gids, err);
}

/* An engine's options: those that count for what is below as well, then those of the mount itself, whose last
 * word may differ ("rrw", then "ro"). */
static bool set_engine_attributes(const struct pin_op *op, int tree) {
    const uint64_t times = MOUNT_ATTR_NOATIME | MOUNT_ATTR_STRICTATIME;
    struct mount_attr own = {.attr_set = op->attributes, .attr_clr = op->cleared & ~times};
    struct mount_attr below = {.attr_set = op->below, .attr_clr = op->below_cleared & ~times};
    struct mount_attr spread = {.propagation = MS_PRIVATE};
    if (!op->of_engine)
        return true;
    if ((op->attributes | op->cleared) & times)
        own.attr_clr |= MOUNT_ATTR__ATIME;
    if ((op->below | op->below_cleared) & times)
        below.attr_clr |= MOUNT_ATTR__ATIME;
    if (op->propagation != 0)
        spread.propagation = op->propagation & ~(unsigned)MS_REC;
    return ((below.attr_set | below.attr_clr) == 0 ||
            mount_setattr(tree, "", AT_EMPTY_PATH | AT_RECURSIVE, &below, sizeof(below)) == 0) &&
           mount_setattr(tree, "", AT_EMPTY_PATH, &own, sizeof(own)) == 0 &&
           mount_setattr(tree, "", AT_EMPTY_PATH | AT_RECURSIVE, &spread, sizeof(spread)) == 0;
}

/* The root itself is closed later, when its mount points are made; one that is read-only already stays that.
 */
static bool close_below(const struct pin_op *op, int tree) {
    struct statvfs now;
    struct mount_attr all = {.attr_set = op->below}, own = {.attr_clr = op->below};
    if (op->of_engine || op->below == 0)
        return true;
    return fstatvfs(tree, &now) == 0 &&
           mount_setattr(tree, "", AT_EMPTY_PATH | AT_RECURSIVE, &all, sizeof(all)) == 0 &&
           ((now.f_flag & ST_RDONLY) != 0 || mount_setattr(tree, "", AT_EMPTY_PATH, &own, sizeof(own)) == 0);
}

int pin_source_clone(const struct pin_op *op, int path, bool recursive, int idmap, struct pin_error *err) {
    unsigned recurse = recursive ? AT_RECURSIVE : 0;
    PIN_CLOSE int tree = open_tree(path, "", AT_EMPTY_PATH | OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC | recurse);
    struct mount_attr attributes = {.attr_set = op->attributes, .propagation = MS_PRIVATE};
    if (op->of_engine)
        attributes = (struct mount_attr){0};
    else if (op->attributes & (MOUNT_ATTR_NOATIME | MOUNT_ATTR_STRICTATIME))
        attributes.attr_clr = MOUNT_ATTR__ATIME;
    if (idmap >= 0) {
        attributes.attr_set |= MOUNT_ATTR_IDMAP;
        attributes.userns_fd = (unsigned)idmap;
    }
    if (tree < 0 || mount_setattr(tree, "", AT_EMPTY_PATH | recurse, &attributes, sizeof(attributes)) != 0 ||
        !set_engine_attributes(op, tree) || !close_below(op, tree)) {
        int cause = errno;
        (void)pin_fail_errno(err, "bind '%s'", op->source);
        (void)pin_point(err, "%s", op->source);
        if (idmap >= 0 && cause == EINVAL)
            (void)pin_hint(
                err, "its file system can't be idmapped: move it to ext4, xfs, btrfs or tmpfs (Linux 6.3)");
        return -1;
    }
    return pin_steal_fd(&tree);
}

static bool open_source(const struct pin_plan *plan, const struct pin_op *op, uint32_t range, int state_dir,
                        struct pin_host_source *source, struct pin_error *err) {
    if (!has_source(op) && op != &plan->root_bind)
        return true;
    if (!pin_source_open(op, source, err))
        return false;
    if (source->missing)
        return true;
    bool writable = (op->attributes & MOUNT_ATTR_RDONLY) == 0 && source->directory;
    if (writable && holds_state(source, state_dir)) {
        (void)pin_fail(err, PIN_ERROR_REFUSED, "'%s' holds pinfold's own state", op->source);
        (void)pin_point(err, "%s", op->source);
        return pin_hint(err, "choose a directory below it");
    }
    if ((op->kind == PIN_OP_OVERLAY || op->directory) && !source->directory) {
        (void)pin_fail(err, PIN_ERROR_INVALID, "'%s' is not a directory", op->source);
        (void)pin_point(err, "%s", op->source);
        return pin_hint(err, "name a directory");
    }
    if (!plan->privileged || op->late)
        return true;
    PIN_CLOSE int idmap = -1;
    if (op->idmap != PIN_IDMAP_NONE && (idmap = open_idmap(plan, op, source, range, err)) < 0)
        return false;
    source->tree = pin_source_clone(op, source->path, op->recursive, idmap, err);
    return source->tree >= 0;
}

static bool open_root(const struct pin_plan *plan, uint32_t range, struct pin_host_source *root,
                      struct pin_error *err) {
    if (!open_source(plan, &plan->root_bind, range, -1, root, err))
        return false;
    if (S_ISDIR(root->mode))
        return true;
    (void)pin_fail(err, PIN_ERROR_INVALID, "the root '%s' is not a directory", plan->root_bind.source);
    return pin_point(err, "/root/path");
}

bool pin_sources_open(const struct pin_plan *plan, uint32_t range, int state_dir,
                      struct pin_host_sources *sources, struct pin_error *err) {
    sources->root = (struct pin_host_source){.path = -1, .tree = -1};
    sources->disk = -1;
    sources->ops = calloc(plan->op_count + plan->layer_count + 1, sizeof(*sources->ops));
    if (sources->ops == NULL)
        return pin_fail_errno(err, "open the sources");
    sources->layers = sources->ops + plan->op_count;
    for (size_t i = 0; i < plan->op_count + plan->layer_count; i++)
        sources->ops[i] = (struct pin_host_source){.path = -1, .tree = -1};
    bool ok = plan->root != PIN_ROOT_FROM_BIND || open_root(plan, range, &sources->root, err);
    ok = ok && (plan->layer_count == 0 || pin_layers_open(plan, range, sources->layers, err));
    for (size_t i = 0; ok && i < plan->op_count; i++)
        ok = open_source(plan, &plan->ops[i], range, state_dir, &sources->ops[i], err);
    if (ok && plan->upper_on_disk)
        ok = (sources->disk = pin_disk_make(plan->upper_bytes, range, err)) >= 0;
    if (!ok)
        pin_sources_close(plan, sources);
    return ok;
}

void pin_sources_close(const struct pin_plan *plan, struct pin_host_sources *sources) {
    for (size_t i = 0; sources->ops != NULL && i < plan->op_count + plan->layer_count; i++) {
        pin_close_fd(&sources->ops[i].path);
        pin_close_fd(&sources->ops[i].tree);
    }
    pin_close_fd(&sources->root.path);
    pin_close_fd(&sources->root.tree);
    pin_close_fd(&sources->disk);
    free(sources->ops);
    sources->ops = NULL;
}

int pin_source_tree(const struct pin_op *op, struct pin_host_source *source, struct pin_error *err) {
    if (source->tree >= 0)
        return pin_steal_fd(&source->tree);
    struct stat st;
    PIN_CLOSE int path = open_path(op);
    if (path < 0 || fstat(path, &st) != 0) {
        (void)pin_fail_errno(err, "open '%s' again", op->source);
        return -1;
    }
    if (st.st_dev != source->device || st.st_ino != source->inode) {
        (void)pin_fail(err, PIN_ERROR_REFUSED, "'%s' was exchanged while the sandbox was built", op->source);
        (void)pin_point(err, "%s", op->source);
        return -1;
    }
    /* In a user namespace what is mounted below is locked to its mount: without it, a bind is EINVAL. */
    return pin_source_clone(op, path, !op->late || op->recursive, -1, err);
}
