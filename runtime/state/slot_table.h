/* slot_table.h: the file beneath slots.h; for slots.c and sweep.c alone. */
#pragma once

#include "runtime/state/slots.h"

/* Opens the table, made where it is missing and rebuilt where it is torn (then *repaired is set). The locks
 * that are taken through the descriptor are its own. -1 on failure. */
int pin_slot_table_open(int state_dir, bool *repaired, struct pin_error *err);

/* Reads all PIN_SLOT_COUNT bytes. */
bool pin_slot_table_read(int table, uint8_t *bytes, struct pin_error *err);

bool pin_slot_table_get(int table, uint32_t number, uint8_t *byte, struct pin_error *err);
bool pin_slot_table_set(int table, uint32_t number, uint8_t byte, struct pin_error *err);

/* *taken is false when another holds the lock. */
bool pin_slot_table_lock(int table, uint32_t number, bool *taken, struct pin_error *err);
void pin_slot_table_unlock(int table, uint32_t number);
/* Whether another descriptor holds the lock. */
bool pin_slot_table_is_locked(int table, uint32_t number, bool *locked, struct pin_error *err);
