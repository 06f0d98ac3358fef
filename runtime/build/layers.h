/* layers.h: a root made from the layers of an image: an overlay, whose changes stay on a tmpfs, or on a disk
 * of their own (disk.h).
 *
 * There is always an upper: mount points that the image lacks are made in it before the root is sealed, and
 * the whiteouts of a single layer are devices until an overlay reads them. Source:
 * Documentation/filesystems/overlayfs.rst, "userxattr"; mount_setattr(2), "ID-mapped mounts".
 */
#pragma once

#include "base/error.h"
#include "runtime/build/sources.h"
#include "runtime/plan/plan.h"

/* In the parent: opens each layer once. Where we are privileged the mounts are made here, and share one
 * idmap. `layers` has room for plan->layer_count; the caller closes them, also after a failure. */
bool pin_layers_open(const struct pin_plan *plan, uint32_t range, struct pin_host_source *layers,
                     struct pin_error *err);

/* In the set-up child: the overlay, not attached to anything; -1 on failure. `over` is a directory that its
 * parts are attached to while it is made. Where the plan hands the upper over, *upper becomes it. */
int pin_layers_mount(const struct pin_plan *plan, struct pin_host_sources *sources, int over, int *upper,
                     struct pin_error *err);
