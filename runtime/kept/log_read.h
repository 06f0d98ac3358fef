/* log_read.h: reads the output log of a kept sandbox, alive or not, while it is being written and rotated.
 *
 * The writer may write over the file that is being read: what was read is then no successor of the record
 * before, and the reader goes on with the files that the names stand for, and says how many it has missed.
 */
#pragma once

#include "runtime/kept/log.h"

struct pin_log_reader {
    int folder;     /* borrowed */
    int file;       /* being read; -1: none yet */
    uint64_t first; /* the sequence number at its start: what the file is, since its inode is used again */
    uint64_t at;    /* where the next record stands in it */
    uint8_t *bytes; /* what was read from `bytes_at` on */
    uint64_t bytes_at;
    size_t size;
    uint64_t next;    /* the sequence number that should come next; 0: any */
    uint64_t missing; /* records that were gone before the one that came last */
};

/* From the oldest record on. */
bool pin_log_reader_open(struct pin_log_reader *reader, int folder, struct pin_error *err);
void pin_log_reader_close(struct pin_log_reader *reader);
/* The next record, good until the next call; false when there is none now. */
bool pin_log_reader_next(struct pin_log_reader *reader, struct pin_log_record *record);
