#include "runtime/build/disk.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <spawn.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/wait.h>
#include <unistd.h>

#include <linux/loop.h>
#include <linux/magic.h>

#include "base/cleanup.h"
#include "base/units.h"
#include "runtime/build/mounts.h"
#include "runtime/private/private_dir.h"

#define BLOCK 4096
#define LOOP_TRIES 64 /* who asks for a free loop device may find it taken by another */
#define MAKER "/usr/sbin/mke2fs"
#define CONTROL "/dev/loop-control"

static const struct pin_private_place place = {"PINFOLD_SCRATCH", "/var/lib/pinfold/scratch", "XDG_DATA_HOME",
                                               ".local/share", "pinfold/scratch"};

/* --- the file --- */

static bool has_room(int folder, const char *path, uint64_t bytes, struct pin_error *err) {
    struct statfs facts;
    char asked[PIN_UNITS_TEXT];
    if (fstatfs(folder, &facts) != 0)
        return pin_fail_errno(err, "look at the file system of '%s'", path);
    if (facts.f_type == TMPFS_MAGIC || facts.f_type == RAMFS_MAGIC) {
        (void)pin_fail(err, PIN_ERROR_UNSUPPORTED, "'%s' is in memory, not on a disk", path);
        return pin_hint(err, "name a directory on a disk in PINFOLD_SCRATCH");
    }
    if ((uint64_t)facts.f_bavail >= bytes / (uint64_t)facts.f_bsize)
        return true;
    (void)pin_fail(err, PIN_ERROR_UNSUPPORTED, "'%s' has no room for the %s of a root on disk", path,
                   pin_print_size(asked, bytes));
    return pin_hint(err, "free some, name another directory in PINFOLD_SCRATCH, or lower root_size");
}

