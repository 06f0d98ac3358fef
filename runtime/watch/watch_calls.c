#include "runtime/watch/watch_calls.h"

#include <fcntl.h>

#include "base/names.h"
#include "policy/audit/recording.h"

#define NONE PIN_WATCH_NONE
#define LOOK PIN_USE_LOOK
#define READ PIN_USE_READ
#define WRITE PIN_USE_WRITE
#define EXEC PIN_USE_EXEC
#define FOLDER (PIN_USE_WRITE | PIN_USE_FOLDER)

/* clang-format off */
const struct pin_watch_argument pin_watch_arguments[] = {
    {"access",      NONE, 0, NONE, true,  LOOK , false},
    {"chdir",       NONE, 0, NONE, true,  LOOK , false},
    {"chmod",       NONE, 0, NONE, true,  WRITE, false},
    {"chown",       NONE, 0, NONE, true,  WRITE, false},
    {"creat",       NONE, 0, NONE, true,  WRITE, false},
    {"execve",      NONE, 0, NONE, true,  EXEC , false},
    {"execveat",    0,    1, NONE, true,  EXEC , false},
    {"faccessat",   0,    1, NONE, true,  LOOK , false},
    {"faccessat2",  0,    1, NONE, true,  LOOK , false},
    {"fchmodat",    0,    1, NONE, true,  WRITE, false},
    {"fchmodat2",   0,    1, NONE, true,  WRITE, false},
    {"fchownat",    0,    1, NONE, true,  WRITE, false},
    {"futimesat",   0,    1, NONE, true,  WRITE, false},
    {"lchown",      NONE, 0, NONE, false, WRITE, false},
    {"link",        NONE, 0, NONE, false, READ , false},
    {"link",        NONE, 1, NONE, false, WRITE, true},
    {"linkat",      0,    1, NONE, false, READ , false},
    {"linkat",      2,    3, NONE, false, WRITE, true},
    {"lstat",       NONE, 0, NONE, false, LOOK , false},
    {"mkdir",       NONE, 0, NONE, false, FOLDER, true},
    {"mkdirat",     0,    1, NONE, false, FOLDER, true},
    {"mknod",       NONE, 0, NONE, false, WRITE, true},
    {"mknodat",     0,    1, NONE, false, WRITE, true},
    {"newfstatat",  0,    1, NONE, true,  LOOK , false},
    {"open",        NONE, 0, 1,    true,  0    , false},
    {"openat",      0,    1, 2,    true,  0    , false},
    {"readlink",    NONE, 0, NONE, false, LOOK , false},
    {"readlinkat",  0,    1, NONE, false, LOOK , false},
    {"rename",      NONE, 0, NONE, false, WRITE, false},
    {"rename",      NONE, 1, NONE, false, WRITE, false},
    {"renameat",    0,    1, NONE, false, WRITE, false},
    {"renameat",    2,    3, NONE, false, WRITE, false},
    {"renameat2",   0,    1, NONE, false, WRITE, false},
    {"renameat2",   2,    3, NONE, false, WRITE, false},
    {"rmdir",       NONE, 0, NONE, false, WRITE, false},
    {"setxattr",    NONE, 0, NONE, true,  WRITE, false},
    {"lsetxattr",   NONE, 0, NONE, false, WRITE, false},
    {"removexattr", NONE, 0, NONE, true,  WRITE, false},
    {"stat",        NONE, 0, NONE, true,  LOOK , false},
    {"statfs",      NONE, 0, NONE, true,  LOOK , false},
    {"statx",       0,    1, NONE, true,  LOOK , false},
    {"symlink",     NONE, 1, NONE, false, WRITE, true},
    {"symlinkat",   1,    2, NONE, false, WRITE, true},
    {"truncate",    NONE, 0, NONE, true,  WRITE, false},
    {"unlink",      NONE, 0, NONE, false, WRITE, false},
    {"unlinkat",    0,    1, NONE, false, WRITE, false},
    {"utime",       NONE, 0, NONE, true,  WRITE, false},
    {"utimensat",   0,    1, NONE, true,  WRITE, false},
    {"utimes",      NONE, 0, NONE, true,  WRITE, false},
};
/* clang-format on */
const unsigned pin_watch_argument_count = PIN_COUNT(pin_watch_arguments);

unsigned pin_watch_open_uses(uint64_t flags, bool *follow) {
    uint64_t mode = flags & O_ACCMODE;
    if ((flags & O_NOFOLLOW) != 0 || (flags & (O_CREAT | O_EXCL)) == (O_CREAT | O_EXCL))
        *follow = false;
    if ((flags & O_PATH) != 0)
        return PIN_USE_LOOK;
    unsigned uses = mode == O_WRONLY ? PIN_USE_WRITE : mode == O_RDWR ? READ | WRITE : READ;
    return (flags & (O_CREAT | O_TRUNC)) != 0 ? uses | WRITE : uses;
}
