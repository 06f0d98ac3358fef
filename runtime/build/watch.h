/* watch.h: a system call filter that asks the supervisor about every call.
 *
 * For a run that is recorded (`pinfold policy trace`) the filter is not compiled but kept by the supervisor,
 * which answers each call as the filter says: what it looks at lies in registers, and those can't change
 * while the thread waits. A call of another architecture ends the process here. If the supervisor dies, every
 * call fails. The listener leaves by a helper that shares the descriptors, as the first call after loading
 * waits for an answer. Source: seccomp_unotify(2), seccomp(2).
 */
#pragma once

#include <stdbool.h>

#include "base/error.h"
#include "runtime/build/seccomp/compile.h"

/* The program: notify for all, but for foreign calls. The caller frees it with pin_program_free(). */
bool pin_watch_program(struct pin_program *program, struct pin_error *err);

/* The child's side: loads it and hands the listener over on the control socket (PIN_INIT_WATCH). */
bool pin_watch_load(const struct pin_program *program, int control, struct pin_error *err);
