/* image_resolve.h: from a name to the layers and the configuration of an image, on the hot path.
 *
 * Reads two small files, whatever the number of images and names in the store. The image is held: `gc` and
 * `rm` leave its layers alone as long as the descriptor lives (a lock of the open file, which the kernel
 * drops when the last process that holds it is gone).
 */
#pragma once

#include "images/image_config.h"
#include "images/image_store.h"
#include "images/rootfs.h"

/* `rootfs` becomes PIN_ROOTFS_LAYERS. `*hold` is the caller's to close when the sandbox has ended. */
bool pin_image_resolve(const struct pin_image_store *store, struct pin_arena *arena, const char *name,
                       struct pin_rootfs *rootfs, struct pin_image_config *config, int *hold,
                       struct pin_error *err);

/* The record alone, held or not (`hold` NULL). */
bool pin_image_find(const struct pin_image_store *store, struct pin_arena *arena, const char *name,
                    struct pin_image_config *config, int *hold, struct pin_error *err);
