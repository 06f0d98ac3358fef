/* log.h: the audit log, as those who write it see it.
 *
 * One file of records (record.h) beside its head (head.h) in a directory of one user: root's is
 * /var/log/pinfold/audit.jsonl, a user's $XDG_STATE_HOME/pinfold/audit.jsonl (~/.local/state);
 * $PINFOLD_AUDIT, an absolute path, goes before both. Writers hold the head's lock, and each record is one
 * write at the end. A log that is shorter than its head says, or whose end is another record, takes no more:
 * nothing is ever quietly begun anew. What a crash left half-written is cut off, and the next record says so.
 * A file that has grown past `rotate_bytes` is renamed to NAME.FIRST-SEQ, and the chain goes on.
 */
#pragma once

#include <limits.h>
#include <stdbool.h>
#include <stdint.h>

#include "runtime/audit/head.h"
#include "runtime/audit/record.h"

#define PIN_AUDIT_ROTATE_BYTES (UINT64_C(64) << 20)
#define PIN_AUDIT_SEQ_DIGITS 20

struct pin_audit {
    int dir, head;            /* PIN_AUDIT_NONE at first */
    char name[NAME_MAX - 64]; /* of the file; ".head" and ".SEQ" are put behind it */
    char boot[40];
    bool sync; /* each record is on the disk before pin_audit_write() returns */
    uint64_t rotate_bytes;
};

/* clang-format off */
#define PIN_AUDIT_NONE ((struct pin_audit){.dir = -1, .head = -1, .rotate_bytes = PIN_AUDIT_ROTATE_BYTES})
/* clang-format on */

/* Where this process's log is: $PINFOLD_AUDIT, or its user's. */
bool pin_audit_place(char path[PATH_MAX], struct pin_error *err);

/* Opens this process's log, to write (then it is made where it is missing) or to read. */
bool pin_audit_open(struct pin_audit *audit, bool to_write, struct pin_error *err);
/* The same for a file that is named. */
bool pin_audit_open_path(struct pin_audit *audit, const char *path, bool to_write, struct pin_error *err);
void pin_audit_close(struct pin_audit *audit);

/* Appends a record; `end`, which may be NULL, becomes the head with it. False: it is not in the log. */
bool pin_audit_write(struct pin_audit *audit, const struct pin_audit_event *event, struct pin_audit_head *end,
                     struct pin_error *err);

/* Sees that a record of this size will find room: for who must tell the end of what it begins. */
bool pin_audit_reserve(struct pin_audit *audit, uint64_t bytes, struct pin_error *err);
