/* syscalls_guard.h: what calls may carry in their arguments, where a baseline or a bare name grants them.
 *
 * The kernel takes an int or an unsigned int in most of these places while the filter sees 64 bits, so every
 * comparison masks 32 of them and is exact: a range would compare what the kernel throws away. A pointer is
 * compared with NULL alone, by all of its bits. Each guard says why it is there; docs/syscalls.md has the
 * same table for people. Pure.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "policy/filter.h"

#define PIN_GUARD_ARGS 3

struct pin_guard_case {
    uint8_t arg_count;
    struct pin_filter_arg args[PIN_GUARD_ARGS];
};

struct pin_guard {
    const char *call;
    bool except; /* the cases are what is taken away; false: they are all that is granted */
    const struct pin_guard_case *cases; /* in the order of pin_filter_sort() */
    size_t count;
    const char *reason;
    const struct pin_guard_case *idle; /* answered with success, and not made; NULL: none */
    size_t idle_count;
};

/* The guard of a call, or NULL. `walled`: the baselines strict, tool and build; else oci. */
const struct pin_guard *pin_guard_find(const char *call, bool walled);

/* All guards of a side, for tests and documentation. */
const struct pin_guard *pin_guards(bool walled, size_t *count);

/* What no policy on a walled baseline may grant even by naming the argument: such calls, and why. */
struct pin_guard_never {
    const char *call;
    struct pin_filter_arg arg;
    const char *reason; /* ends the sentence "it …" */
};
const struct pin_guard_never *pin_guard_nevers(size_t *count);
