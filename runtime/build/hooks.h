/* hooks.h: runs the hooks of one stage, one after the other, with the container's state on their stdin.
 *
 * fork(2) and execve(2) only, so that it may run in the set-up child too. A hook that fails, or is not done
 * in time, is an error, and the ones after it don't run; those of poststop do, and the first error is told.
 * Source: OCI runtime-spec 1.2 config.md "POSIX-platform Hooks", runtime.md "Lifecycle".
 */
#pragma once

#include <stdbool.h>

#include "base/error.h"
#include "runtime/bundle/bundle.h"

/* Asked again and again while a hook runs: true ends it, and with it the stage. */
struct pin_hook_watch {
    bool (*is_over)(const void *self);
    const void *self;
};

/* `watch` NULL: a hook runs until it ends, or its own timeout is over. */
bool pin_hooks_run(const struct pin_bundle *bundle, enum pin_hook_stage stage, const char *state,
                   const struct pin_hook_watch *watch, struct pin_error *err);
