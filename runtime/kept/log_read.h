/* log_read.h: reads the output log of a kept sandbox, alive or not, while it is being written and rotated.
 */
#pragma once

#include "runtime/kept/log.h"

struct pin_log_reader {
    int folder; /* borrowed */
    int file;   /* being read; -1: none yet */
    bool older; /* it is log.0 */
    uint8_t *bytes;
    size_t at, size, room;
    uint64_t next;    /* the sequence number that should come next; 0: any */
    uint64_t missing; /* records that were gone before the one that came last */
};

/* From the oldest record on. */
bool pin_log_reader_open(struct pin_log_reader *reader, int folder, struct pin_error *err);
void pin_log_reader_close(struct pin_log_reader *reader);
/* The next record, good until the next call; false when there is none now. */
bool pin_log_reader_next(struct pin_log_reader *reader, struct pin_log_record *record);