/* Sparse: it takes up what is written to it. */
static int make_file(uint64_t bytes, struct pin_error *err) {
    char path[PATH_MAX];
    PIN_CLOSE int folder = pin_private_choose(&place, path, err) ? pin_private_dir(path, true, err) : -1;
    if (folder < 0)
        return -1;
    if (!has_room(folder, path, bytes, err)) {
        (void)pin_point(err, "%s", path);
        return -1;
    }
    PIN_CLOSE int file = openat(folder, ".", O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
    if (file < 0 || ftruncate(file, (off_t)bytes) != 0) {
        (void)pin_fail_errno(err, "make a file without a name in '%s'", path);
        (void)pin_point(err, "%s", path);
        (void)pin_hint(err, "name a directory on ext4, xfs or btrfs in PINFOLD_SCRATCH");
        return -1;
    }
    return pin_steal_fd(&file);
}

/* --- the file system --- */

/* By name: what the host's mke2fs.conf calls usual may be more than its kernel knows. */
static const char features[] = "none,filetype,sparse_super,large_file,dir_index,ext_attr,extent,flex_bg,"
                               "uninit_bg,dir_nlink,extra_isize";

static int set_descriptors(posix_spawn_file_actions_t *actions, int file) {
    int failed = posix_spawn_file_actions_adddup2(actions, file, 3);
    for (int fd = 0; failed == 0 && fd < 3; fd++)
        failed = posix_spawn_file_actions_addopen(actions, fd, "/dev/null", O_RDWR, 0);
    return failed;
}

static pid_t spawn_maker(int file, struct pin_error *err) {
    static const char *const argv[] = {"mke2fs", "-qF",    "-b4096",          "-I256",
                                       "-i8192", "-m0",    "-eremount-ro",    "-Elazy_itable_init=1",
                                       "-O",     features, "/proc/self/fd/3", NULL};
    static const char *const environment[] = {"MKE2FS_CONFIG=/dev/null", "LC_ALL=C", NULL};
    pid_t maker = -1;
    posix_spawn_file_actions_t actions;
    int failed = posix_spawn_file_actions_init(&actions);
    if (failed == 0) {
        failed = set_descriptors(&actions, file);
        if (failed == 0)
            failed = posix_spawn(&maker, MAKER, &actions, NULL, (char *const *)(uintptr_t)argv,
                                 (char *const *)(uintptr_t)environment);
        (void)posix_spawn_file_actions_destroy(&actions);
    }
    errno = failed;
    if (failed == 0)
        return maker;
    (void)pin_fail_errno(err, "run '%s'", MAKER);
    (void)pin_hint(err, "install the package e2fsprogs");
    return -1;
}

static bool format(int file, struct pin_error *err) {
    int status = -1;
    pid_t maker = spawn_maker(file, err);
    if (maker < 0)
        return false;
    while (waitpid(maker, &status, 0) < 0 && errno == EINTR)
        ;
    return status == 0 ||
           pin_fail(err, PIN_ERROR_SYSTEM, "'%s' can't make the file system of a root on disk", MAKER);
}

/* --- the loop device --- */

static bool is_taken(int error) {
    return error == EBUSY || error == EAGAIN;
}

static int no_loop(const char *what, struct pin_error *err) {
    int cause = errno;
    (void)pin_fail_errno(err, "%s", what);
    if (cause == ENOENT || cause == ENXIO || cause == ENODEV || cause == EPERM || cause == EACCES)
        (void)pin_hint(
            err, "a root on disk needs loop devices: modprobe loop, and /dev/loop-control where we run");
    return -1;
}

/* Through no cache of the host's where its file system can do without: what a sandbox writes is then held in
 * memory once, and counted as its own. */
static int attach_loop(int file, char path[32], struct pin_error *err) {
    PIN_CLOSE int control = open(CONTROL, O_RDWR | O_CLOEXEC);
    if (control < 0)
        return no_loop("open '" CONTROL "'", err);
    const struct loop_config config = {
        .fd = (__u32)file,
        .block_size = BLOCK,
        .info = {.lo_flags = LO_FLAGS_AUTOCLEAR | LO_FLAGS_DIRECT_IO, .lo_file_name = "pinfold"},
    };
    for (int i = 0; i < LOOP_TRIES; i++) {
        int number = ioctl(control, LOOP_CTL_GET_FREE);
        if (number < 0)
            return no_loop("find a free loop device", err);
        (void)snprintf(path, 32, "/dev/loop%d", number);
        PIN_CLOSE int loop = open(path, O_RDWR | O_CLOEXEC);
        if (loop >= 0 && ioctl(loop, LOOP_CONFIGURE, &config) == 0)
            return pin_steal_fd(&loop);
        if (!is_taken(errno))
            return no_loop(loop < 0 ? "open a loop device" : "set up a loop device", err);
    }
    (void)pin_fail(err, PIN_ERROR_SYSTEM, "every loop device that was free was taken by another at once");
    return -1;
}

static bool make_directory(int fs, const char *name, mode_t mode, uint32_t owner, struct pin_error *err) {
    return (mkdirat(fs, name, 0700) == 0 && fchownat(fs, name, owner, owner, AT_SYMLINK_NOFOLLOW) == 0 &&
            fchmodat(fs, name, mode, 0) == 0) ||
           pin_fail_errno(err, "make the directory '%s' of a root on disk", name);
}

int pin_disk_make(uint64_t bytes, uint32_t owner, struct pin_error *err) {
    char device[32];
    const char *options[] = {"source", device};
    PIN_CLOSE int file = make_file(bytes / BLOCK * BLOCK, err);
    PIN_CLOSE int loop = file >= 0 && format(file, err) ? attach_loop(file, device, err) : -1;
    if (loop < 0)
        return -1;
    PIN_CLOSE int fs = pin_mounts_new("ext4", options, 1, MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV, err);
    /* the root's own mode and owner are those of the upper, whatever the image says */
    if (fs < 0 || !make_directory(fs, "upper", 0755, owner, err) ||
        !make_directory(fs, "work", 0700, owner, err))
        return -1;
    return pin_steal_fd(&fs);
}

const char *pin_disk_lacks(void) {
    if (geteuid() != 0)
        return "they are root's alone";
    if (faccessat(AT_FDCWD, CONTROL, R_OK | W_OK, 0) != 0)
        return "loop devices: modprobe loop, and " CONTROL " where we run";
    return faccessat(AT_FDCWD, MAKER, X_OK, 0) != 0 ? "install the package e2fsprogs" : NULL;
}
