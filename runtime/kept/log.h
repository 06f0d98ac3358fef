/* log.h: the numbered output of a kept sandbox, on disk.
 *
 * Two files in the sandbox's directory, `log.0` (older) and `log.1`; each is a run of records, all numbers
 * big endian: "PKL1", payload length u32, CRC-32C u32 of all that follows, sequence u64, CLOCK_MONOTONIC u64
 * in ns, exec u32, kind u8, three zero bytes, payload. Sequence numbers start at 1 and have no gaps. When
 * log.1 is full the two change places, and what was in log.0 is gone: it is written over, from a record of
 * kind CUT that says so. A reader stops at the first record that isn't whole or isn't the successor of the
 * one before: what follows is nothing, or older. The payload is what came from inside, or JSON of ours.
 * Source: docs/kept.md.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "runtime/kept/log_file.h"

#define PIN_LOG_PAYLOAD_MAX ((size_t)64 * 1024)
#define PIN_LOG_FILE_MAX ((uint64_t)4 * 1024 * 1024)

enum pin_log_kind { /* as on disk */
                    PIN_LOG_STDOUT = 1,
                    PIN_LOG_STDERR,
                    PIN_LOG_START, /* {"args": […]} */
                    PIN_LOG_END,   /* {"status", "exit_code", "signal"} */
                    PIN_LOG_CUT,   /* {"stream"} over its limit; {"records"}: that many are gone by rotation;
                                      {"unwritten"}: that many couldn't be written */
                    PIN_LOG_KIND_COUNT
};
const char *pin_log_kind_name(enum pin_log_kind kind); /* "stdout", … */

struct pin_log_record {
    uint64_t sequence, at_ns;
    uint32_t exec;
    enum pin_log_kind kind;
    const uint8_t *payload;
    size_t size;
};

struct pin_log { /* the one writer */
    int folder;  /* borrowed */
    struct pin_log_file file, older;
    uint64_t file_max, size, sequence, first_of_file, first_of_older;
    uint64_t unwritten; /* records that couldn't be, since the disk is full, perhaps: the next one says so */
};

bool pin_log_open(struct pin_log *log, int folder, uint64_t file_max, struct pin_error *err);
void pin_log_close(struct pin_log *log);
/* Any size: it becomes as many records as it needs. False when not all could be written: as soon as one can
 * be again, a record of kind CUT before it says how many are missing. */
bool pin_log_write(struct pin_log *log, enum pin_log_kind kind, uint32_t exec, const void *data, size_t size);
/* Nothing is written for a while. */
void pin_log_rest(struct pin_log *log);

/* Pure: the record at the start of `data`. 0: there is no whole one; else its length. */
size_t pin_log_parse(const uint8_t *data, size_t size, struct pin_log_record *record);
