#include "base/cleanup.h"
#include "runtime/state/record.h"
#include "runtime/state/scratch.h"
#include "runtime/state/slot_table.h"

struct sweeper {
    int state_dir, table;
    pin_slot_clean *clean;
    void *context;
};

static bool clear_slot(const struct sweeper *sweeper, uint32_t number, struct pin_error *err) {
    return sweeper->clean(sweeper->context, sweeper->state_dir, number, err) &&
           pin_scratch_remove(sweeper->state_dir, number, err) &&
           pin_slot_record_remove(sweeper->state_dir, number, err) &&
           pin_slot_table_set(sweeper->table, number, 0, err);
}

/* The lock keeps a second sweep away, and tells an owner that is alive from one that is dead. */
static bool sweep_slot(const struct sweeper *sweeper, uint32_t number, struct pin_sweep *done,
                       struct pin_error *err) {
    bool taken = false;
    uint8_t byte = 0;
    if (!pin_slot_table_lock(sweeper->table, number, &taken, err))
        return false;
    if (!taken) {
        done->live++;
        return true;
    }
    bool ok = pin_slot_table_get(sweeper->table, number, &byte, err);
    if (ok && byte != 0) {
        ok = clear_slot(sweeper, number, err);
        done->cleared += ok;
    }
    pin_slot_table_unlock(sweeper->table, number);
    return ok;
}

static void sweep_claimed(const struct sweeper *sweeper, uint32_t number, struct pin_sweep *done) {
    struct pin_error err = {0};
    bool locked = false;
    if (!pin_slot_table_is_locked(sweeper->table, number, &locked, &err) ||
        (!locked && !sweep_slot(sweeper, number, done, &err))) {
        (void)pin_wrap(&err, "clear what slot %u left behind", number);
        pin_find_error(&done->left, &err);
        return;
    }
    done->live += locked;
}

bool pin_state_sweep(int state_dir, pin_slot_clean *clean, void *context, struct pin_sweep *done,
                     struct pin_error *err) {
    done->live = done->cleared = 0;
    done->repaired = false;
    done->left.count = done->left.dropped = 0; /* the list itself is 40 KiB, and rarely written */
    PIN_CLOSE int table = pin_slot_table_open(state_dir, &done->repaired, err);
    uint8_t bytes[PIN_SLOT_COUNT];
    if (table < 0 || !pin_slot_table_read(table, bytes, err))
        return pin_wrap(err, "look for what dead sandboxes left");
    struct sweeper sweeper = {state_dir, table, clean, context};
    for (uint32_t number = 0; number < PIN_SLOT_COUNT; number++)
        if (bytes[number] != 0)
            sweep_claimed(&sweeper, number, done);
    return true;
}
