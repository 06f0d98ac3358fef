/* ranges.h: which ranges of host ids are in use, by any state directory of this host; for slots.c alone.
 *
 * A slot's number decides root's range of ids, and each state directory has a slot of every number. So
 * whoever claims one locks the byte of its number in /run/pinfold/ranges as well (F_OFD_SETLK): two sandboxes
 * that live never share an id, wherever their state is. The file stays empty; the kernel drops the lock with
 * its owner.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"

/* The file, or -1 with an error. Nothing but root has ranges: -1 without one for everybody else. */
int pin_ranges_open(struct pin_error *err);
/* *taken is false when another holds the range. */
bool pin_ranges_lock(int ranges, uint32_t number, bool *taken, struct pin_error *err);
