/* record.h: what the cleaner of a slot must know beyond the slot's number.
 *
 * records/N, a small JSON file of mode 0600, is in place before the thing that it names is made. It is
 * written whole or not at all. It holds no pid: pids are used again, and a process is only ever found by its
 * cgroup.
 */
#pragma once

#include <limits.h>
#include <stdint.h>

#include "base/error.h"

struct pin_slot_record {
    char cgroup[PATH_MAX];  /* absolute within the cgroup v2 mount; "" = the default place of the slot */
    char scratch[PATH_MAX]; /* absolute; a scratch directory outside the state directory; "" = none */
    char name[64];          /* of a kept sandbox; "" = none */
};

bool pin_slot_record_write(int state_dir, uint32_t number, const struct pin_slot_record *record,
                           struct pin_error *err);

/* A missing record is an error of kind NOT_FOUND; one that pinfold didn't write is SYNTAX; one of a newer
 * pinfold is UNSUPPORTED. */
bool pin_slot_record_read(int state_dir, uint32_t number, struct pin_slot_record *record,
                          struct pin_error *err);

/* True too when there is none. */
bool pin_slot_record_remove(int state_dir, uint32_t number, struct pin_error *err);
