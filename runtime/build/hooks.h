/* hooks.h: runs the hooks of one stage, one after the other, with the container's state on their stdin.
 *
 * fork(2) and execve(2) only, so that it may run in the set-up child too. A hook that fails, or is not done
 * in time, is an error, and the ones after it don't run. Source: OCI runtime-spec 1.2 config.md
 * "POSIX-platform Hooks".
 */
#pragma once

#include <stdbool.h>

#include "base/error.h"
#include "runtime/bundle/bundle.h"

bool pin_hooks_run(const struct pin_bundle *bundle, enum pin_hook_stage stage, const char *state,
                   struct pin_error *err);
