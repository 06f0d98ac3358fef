#include "base/capabilities.h"

#include <sys/syscall.h>
#include <unistd.h>

#include <linux/capability.h>

struct pin_own_capabilities pin_own_capabilities(void) {
    struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
    struct __user_cap_data_struct data[_LINUX_CAPABILITY_U32S_3] = {0};
    struct pin_own_capabilities own = {0};
    if (syscall(SYS_capget, &header, data) != 0)
        return own;
    own.effective = data[0].effective | (uint64_t)data[1].effective << 32;
    own.permitted = data[0].permitted | (uint64_t)data[1].permitted << 32;
    return own;
}
