/* overlay.h: a copy-on-write view of a directory, whose changes stay on a tmpfs of a given size.
 *
 * Runs in the set-up child. Source: Documentation/filesystems/overlayfs.rst, "userxattr".
 */
#pragma once

#include "base/error.h"
#include "runtime/build/sources.h"
#include "runtime/plan/plan.h"

/* Mounts it at the directory behind `target`; *changes becomes the upper directory. */
bool pin_overlay_mount(const struct pin_op *op, struct pin_host_source *source, uint32_t uid, uint32_t gid,
                       int target, int *changes, struct pin_error *err);
