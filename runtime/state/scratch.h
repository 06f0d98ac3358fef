/* scratch.h: disk space of a slot, for the upper directories of overlays.
 *
 * scratch/N in the state directory, mode 0700. What a sandbox writes there is hostile to whoever removes it:
 * see tree.h. pin_slot_release() and the sweep remove it.
 */
#pragma once

#include <stdint.h>

#include "base/error.h"

/* Makes scratch/N, which must not exist, and opens it. -1 on failure. */
int pin_scratch_make(int state_dir, uint32_t number, struct pin_error *err);

/* Removes scratch/N with all that is in it. True too when there is none. */
bool pin_scratch_remove(int state_dir, uint32_t number, struct pin_error *err);
