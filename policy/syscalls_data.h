/* syscalls_data.h: the generated tables of system calls, groups and baselines.
 *
 * Made at build time from policy/data by policy/data/generate.cmake; the first line of each file says
 * where it comes from. Others ask through syscalls.h.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "policy/filter.h"

struct pin_syscall {
    const char *name;
    int16_t number[PIN_ARCH_COUNT]; /* -1: the architecture doesn't have it */
    const char *since;              /* "6.5": a kernel younger than Linux 6.1 brought it; NULL: 6.1 has it */
    const char *never; /* why no policy on a walled baseline may allow it ("it …"); NULL: it may */
};

struct pin_syscall_set {
    const char *name, *summary;
    const uint16_t *rows; /* into pin_syscalls, ascending */
    size_t count;
};

extern const struct pin_syscall pin_syscalls[]; /* sorted by name */
extern const size_t pin_syscalls_count;
extern const struct pin_syscall_set pin_syscall_groups[];
extern const size_t pin_syscall_groups_count;
extern const struct pin_syscall_set pin_syscall_baselines[];
extern const size_t pin_syscall_baselines_count;
extern const struct pin_syscall_set pin_syscall_enosys; /* answered ENOSYS where they are not allowed */
