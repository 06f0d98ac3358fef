#include "tools/pinfold-oci/sealed.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/cleanup.h"

#ifndef MFD_EXEC
#define MFD_EXEC 0x0010U /* Linux 6.3 */
#endif
enum { SEALS = F_SEAL_WRITE | F_SEAL_GROW | F_SEAL_SHRINK | F_SEAL_SEAL };

/* A container of an ordinary user's has no more than that user's own rights over the file. */
static bool is_out_of_reach(int self) {
    struct stat facts;
    struct statvfs fs;
    if (fcntl(self, F_GET_SEALS) > 0 || (fstatvfs(self, &fs) == 0 && (fs.f_flag & ST_RDONLY) != 0))
        return true;
    return geteuid() != 0 && fstat(self, &facts) == 0 && facts.st_uid != geteuid() &&
           (facts.st_mode & (S_IWGRP | S_IWOTH)) == 0;
}

/* A read-only mount that is attached nowhere: it costs no copy. */
static int clone_read_only(void) {
    struct mount_attr read_only = {.attr_set = MOUNT_ATTR_RDONLY};
    PIN_CLOSE int file = open_tree(AT_FDCWD, "/proc/self/exe", OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC);
    if (file < 0 || mount_setattr(file, "", AT_EMPTY_PATH, &read_only, sizeof(read_only)) != 0)
        return -1;
    return pin_steal_fd(&file);
}

/* Where mounts can't be made: without CAP_SYS_ADMIN, and before Linux 5.12. */
static int copy_sealed(int self) {
    struct stat facts;
    unsigned flags = MFD_CLOEXEC | MFD_ALLOW_SEALING;
    PIN_CLOSE int copy = memfd_create("pinfold-oci", flags | MFD_EXEC);
    if (copy < 0 && errno == EINVAL)
        copy = memfd_create("pinfold-oci", flags);
    if (copy < 0 || fstat(self, &facts) != 0)
        return -1;
    for (off_t at = 0; at < facts.st_size;)
        if (sendfile(copy, self, &at, (size_t)(facts.st_size - at)) <= 0)
            return -1;
    return fcntl(copy, F_ADD_SEALS, SEALS) == 0 ? pin_steal_fd(&copy) : -1;
}

bool pin_seal_self(char **argv, char **envp, struct pin_error *err) {
    PIN_CLOSE int self = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
    if (self < 0)
        return pin_fail_errno(err, "open the runtime's own file");
    if (is_out_of_reach(self))
        return true;
    PIN_CLOSE int file = clone_read_only();
    if (file < 0)
        file = copy_sealed(self);
    if (file >= 0)
        (void)syscall(SYS_execveat, file, "", argv, envp, AT_EMPTY_PATH);
    return pin_fail_errno(err, "execute the runtime from where no container can write to it");
}
