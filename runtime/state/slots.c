#include "runtime/state/slots.h"

#include <sys/mman.h>
#include <sys/random.h>

#include "base/cleanup.h"
#include "base/io.h"
#include "runtime/state/ranges.h"
#include "runtime/state/record.h"
#include "runtime/state/scratch.h"
#include "runtime/state/slot_table.h"

#define FIRST_ID UINT32_C(0x70000000)
_Static_assert(FIRST_ID + (uint64_t)PIN_SLOT_COUNT * PIN_SLOT_IDS <= UINT64_C(0x7FFE0000),
               "the ranges end below systemd's foreign ids");

uint32_t pin_slot_id_base(uint32_t number) {
    return FIRST_ID + number * PIN_SLOT_IDS;
}

/* Concurrent commands that start at one place would fight for each slot in turn. */
static uint32_t random_start(void) {
    uint32_t value = 0;
    pin_ignore(
        getrandom(&value, sizeof(value), GRND_NONBLOCK)); /* 0 does as well: this is about contention */
    return value % PIN_SLOT_COUNT;
}

/* The byte counts only under the lock: it may have changed since the table was read. */
static bool try_slot(int table, int ranges, uint32_t number, bool *claimed, struct pin_error *err) {
    bool taken = false, free_range = false;
    uint8_t byte = 1;
    if (!pin_slot_table_lock(table, number, &taken, err))
        return false;
    if (!taken)
        return true;
    if (!pin_slot_table_get(table, number, &byte, err))
        return false;
    if (byte == 0 && !pin_ranges_lock(ranges, number, &free_range, err))
        return false;
    if (byte != 0 || !free_range) {
        pin_slot_table_unlock(table, number);
        return true;
    }
    *claimed = pin_slot_table_set(table, number, 1, err);
    return *claimed;
}

static bool claim_from(int table, int ranges, uint32_t *number, struct pin_error *err) {
    uint8_t bytes[PIN_SLOT_COUNT];
    if (!pin_slot_table_read(table, bytes, err))
        return false;
    uint32_t start = random_start();
    for (uint32_t i = 0; i < PIN_SLOT_COUNT; i++) {
        bool claimed = false;
        *number = (start + i) % PIN_SLOT_COUNT;
        if (bytes[*number] == 0 && !try_slot(table, ranges, *number, &claimed, err))
            return false;
        if (claimed)
            return true;
    }
    (void)pin_fail(err, PIN_ERROR_EXHAUSTED, "all %u slots are taken", PIN_SLOT_COUNT);
    return pin_hint(err, "end some sandboxes first: 'pinfold ls' names them");
}

/* A page is mapped, and never read. */
static bool hold_lock(int locked, void **held, struct pin_error *err) {
    void *page = mmap(NULL, 1, PROT_NONE, MAP_PRIVATE, locked, 0);
    if (page == MAP_FAILED)
        return pin_fail_errno(err, "map the slot table");
    if (madvise(page, 1, MADV_DONTFORK) != 0) {
        (void)pin_fail_errno(err, "keep the slot's lock from children");
        (void)munmap(page, 1);
        return false;
    }
    *held = page;
    return true;
}

bool pin_slot_claim(int state_dir, struct pin_slot *slot, struct pin_error *err) {
    bool repaired = false;
    PIN_CLOSE int locked = pin_slot_table_open(state_dir, &repaired, err);
    PIN_CLOSE int table = locked < 0 ? -1 : pin_slot_table_open(state_dir, &repaired, err);
    PIN_CLOSE int ranges = table < 0 ? -1 : pin_ranges_open(err);
    uint32_t number = 0;
    void *held = NULL;
    if (table < 0 || pin_is_set(err) || !claim_from(locked, ranges, &number, err) ||
        !hold_lock(locked, &held, err))
        return pin_wrap(err, "claim a slot");
    *slot = (struct pin_slot){.state_dir = state_dir,
                              .table = pin_steal_fd(&table),
                              .number = number,
                              .range_fd = pin_steal_fd(&ranges),
                              .held = held};
    return true;
}

bool pin_slot_release(struct pin_slot *slot, struct pin_error *err) {
    if (slot->table < 0)
        return true;
    bool ok = pin_scratch_remove(slot->state_dir, slot->number, err) &&
              pin_slot_record_remove(slot->state_dir, slot->number, err) &&
              pin_slot_table_set(slot->table, slot->number, 0, err);
    if (!ok)
        (void)pin_wrap(err, "release slot %u", slot->number);
    pin_slot_close(slot);
    return ok;
}

void pin_slot_close(struct pin_slot *slot) {
    pin_close_fd(&slot->table);
    pin_close_fd(&slot->range_fd);
    if (slot->held != NULL)
        (void)munmap(slot->held, 1);
    slot->held = NULL;
}
