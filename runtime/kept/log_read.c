#include "runtime/kept/log_read.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"

#define ROOM (2 * (PIN_LOG_HEAD + PIN_LOG_PAYLOAD_MAX))

bool pin_log_reader_open(struct pin_log_reader *reader, int folder, struct pin_error *err) {
    *reader = (struct pin_log_reader){.folder = folder, .file = -1, .room = ROOM};
    reader->bytes = malloc(reader->room);
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

static bool is_same(int a, int b) {
    struct stat one, other;
    return fstat(a, &one) == 0 && fstat(b, &other) == 0 && one.st_ino == other.st_ino &&
           one.st_dev == other.st_dev;
}

/* A file that was rotated away is read to its end before the next one is begun. */
static bool open_next(struct pin_log_reader *reader) {
    PIN_CLOSE int newer = open_log(reader, "log.1");
    if (newer < 0 || (reader->file >= 0 && is_same(reader->file, newer)))
        return false;
    PIN_CLOSE int older = open_log(reader, "log.0");
    bool from_older = older >= 0 && (reader->file < 0 || !is_same(reader->file, older));
    pin_close_fd(&reader->file);
    reader->file = pin_steal_fd(from_older ? &older : &newer);
    reader->at = reader->size = 0;
    return true;
}

static bool fill(struct pin_log_reader *reader) {
    if (reader->file < 0)
        return false;
    memmove(reader->bytes, reader->bytes + reader->at, reader->size - reader->at);
    reader->size -= reader->at;
    reader->at = 0;
    ssize_t got = read(reader->file, reader->bytes + reader->size, reader->room - reader->size);
    if (got <= 0)
        return false;
    reader->size += (size_t)got;
    return true;
}

static bool take(struct pin_log_reader *reader, struct pin_log_record *record) {
    size_t size = pin_log_parse(reader->bytes + reader->at, reader->size - reader->at, record);
    if (size == 0)
        return false;
    reader->at += size;
    reader->missing =
        reader->next != 0 && record->sequence > reader->next ? record->sequence - reader->next : 0;
    reader->next = record->sequence + 1;
    return true;
}

/* The file is asked once more after the next one has appeared: what came between the two looks is the older
 * one's. */
bool pin_log_reader_next(struct pin_log_reader *reader, struct pin_log_record *record) {
    for (;;) {
        if (take(reader, record))
            return true;
        if (fill(reader))
            continue;
        PIN_CLOSE int newest = open_log(reader, "log.1");
        bool more = newest >= 0 && (reader->file < 0 || !is_same(reader->file, newest));
        if (more && fill(reader))
            continue;
        if (!more || !open_next(reader))
            return false;
    }
}
