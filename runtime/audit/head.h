/* head.h: how far the audit log goes: its last record, in a file of its own.
 *
 * Without it a log whose end was cut off would look whole. It is also the lock of the log: whoever appends
 * holds it alone. One write of fixed size, so that no reader finds half of it.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"
#include "base/sha256.h"

struct pin_audit_head {
    uint64_t seq;               /* of the last record; 0: there is none */
    uint64_t first;             /* of the first record in the current file */
    uint64_t size;              /* of the current file, in bytes */
    char hash[PIN_DIGEST_TEXT]; /* of the last record */
};

/* Waits for other writers, for five seconds at most: then an error of kind BUSY. */
bool pin_audit_lock(int head_fd, bool exclusive, struct pin_error *err);
void pin_audit_unlock(int head_fd);

/* An empty file is the head of a log that has no record yet. */
bool pin_audit_head_read(int head_fd, struct pin_audit_head *head, struct pin_error *err);
bool pin_audit_head_write(int head_fd, const struct pin_audit_head *head, struct pin_error *err);
