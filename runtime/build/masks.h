/* masks.h: what the plan hides, or makes read-only, in a root that stands.
 *
 * Paths below /proc and /sys are looked for in the file system that we mounted there, and not by their names:
 * whoever writes to the root may have put another folder in its place since, and the masks would be on that
 * one.
 */
#pragma once

#include "runtime/build/mounts.h"

/* Opens the host's /dev/null, which masks files. First. */
bool pin_masks_open(struct pin_mounts *mounts, struct pin_error *err);

/* `fs` has just been mounted on `target`; or something has that isn't ours. */
bool pin_masks_keep_mount(struct pin_mounts *mounts, const char *target, int fs, struct pin_error *err);
void pin_masks_forget_mount(struct pin_mounts *mounts, const char *target);

/* The folder of our own root that the file system on it has just covered: if nothing is in it, it masks
 * others as well as a file system of their own, which takes the kernel longer to make and to take apart. */
void pin_masks_keep_empty(struct pin_mounts *mounts, int folder);

/* What isn't there needs neither. */
bool pin_masks_hide(const struct pin_op *op, struct pin_mounts *mounts, struct pin_error *err);
bool pin_masks_make_read_only(const struct pin_op *op, const struct pin_mounts *mounts,
                              struct pin_error *err);
