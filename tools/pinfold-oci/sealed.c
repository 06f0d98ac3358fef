#include "tools/pinfold-oci/sealed.h"

#include <fcntl.h>
#include <sys/mount.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/cleanup.h"

void pin_seal_self(char **argv, char **envp) {
    struct statvfs fs;
    struct mount_attr read_only = {.attr_set = MOUNT_ATTR_RDONLY};
    if (geteuid() != 0 || statvfs("/proc/self/exe", &fs) != 0 || (fs.f_flag & ST_RDONLY) != 0)
        return;
    PIN_CLOSE int file = open_tree(AT_FDCWD, "/proc/self/exe", OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC);
    if (file < 0 || mount_setattr(file, "", AT_EMPTY_PATH, &read_only, sizeof(read_only)) != 0)
        return;
    (void)syscall(SYS_execveat, file, "", argv, envp, AT_EMPTY_PATH);
}
