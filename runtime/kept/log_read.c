#include "runtime/kept/log_read.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"

#define RECORD_MAX (PIN_LOG_HEAD + PIN_LOG_PAYLOAD_MAX)
#define ROOM (2 * RECORD_MAX)

bool pin_log_reader_open(struct pin_log_reader *reader, int folder, struct pin_error *err) {
    *reader = (struct pin_log_reader){.folder = folder, .file = -1};
    reader->bytes = malloc(ROOM);
    return reader->bytes != NULL || pin_fail_errno(err, "read the output log");
}

void pin_log_reader_close(struct pin_log_reader *reader) {
    free(reader->bytes);
    reader->bytes = NULL;
    pin_close_fd(&reader->file);
}

static int open_log(const struct pin_log_reader *reader, const char *name) {
    return openat(reader->folder, name, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
}

static void read_at(struct pin_log_reader *reader, int file, uint64_t at, size_t most) {
    ssize_t got = file < 0 ? 0 : pread(file, reader->bytes, most, (off_t)at);
    reader->bytes_at = at;
    reader->size = got > 0 ? (size_t)got : 0;
}

/* 0: nothing whole is there. */
static uint64_t first_of(struct pin_log_reader *reader, int file) {
    struct pin_log_record record;
    read_at(reader, file, 0, RECORD_MAX);
    return pin_log_parse(reader->bytes, reader->size, &record) > 0 ? record.sequence : 0;
}

/* The file that follows the one that is read. What was read of that is forgotten. */
static int find_next(struct pin_log_reader *reader, uint64_t *first) {
    PIN_CLOSE int newer = open_log(reader, "log.1");
    PIN_CLOSE int older = open_log(reader, "log.0"); /* they may change places meanwhile */
    int *files[] = {&older, &newer}, *found = NULL;
    *first = UINT64_MAX;
    for (size_t i = 0; i < 2; i++) {
        uint64_t one = first_of(reader, *files[i]);
        if (one > reader->first && one < *first) {
            found = files[i];
            *first = one;
        }
    }
    reader->size = 0;
    return found == NULL ? -1 : pin_steal_fd(found);
}

static bool is_successor(const struct pin_log_reader *reader, const struct pin_log_record *record) {
    return record->sequence == (reader->at == 0 ? reader->first : reader->next);
}

/* From the bytes that are there. */
static bool take(struct pin_log_reader *reader, struct pin_log_record *record) {
    uint64_t from = reader->at - reader->bytes_at;
    if (reader->at < reader->bytes_at || from >= reader->size)
        return false;
    size_t size = pin_log_parse(reader->bytes + from, reader->size - (size_t)from, record);
    if (size == 0 || !is_successor(reader, record))
        return false;
    reader->missing =
        reader->next != 0 && record->sequence > reader->next ? record->sequence - reader->next : 0;
    reader->next = record->sequence + 1;
    reader->at += size;
    return true;
}

/* As the file is now: what was read before may have been written over since. */
static bool take_anew(struct pin_log_reader *reader, struct pin_log_record *record) {
    read_at(reader, reader->file, reader->at, ROOM);
    return take(reader, record);
}

/* The file is asked once more after the next one has begun: what came between the two looks is the older
 * one's.
 */
bool pin_log_reader_next(struct pin_log_reader *reader, struct pin_log_record *record) {
    for (;;) {
        uint64_t first;
        if (take(reader, record) || take_anew(reader, record))
            return true;
        PIN_CLOSE int following = find_next(reader, &first);
        if (following < 0)
            return false;
        if (take_anew(reader, record))
            return true;
        pin_close_fd(&reader->file);
        reader->file = pin_steal_fd(&following);
        reader->first = first;
        reader->at = 0;
    }
}
