#include "runtime/build/watch.h"

#include <errno.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <linux/seccomp.h>

#include "base/names.h"
#include "runtime/build/engine.h"
#include "runtime/build/seccomp/cache.h"
#include "runtime/init/protocol.h"

#ifndef SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV
#define SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV                                                               \
    (1UL << 5) /* Linux 5.19: a signal doesn't make a call anew                                              \
                */
#endif

#define X32_BIT 0x40000000U

/* Without a program the kernel finds fault with that, once it knows the flag. */
static uint32_t known_flags(void) {
    unsigned long flag = SECCOMP_FILTER_FLAG_NEW_LISTENER | SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV;
    return syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, flag, NULL) < 0 && errno == EFAULT
               ? SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV
               : 0;
}

static bool ask_for_all(struct pin_program *program, struct pin_error *err) {
    const struct sock_filter code[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, arch)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, pin_program_audit_arch(pin_arch_native()), 1, 0),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS),
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JGE | BPF_K, X32_BIT, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | ENOSYS),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_USER_NOTIF),
    };
    *program =
        (struct pin_program){.code = malloc(sizeof(code)), .length = PIN_COUNT(code), .flags = known_flags()};
    if (program->code == NULL)
        return pin_fail(err, PIN_ERROR_EXHAUSTED, "no memory for the watched filter");
    memcpy(program->code, code, sizeof(code));
    return true;
}

/* Numbers that the filter doesn't know are asked about as well, and answered ENOSYS by the one who judges. */
static bool ask_for_denied(const struct pin_filter *filter, int cache, struct pin_program *program,
                           struct pin_error *err) {
    struct pin_filter asking = *filter; /* borrows the rules */
    if (filter->default_action != PIN_FILTER_ERRNO)
        return pin_fail(err, PIN_ERROR_UNSUPPORTED, "a filter that kills can't ask");
    asking.default_action = PIN_FILTER_NOTIFY;
    asking.default_error = 0;
    if (!pin_program_get(&asking, cache, program, err))
        return false;
    program->flags = (program->flags & ~(uint32_t)SECCOMP_FILTER_FLAG_NEW_LISTENER) | known_flags();
    return true;
}

bool pin_watch_program(enum pin_watch watch, const struct pin_filter *filter, int cache,
                       struct pin_program *program, struct pin_error *err) {
    return watch == PIN_WATCH_ALL ? ask_for_all(program, err) : ask_for_denied(filter, cache, program, err);
}

bool pin_watch_load(const struct pin_program *program, int control, struct pin_error *err) {
    static const struct pin_init_message message = {.type = PIN_INIT_WATCH};
    return pin_engine_load_notify(program, control, &message, sizeof(message), err);
}
