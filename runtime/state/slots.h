/* slots.h: the table of live sandboxes, and how a dead owner's slot is found and cleared.
 *
 * The file `slots` of the state directory has one byte a slot: not 0 = the slot is claimed. The owner holds a
 * lock of its open file description (F_OFD_SETLK, fcntl(2)) on that byte; the kernel drops it with the owner,
 * however it dies. So: byte set and lock held = alive; byte set and lock free = left behind by a dead owner,
 * and the next command's sweep clears it; byte 0 = free, and then neither record nor scratch of that number
 * exists. Neither a pid nor a clock is trusted anywhere, and any kill leaves one of these three states.
 *
 * A table of the wrong size (a torn or foreign file) is rebuilt with every slot claimed, so that the sweep
 * has to prove each of them free; while somebody still holds a lock in it, it is an error of kind BUSY.
 *
 * A lock of an open file description would live on in every copy of its descriptor, and a child that is just
 * being made has one: killed with its owner, it would still pass for one that is alive. So the description
 * that is locked is held by a mapping that no child is given (MADV_DONTFORK, madvise(2)), and by nothing
 * else.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "base/findings.h"
#include "runtime/state/state_dir.h"

#define PIN_SLOT_COUNT UINT32_C(4091)
#define PIN_SLOT_IDS UINT32_C(65536)

struct pin_slot {
    int state_dir; /* borrowed */
    int table;     /* without a lock: to free the slot; -1: no slot is held */
    uint32_t number;
    int range_fd; /* holds the range of ids, against other state directories of root's; -1: none */
    void *held;   /* the mapping that holds the lock */
};
#define PIN_SLOT_NONE ((struct pin_slot){-1, -1, 0, -1, NULL})

/* Claims a free slot, from a random place on; as root, one whose range of ids no state directory uses.
 * EXHAUSTED when all are taken. */
bool pin_slot_claim(int state_dir, struct pin_slot *slot, struct pin_error *err);

/* Removes the slot's record and scratch, frees it and forgets it. On failure the slot stays claimed and is
 * forgotten all the same: the next sweep takes it up. Nothing to do for a slot that isn't held. */
bool pin_slot_release(struct pin_slot *slot, struct pin_error *err);

/* Lets go of the lock only, as a dying owner does: the sweep will clear the slot. */
void pin_slot_close(struct pin_slot *slot);

/* The first host id of the slot's range of PIN_SLOT_IDS: from 0x70000000 on, which systemd's uids-gids
 * documentation leaves unassigned, and below its foreign range (0x7FFE0000). Root's sandboxes only. */
uint32_t pin_slot_id_base(uint32_t number);

/* Ends what slot `number` left on the host outside the state directory (cgroups, helpers): true means that
 * nothing is left. The slot's lock is held meanwhile. */
typedef bool pin_slot_clean(void *context, int state_dir, uint32_t number, struct pin_error *err);

struct pin_sweep {
    uint32_t live;            /* slots whose owners are alive */
    uint32_t cleared;         /* slots that were left behind and are free now */
    bool repaired;            /* the table had to be rebuilt */
    struct pin_findings left; /* one for each slot that couldn't be cleared: it stays claimed */
};

/* Clears every slot whose owner is dead: the caller's cleaner, then scratch and record, then the byte. A slot
 * that can't be cleared is a finding and harms no other. Cheap when there is none: one read, and one question
 * for each live slot. False only when the table itself can't be used. */
bool pin_state_sweep(int state_dir, pin_slot_clean *clean, void *context, struct pin_sweep *done,
                     struct pin_error *err);
