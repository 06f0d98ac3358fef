#include "runtime/secrets/locked.h"

#include <linux/capability.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/capabilities.h"

bool pin_locked_has_no_limit(void) {
    struct rlimit now;
    if ((pin_own_capabilities().effective & (UINT64_C(1) << CAP_IPC_LOCK)) != 0)
        return true;
    return getrlimit(RLIMIT_MEMLOCK, &now) == 0 && now.rlim_cur == RLIM_INFINITY;
}

/* Output passes through many a buffer before it is masked. Below a limit, later memory would be refused
 * instead. */
static bool lock_process(void) {
    static pid_t locked; /* a fork has no locks */
    if (locked == getpid() || !pin_locked_has_no_limit())
        return true;
    if (mlockall(MCL_CURRENT | MCL_FUTURE | MCL_ONFAULT) != 0)
        return false;
    locked = getpid();
    return true;
}

bool pin_locked_alloc(struct pin_locked *memory, size_t size, struct pin_error *err) {
    size_t page = (size_t)sysconf(_SC_PAGESIZE), mapped = (size + page) / page * page;
    void *at = mmap(NULL, mapped, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (at == MAP_FAILED)
        return pin_fail_errno(err, "find memory for a secret");
    if (!lock_process() || mlock(at, mapped) != 0 || madvise(at, mapped, MADV_DONTDUMP) != 0) {
        (void)pin_fail_errno(err, "keep a secret out of swap");
        (void)munmap(at, mapped);
        return pin_hint(err, "raise RLIMIT_MEMLOCK (ulimit -l)");
    }
    *memory = (struct pin_locked){at, size, mapped};
    return true;
}

void pin_locked_free(struct pin_locked *memory) {
    if (memory == NULL || memory->bytes == NULL)
        return;
    explicit_bzero(memory->bytes, memory->mapped);
    (void)munmap(memory->bytes, memory->mapped);
    *memory = (struct pin_locked){0};
}
