/* watch.h: a system call filter that asks the supervisor.
 *
 * For a run that is recorded (`pinfold policy trace`, or audit.record) the filter is kept by the supervisor
 * too, which answers each call as the filter says: what it looks at lies in registers, and those can't change
 * while the thread waits. A call of another architecture ends the process here. If the supervisor dies, every
 * call fails. The listener leaves by a helper that shares the descriptors, as the first call after loading
 * waits for an answer. Source: seccomp_unotify(2), seccomp(2).
 */
#pragma once

#include <stdbool.h>

#include "base/error.h"
#include "runtime/build/seccomp/compile.h"

enum pin_watch {
    PIN_WATCH_NONE,   /* the filter judges */
    PIN_WATCH_ALL,    /* every call is asked about */
    PIN_WATCH_DENIED, /* the filter lets through what it lets through, and asks about the rest */
};

/* The program that asks, of a filter that denies by an errno. The caller frees it with pin_program_free(). */
bool pin_watch_program(enum pin_watch watch, const struct pin_filter *filter, int cache,
                       struct pin_program *program, struct pin_error *err);

/* The child's side: loads it and hands the listener over on the control socket (PIN_INIT_WATCH). */
bool pin_watch_load(const struct pin_program *program, int control, struct pin_error *err);
