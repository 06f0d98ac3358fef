/* layer_merge.h: the tree that a stack of layers shows, as plain files of its own.
 *
 * What overlay would show: the upper layer's entries win, whiteouts and opaque directories hide what is
 * below. Both sides are walked by descriptor and no link is followed. Hard links within a layer, holes, times
 * and user attributes are kept, owners where we may set them. Source:
 * Documentation/filesystems/overlayfs.rst.
 */
#pragma once

#include <stddef.h>

#include "base/error.h"

/* `layers` are absolute directories, the lowest first; `target` is an empty directory. */
bool pin_layers_merge(const char *const *layers, size_t count, int target, struct pin_error *err);
