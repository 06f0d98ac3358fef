/* syscalls.h: what the calls, groups and baselines are called, and which numbers they have.
 *
 * The tables hold the calls of x86_64 and aarch64 up to the kernel that policy/data/calls.txt names; they
 * don't depend on the kernel or the library of this host. Pure. Everything lives as long as the program.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "policy/syscalls_data.h"

/* The call's row, or NULL: no kernel that this program knows has it on any of our architectures. */
const struct pin_syscall *pin_syscall_find(const char *name);

/* As above, near a row that was found before: rules come in the order of the table, mostly. `hint` may be
 * NULL. */
const struct pin_syscall *pin_syscall_find_near(const char *name, const struct pin_syscall *hint);

/* The call with that number, or NULL. */
const struct pin_syscall *pin_syscall_at(enum pin_arch arch, uint32_t number);

/* The number of the call, or -1. */
int pin_syscall_number(enum pin_arch arch, const char *name);

/* "@file" and the like, or NULL. */
const struct pin_syscall_set *pin_syscall_group(const char *name);

/* "strict", "tool", "build", "oci", or NULL. */
const struct pin_syscall_set *pin_syscall_baseline(const char *name);

/* Whether the set has the call. */
bool pin_syscall_in(const struct pin_syscall_set *set, const struct pin_syscall *call);

/* The call or group of our tables whose name is nearest, for "did you mean"; NULL if none is near. */
const char *pin_syscall_suggest(const char *name);
