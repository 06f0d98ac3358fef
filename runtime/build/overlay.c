#include "runtime/build/overlay.h"

#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/units.h"
#include "runtime/build/mounts.h"

/* The scratch tmpfs holds upper, work and the point where the lower tree is attached while the overlay is
 * made. */
static bool make_scratch(const struct pin_op *op, const struct pin_host_source *source, uint32_t uid,
                         uint32_t gid, int target, int *scratch, struct pin_error *err) {
    char size[32], inodes[32];
    (void)snprintf(size, sizeof(size), "%" PRIu64, op->size);
    (void)snprintf(inodes, sizeof(inodes), "%" PRIu64, pin_inodes_of(op->size));
    const char *options[] = {"size", size, "nr_inodes", inodes, "mode", "0700"};
    PIN_CLOSE int fs = pin_mounts_new("tmpfs", options, 3, MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV, err);
    if (fs < 0 || !pin_mounts_attach(fs, target, err))
        return false;
    if (mkdirat(fs, "upper", 0700) != 0 || mkdirat(fs, "work", 0700) != 0 ||
        mkdirat(fs, "lower", 0700) != 0 || fchownat(fs, "upper", uid, gid, AT_SYMLINK_NOFOLLOW) != 0 ||
        fchmodat(fs, "upper", source->mode & 0777, 0) != 0)
        return pin_fail_errno(err, "make the directories of the changes");
    *scratch = pin_steal_fd(&fs);
    return true;
}

bool pin_overlay_mount(const struct pin_op *op, struct pin_host_source *source, uint32_t uid, uint32_t gid,
                       int target, int *changes, struct pin_error *err) {
    PIN_CLOSE int scratch = -1;
    if (!make_scratch(op, source, uid, gid, target, &scratch, err))
        return false;
    PIN_CLOSE int tree = pin_source_tree(op, source, err);
    PIN_CLOSE int lower = openat(scratch, "lower", O_PATH | O_DIRECTORY | O_CLOEXEC);
    PIN_CLOSE int upper = openat(scratch, "upper", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (tree < 0)
        return false;
    if (lower < 0 || upper < 0)
        return pin_fail_errno(err, "open the directories of the changes");
    if (!pin_mounts_attach(tree, lower, err))
        return false;
    /* overlayfs takes paths: names of ours, relative to a directory that nobody else can reach */
    const char *options[] = {"lowerdir", "lower", "upperdir", "upper", "workdir", "work", "userxattr", NULL};
    if (fchdir(scratch) != 0)
        return pin_fail_errno(err, "enter the directory of the changes");
    PIN_CLOSE int overlay = pin_mounts_new("overlay", options, 4, op->attributes, err);
    if (overlay < 0)
        return pin_hint(err, "a copy-on-write workspace needs overlayfs in user namespaces (Linux 5.11)");
    /* The overlay holds its layers itself; nobody else is to reach them. */
    if (umount2(".", MNT_DETACH) != 0 || chdir("/") != 0)
        return pin_fail_errno(err, "leave the directory of the changes");
    if (!pin_mounts_attach(overlay, target, err))
        return false;
    *changes = pin_steal_fd(&upper);
    return true;
}
