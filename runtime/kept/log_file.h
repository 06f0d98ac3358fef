/* log_file.h: one of the two files of an output log, which grows and later is written over.
 *
 * What is written over is written by way of memory, which costs a third of write(2); for as long as the log
 * is in use, since such memory counts as the process's own. Source: mmap(2), madvise(2)
 * "MADV_POPULATE_WRITE".
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define PIN_LOG_HEAD ((size_t)36)

struct pin_log_file {
    int fd;         /* owned; -1: none */
    uint64_t stale; /* up to here it holds what it held before */
    uint8_t *map;   /* of the start of these bytes; NULL: none */
    size_t map_size;
    bool no_map; /* it was tried */
};
#define PIN_LOG_FILE_NONE ((struct pin_log_file){.fd = -1})

/* A record at `at`: its head comes last, and before it an end behind the record, so that a reader finds the
 * whole record or none. False: nothing was written, and errno says why. */
bool pin_log_file_put(struct pin_log_file *file, uint64_t at, const uint8_t head[PIN_LOG_HEAD],
                      const void *data, size_t size);
/* From now on it is written over. An end stands at its start then. */
bool pin_log_file_begin_again(struct pin_log_file *file);
void pin_log_file_rest(struct pin_log_file *file); /* gives the memory back until the next record */
void pin_log_file_close(struct pin_log_file *file);
