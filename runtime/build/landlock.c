#include "runtime/build/landlock.h"

#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <linux/magic.h>

#include "base/cleanup.h"

/* linux/landlock.h of Linux 6.12: the distribution's header may be older than the kernel. */
#define FS_EXECUTE (UINT64_C(1) << 0)
#define FS_WRITE_FILE (UINT64_C(1) << 1)
#define FS_READ_FILE (UINT64_C(1) << 2)
#define FS_READ_DIR (UINT64_C(1) << 3)
#define FS_ALL_ABI1 ((UINT64_C(1) << 13) - 1)
#define FS_REFER (UINT64_C(1) << 13)                  /* ABI 2 */
#define FS_TRUNCATE (UINT64_C(1) << 14)               /* ABI 3 */
#define FS_IOCTL_DEV (UINT64_C(1) << 15)              /* ABI 5 */
#define SCOPE_ABSTRACT_UNIX_SOCKET (UINT64_C(1) << 0) /* ABI 6 */
#define SCOPE_SIGNAL (UINT64_C(1) << 1)
#define RULE_PATH_BENEATH 1

struct ruleset_attr {
    uint64_t handled_access_fs, handled_access_net, scoped;
};

struct path_beneath_attr {
    uint64_t allowed_access;
    int32_t parent_fd;
} __attribute__((packed));

static uint64_t all_rights(int abi) {
    uint64_t rights = FS_ALL_ABI1;
    if (abi >= 2)
        rights |= FS_REFER;
    if (abi >= 3)
        rights |= FS_TRUNCATE;
    if (abi >= 5)
        rights |= FS_IOCTL_DEV;
    return rights;
}

static const uint64_t rights_of_files =
    FS_EXECUTE | FS_WRITE_FILE | FS_READ_FILE | FS_TRUNCATE | FS_IOCTL_DEV;

/* A link of an image's, for a /tmp, that leads to all there is or to the kernel's own: nothing is granted. */
static bool leads_astray(int at, const char *path, const struct stat *st) {
    struct stat root;
    struct statfs fs;
    return strcmp(path, "/") != 0 && strncmp(path, "/proc", 5) != 0 &&
           (stat("/", &root) != 0 || fstatfs(at, &fs) != 0 || fs.f_type == PROC_SUPER_MAGIC ||
            (root.st_dev == st->st_dev && root.st_ino == st->st_ino));
}

static bool add_rule(int ruleset, const char *path, uint64_t rights, struct pin_error *err) {
    struct stat st;
    PIN_CLOSE int at = open(path, O_PATH | O_CLOEXEC);
    if (at < 0 && errno == ENOENT)
        return true;
    if (at < 0 || fstat(at, &st) != 0)
        return pin_fail_errno(err, "open '%s' for Landlock", path);
    if (leads_astray(at, path, &st))
        return true;
    if (!S_ISDIR(st.st_mode))
        rights &= rights_of_files;
    struct path_beneath_attr rule = {.allowed_access = rights, .parent_fd = at};
    if (syscall(SYS_landlock_add_rule, ruleset, RULE_PATH_BENEATH, &rule, 0) != 0)
        return pin_fail_errno(err, "let Landlock grant '%s'", path);
    return true;
}

bool pin_landlock_restrict(int abi, const char *const *write, size_t count, struct pin_error *err) {
    struct ruleset_attr attributes = {.handled_access_fs = all_rights(abi)};
    size_t size = abi >= 6 ? sizeof(attributes) : abi >= 4 ? 16 : 8; /* what the kernel of this ABI knows */
    if (abi >= 6)
        attributes.scoped = SCOPE_ABSTRACT_UNIX_SOCKET | SCOPE_SIGNAL;
    PIN_CLOSE int ruleset = (int)syscall(SYS_landlock_create_ruleset, &attributes, size, 0);
    if (ruleset < 0)
        return pin_fail_errno(err, "make a Landlock ruleset");
    uint64_t all = all_rights(abi);
    if (!add_rule(ruleset, "/", FS_EXECUTE | FS_READ_FILE | FS_READ_DIR, err) ||
        !add_rule(ruleset, "/dev",
                  all & (FS_READ_FILE | FS_READ_DIR | FS_WRITE_FILE | FS_TRUNCATE | FS_IOCTL_DEV), err))
        return false;
    for (size_t i = 0; i < count; i++)
        if (!add_rule(ruleset, write[i], all, err))
            return false;
    if (syscall(SYS_landlock_restrict_self, ruleset, 0) != 0)
        return pin_fail_errno(err, "restrict by Landlock");
    return true;
}
