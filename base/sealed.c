#include "base/sealed.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/mman.h>

#include "base/cleanup.h"
#include "base/io.h"

#ifndef MFD_EXEC
#define MFD_EXEC 0x0010U /* Linux 6.3 */
#endif

int pin_sealed_program(const char *name, const void *bytes, size_t size, struct pin_error *err) {
    PIN_CLOSE int fd = memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING | MFD_EXEC);
    if (fd < 0 && errno == EINVAL) /* before Linux 6.3 every memfd may be executed */
        fd = memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING);
    if (fd < 0) {
        (void)pin_fail_errno(err, "make a file of memory");
        return -1;
    }
    if (!pin_write_all(fd, bytes, size, err))
        return -1;
    if (fcntl(fd, F_ADD_SEALS, F_SEAL_WRITE | F_SEAL_GROW | F_SEAL_SHRINK | F_SEAL_SEAL) != 0) {
        (void)pin_fail_errno(err, "seal a file of memory");
        return -1;
    }
    return pin_steal_fd(&fd);
}
