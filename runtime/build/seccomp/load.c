#include "runtime/build/seccomp/load.h"

#include <sys/syscall.h>
#include <unistd.h>

#include <linux/seccomp.h>

static long load(const struct pin_program *program, uint32_t flags) {
    struct sock_fprog handed = {.len = program->length, .filter = program->code};
    return syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, flags, &handed);
}

bool pin_program_load(const struct pin_program *program, struct pin_error *err) {
    if ((program->flags & SECCOMP_FILTER_FLAG_NEW_LISTENER) != 0)
        return pin_fail(err, PIN_ERROR_INTERNAL, "a filter with a listener was loaded without taking it");
    return load(program, program->flags) == 0 || pin_fail_errno(err, "load the system call filter");
}

int pin_program_load_notify(const struct pin_program *program, struct pin_error *err) {
    long listener = load(program, program->flags | SECCOMP_FILTER_FLAG_NEW_LISTENER);
    if (listener < 0)
        (void)pin_fail_errno(err, "load the system call filter with a listener");
    return (int)listener;
}
