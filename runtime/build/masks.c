#include "runtime/build/masks.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/io.h"

static int *kept_mount(struct pin_mounts *mounts, const char *target) {
    return strcmp(target, "proc") == 0 ? &mounts->proc : strcmp(target, "sys") == 0 ? &mounts->sys : NULL;
}

void pin_masks_forget_mount(struct pin_mounts *mounts, const char *target) {
    int *kept = kept_mount(mounts, target);
    if (kept != NULL)
        pin_close_fd(kept);
}

bool pin_masks_keep_mount(struct pin_mounts *mounts, const char *target, int fs, struct pin_error *err) {
    int *kept = kept_mount(mounts, target);
    pin_masks_forget_mount(mounts, target);
    return kept == NULL || (*kept = fcntl(fs, F_DUPFD_CLOEXEC, 3)) >= 0 ||
           pin_fail_errno(err, "keep a mount");
}

/* What masks a file is opened by us and checked: a root file system may bring a /dev/null of its own. */
bool pin_masks_open(struct pin_mounts *mounts, struct pin_error *err) {
    struct stat st;
    mounts->null = open("/dev/null", O_PATH | O_NOFOLLOW | O_CLOEXEC);
    if (mounts->null < 0 || fstat(mounts->null, &st) != 0)
        return pin_fail_errno(err, "open '/dev/null'");
    if (!S_ISCHR(st.st_mode) || st.st_rdev != makedev(1, 3))
        return pin_fail(err, PIN_ERROR_REFUSED, "the host's /dev/null is not the null device");
    return true;
}

#define MASK_ATTRIBUTES (MOUNT_ATTR_RDONLY | MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV | MOUNT_ATTR_NOEXEC)

/* "." and ".." are all that the first call tells of an empty folder, and the second one tells nothing. */
static bool is_empty(int folder) {
    char entries[512];
    PIN_CLOSE int fd = openat(folder, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    const long dots = 2 * 24; /* struct linux_dirent64 with a name of up to four bytes */
    return fd >= 0 && syscall(SYS_getdents64, fd, entries, sizeof(entries)) == dots &&
           syscall(SYS_getdents64, fd, entries, sizeof(entries)) == 0;
}

void pin_masks_keep_empty(struct pin_mounts *mounts, int folder) {
    if (mounts->empty < 0 && is_empty(folder))
        mounts->empty = fcntl(folder, F_DUPFD_CLOEXEC, 3);
}

/* -1 where there is none, or it can't be copied: in a tree that is in no mount namespace, before Linux 6.15.
 */
static int copy_empty(const struct pin_mounts *mounts) {
    struct mount_attr attributes = {.attr_set = MASK_ATTRIBUTES};
    PIN_CLOSE int tree =
        mounts->empty < 0 ? -1
                          : open_tree(mounts->empty, "", AT_EMPTY_PATH | OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC);
    if (tree < 0 || mount_setattr(tree, "", AT_EMPTY_PATH, &attributes, sizeof(attributes)) != 0)
        return -1;
    return pin_steal_fd(&tree);
}

static int take_blank(struct pin_mounts *mounts, struct pin_error *err) {
    int tree = pin_steal_fd(&mounts->blank);
    if (tree < 0)
        tree = open_tree(mounts->null, "", AT_EMPTY_PATH | OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC);
    if (tree < 0)
        (void)pin_fail_errno(err, "copy the mount of '/dev/null'");
    return tree;
}

static int make_mask(struct pin_mounts *mounts, mode_t mode, struct pin_error *err) {
    static const char *const options[] = {"size", "4k", "mode", "0555", "nr_inodes", "1"};
    if (S_ISDIR(mode)) {
        int copy = copy_empty(mounts);
        return copy >= 0 ? copy : pin_mounts_new("tmpfs", options, 3, MASK_ATTRIBUTES, err);
    }
    return take_blank(mounts, err);
}

/* Below the file system that we mounted, where it is of ours: whoever writes to the root may have put another
 * folder in the place of /proc since, and the masks would be on that one. */
static int start_at(const struct pin_mounts *mounts, const char *target, const char **rest) {
    int from = strncmp(target, "proc/", 5) == 0  ? mounts->proc
               : strncmp(target, "sys/", 4) == 0 ? mounts->sys
                                                 : -1;
    *rest = from >= 0 ? strchr(target, '/') + 1 : target;
    return from >= 0 ? from : mounts->root;
}

/* True with *target -1: there is nothing here to hide. */
static bool find_hidden(const struct pin_op *op, const struct pin_mounts *mounts, int *target,
                        struct pin_error *err) {
    struct pin_error missing = {0};
    const char *path;
    int from = start_at(mounts, op->target, &path);
    *target = pin_open_beneath(from, path, O_PATH | O_NOFOLLOW, 0, &missing);
    if (*target >= 0 || missing.os_errno == ENOENT || missing.os_errno == ENOTDIR)
        return true;
    *err = missing;
    return pin_wrap(err, "hide '/%s'", op->target);
}

static bool attach_by_name(int tree, int folder, const char *name) {
    return tree >= 0 && move_mount(tree, "", folder, name, MOVE_MOUNT_F_EMPTY_PATH) == 0;
}

/* Most of what is hidden lies at the top of our own proc, where no name leads elsewhere: the mask goes there
 * by the name, without a look at what it is. False: not done, for whatever reason. */
static bool hide_by_name(const struct pin_op *op, struct pin_mounts *mounts) {
    struct pin_error err = {0};
    const char *name;
    int from = start_at(mounts, op->target, &name);
    if (from != mounts->proc || strchr(name, '/') != NULL)
        return false;
    PIN_CLOSE int file = take_blank(mounts, &err);
    if (attach_by_name(file, from, name))
        return true;
    bool missing = file >= 0 && errno == ENOENT;
    mounts->blank = pin_steal_fd(&file); /* it is as good for the next one */
    if (missing)
        return true;
    PIN_CLOSE int folder = copy_empty(mounts); /* a file covers no folder */
    return attach_by_name(folder, from, name);
}

bool pin_masks_hide(const struct pin_op *op, struct pin_mounts *mounts, struct pin_error *err) {
    PIN_CLOSE int target = -1;
    struct stat st;
    if (hide_by_name(op, mounts))
        return true;
    if (!find_hidden(op, mounts, &target, err))
        return false;
    if (target < 0)
        return true;
    if (fstat(target, &st) != 0)
        return pin_fail_errno(err, "look at '/%s'", op->target);
    PIN_CLOSE int tree = make_mask(mounts, st.st_mode, err);
    if (tree < 0 || !pin_mounts_attach(tree, target, err))
        return false;
    if (S_ISDIR(st.st_mode)) /* attached it can be copied */
        pin_masks_keep_empty(mounts, tree);
    return true;
}

bool pin_masks_make_read_only(const struct pin_op *op, const struct pin_mounts *mounts,
                              struct pin_error *err) {
    PIN_CLOSE int target = -1;
    if (!find_hidden(op, mounts, &target, err))
        return false;
    if (target < 0)
        return true;
    PIN_CLOSE int tree =
        open_tree(target, "", AT_EMPTY_PATH | AT_RECURSIVE | OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC);
    struct mount_attr attributes = {.attr_set = MOUNT_ATTR_RDONLY | MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV |
                                                MOUNT_ATTR_NOEXEC};
    if (tree < 0 ||
        mount_setattr(tree, "", AT_EMPTY_PATH | AT_RECURSIVE, &attributes, sizeof(attributes)) != 0)
        return pin_fail_errno(err, "make '/%s' read-only", op->target);
    return pin_mounts_attach(tree, target, err);
}
