#include "runtime/build/credentials.h"

#include <errno.h>
#include <grp.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <linux/capability.h>
#include <linux/securebits.h>

#include "base/capabilities.h"

static bool set_ids(uint32_t uid, uint32_t gid, struct pin_error *err) {
    /* the plain system calls: glibc's would signal threads that a forked child doesn't have */
    if (syscall(SYS_setresgid, gid, gid, gid) != 0 || syscall(SYS_setresuid, uid, uid, uid) != 0)
        return pin_fail_errno(err, "become user %u, group %u", uid, gid);
    return true;
}

bool pin_credentials_enter(const struct pin_plan *plan, struct pin_error *err) {
    if (plan->may_set_groups && syscall(SYS_setgroups, 0, NULL) != 0)
        return pin_fail_errno(err, "drop the groups");
    bool has_root = plan->engine.direct ? plan->engine.enter_as_root
                                        : plan->ranged || plan->map_method == PIN_MAP_HELPERS;
    return !has_root || set_ids(0, 0, err);
}

static bool set_capabilities(uint64_t effective, uint64_t permitted, uint64_t inheritable,
                             struct pin_error *err) {
    struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
    struct __user_cap_data_struct data[_LINUX_CAPABILITY_U32S_3] = {
        {(uint32_t)effective,         (uint32_t)permitted,         (uint32_t)inheritable        },
        {(uint32_t)(effective >> 32), (uint32_t)(permitted >> 32), (uint32_t)(inheritable >> 32)},
    };
    if (syscall(SYS_capset, &header, data) != 0)
        return pin_fail_errno(err, "set the capabilities");
    return true;
}

static bool drop_bounding(uint64_t keep, struct pin_error *err) {
    for (unsigned long cap = 0; cap < 64; cap++) {
        if (keep & (UINT64_C(1) << cap))
            continue;
        if (prctl(PR_CAPBSET_DROP, cap, 0, 0, 0) != 0) {
            if (errno == EINVAL)
                return true; /* past the kernel's last one */
            return pin_fail_errno(err, "drop capability %lu from the bounding set", cap);
        }
    }
    return true;
}

static bool raise_ambient(uint64_t ambient, struct pin_error *err) {
    if (prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0) != 0)
        return pin_fail_errno(err, "clear the ambient set");
    for (unsigned long cap = 0; cap < 64; cap++)
        if ((ambient & (UINT64_C(1) << cap)) && prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_RAISE, cap, 0, 0) != 0)
            return pin_fail_errno(err, "raise ambient capability %lu", cap);
    return true;
}

static bool keeps_admin(const struct pin_plan *plan) {
    bool filtered = plan->bundle->seccomp.present || plan->bundle->ceiling_filter.present;
    return plan->engine.direct && !plan->no_new_privileges && filtered;
}

bool pin_credentials_finish(const struct pin_plan *plan, struct pin_error *err) {
    const uint64_t *sets = plan->capabilities;
    return !keeps_admin(plan) ||
           set_capabilities(sets[PIN_CAP_EFFECTIVE], sets[PIN_CAP_PERMITTED], sets[PIN_CAP_INHERITABLE], err);
}

bool pin_credentials_drop(const struct pin_plan *plan, struct pin_error *err) {
    /* what can't be had isn't asked for: an engine's user may lack it, and then the kernel has the last word
     */
    const uint64_t own = pin_own_capabilities().permitted;
    const uint64_t admin = keeps_admin(plan) ? (UINT64_C(1) << CAP_SYS_ADMIN) & own : 0;
    const uint64_t *sets = plan->capabilities, setpcap = (UINT64_C(1) << CAP_SETPCAP) & own;
    const unsigned long kept = SECBIT_NO_SETUID_FIXUP | SECBIT_NO_SETUID_FIXUP_LOCKED | SECBIT_NOROOT |
                               SECBIT_NOROOT_LOCKED | SECBIT_KEEP_CAPS_LOCKED;
    const unsigned long locked = kept | SECBIT_NO_CAP_AMBIENT_RAISE | SECBIT_NO_CAP_AMBIENT_RAISE_LOCKED;
    const struct pin_bundle *bundle = plan->bundle;
    if (!drop_bounding(sets[PIN_CAP_BOUNDING], err))
        return false;
    if (plan->may_set_groups &&
        syscall(SYS_setgroups, bundle->process.group_count, bundle->process.groups) != 0)
        return pin_fail_errno(err, "set the groups");
    /* without the fix-up, the change of uid keeps the capabilities that the lines below need */
    if (plan->lock_securebits && prctl(PR_SET_SECUREBITS, kept, 0, 0, 0) != 0)
        return pin_fail_errno(err, "set the securebits");
    if (!plan->lock_securebits && prctl(PR_SET_KEEPCAPS, 1, 0, 0, 0) != 0)
        return pin_fail_errno(err, "keep the capabilities");
    if (!set_ids(bundle->process.uid, bundle->process.gid, err) ||
        !set_capabilities(setpcap | admin, sets[PIN_CAP_PERMITTED] | setpcap | admin,
                          sets[PIN_CAP_INHERITABLE], err) ||
        !raise_ambient(sets[PIN_CAP_AMBIENT], err))
        return false;
    if (plan->lock_securebits && prctl(PR_SET_SECUREBITS, locked, 0, 0, 0) != 0)
        return pin_fail_errno(err, "lock the securebits");
    if (!plan->lock_securebits && prctl(PR_SET_KEEPCAPS, 0, 0, 0, 0) != 0)
        return pin_fail_errno(err, "forget to keep the capabilities");
    return set_capabilities(sets[PIN_CAP_EFFECTIVE] | admin, sets[PIN_CAP_PERMITTED] | admin,
                            sets[PIN_CAP_INHERITABLE], err);
}
