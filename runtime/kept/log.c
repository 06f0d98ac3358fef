#include "runtime/kept/log.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/cursor.h"
#include "base/names.h"
#include "runtime/supervise/crc32c.h"
#include "runtime/supervise/loop.h"

#define CHECKED_FROM ((size_t)12) /* the check sum is of everything from here on */

static const uint8_t magic[4] = {'P', 'K', 'L', '1'};

static const char *const kind_names[] = {
    [PIN_LOG_STDOUT] = "stdout", [PIN_LOG_STDERR] = "stderr", [PIN_LOG_START] = "start",
    [PIN_LOG_END] = "end",       [PIN_LOG_CUT] = "cut",
};
_Static_assert(PIN_COUNT(kind_names) == PIN_LOG_KIND_COUNT, "every kind has a name");

const char *pin_log_kind_name(enum pin_log_kind kind) {
    return (size_t)kind < PIN_COUNT(kind_names) ? kind_names[kind] : NULL;
}

static void put(uint8_t **at, uint64_t value, size_t bytes) {
    for (size_t i = 0; i < bytes; i++)
        *(*at)++ = (uint8_t)(value >> (8 * (bytes - 1 - i)));
}

static bool open_file(struct pin_log *log) {
    log->file =
        openat(log->folder, "log.1", O_CREAT | O_EXCL | O_WRONLY | O_APPEND | O_NOFOLLOW | O_CLOEXEC, 0600);
    log->size = 0;
    log->first_of_file = log->sequence + 1;
    return log->file >= 0;
}

bool pin_log_open(struct pin_log *log, int folder, uint64_t file_max, struct pin_error *err) {
    *log = (struct pin_log){.folder = folder, .file = -1, .file_max = file_max};
    return open_file(log) || pin_fail_errno(err, "make the output log");
}

void pin_log_close(struct pin_log *log) {
    pin_close_fd(&log->file);
}

/* One write: a reader sees a record whole or sees that it isn't. */
static bool append(struct pin_log *log, enum pin_log_kind kind, uint32_t exec, const void *data,
                   size_t size) {
    uint8_t record[PIN_LOG_HEAD + 1024], *whole = size <= 1024 ? record : malloc(PIN_LOG_HEAD + size);
    if (whole == NULL)
        return false;
    uint8_t *at = whole + CHECKED_FROM;
    memcpy(whole, magic, sizeof(magic));
    put(&at, log->sequence + 1, 8);
    put(&at, pin_now_ns(), 8);
    put(&at, exec, 4);
    put(&at, (uint64_t)kind << 24, 4);
    if (size > 0)
        memcpy(at, data, size);
    at = whole + sizeof(magic);
    put(&at, size, 4);
    put(&at, pin_crc32c(whole + CHECKED_FROM, PIN_LOG_HEAD - CHECKED_FROM + size), 4);
    ssize_t wrote = write(log->file, whole, PIN_LOG_HEAD + size);
    if (whole != record)
        free(whole);
    if (wrote != (ssize_t)(PIN_LOG_HEAD + size)) {
        if (wrote > 0) /* the half record goes again, or nothing after it could be read */
            (void)!ftruncate(log->file, (off_t)log->size);
        log->broken = true;
        return false;
    }
    log->sequence++;
    log->size += PIN_LOG_HEAD + size;
    return true;
}

static bool rotate(struct pin_log *log) {
    char text[64];
    uint64_t gone = log->first_of_older == 0 ? 0 : log->first_of_file - log->first_of_older;
    if (renameat(log->folder, "log.1", log->folder, "log.0") != 0)
        return false;
    log->first_of_older = log->first_of_file;
    pin_close_fd(&log->file);
    if (!open_file(log))
        return false;
    int size = snprintf(text, sizeof(text), "{\"records\":%llu}", (unsigned long long)gone);
    return gone == 0 || append(log, PIN_LOG_CUT, 0, text, (size_t)size);
}

bool pin_log_write(struct pin_log *log, enum pin_log_kind kind, uint32_t exec, const void *data,
                   size_t size) {
    const uint8_t *at = data;
    if (log->file < 0)
        return false;
    do {
        size_t part = size < PIN_LOG_PAYLOAD_MAX ? size : PIN_LOG_PAYLOAD_MAX;
        if (log->size > 0 && log->size + PIN_LOG_HEAD + part > log->file_max && !rotate(log))
            return false;
        if (!append(log, kind, exec, at, part))
            return false;
        at = at == NULL ? NULL : at + part;
        size -= part;
    } while (size > 0);
    return true;
}

static bool take_u64be(struct pin_cursor *in, uint64_t *value) {
    uint32_t high, low;
    if (!pin_take_u32be(in, &high) || !pin_take_u32be(in, &low))
        return false;
    *value = (uint64_t)high << 32 | low;
    return true;
}

size_t pin_log_parse(const uint8_t *data, size_t size, struct pin_log_record *record) {
    struct pin_cursor in = {data, data + size};
    struct pin_log_record found = {0};
    const uint8_t *mark;
    uint32_t length, sum, kind;
    if (!pin_take_bytes(&in, sizeof(magic), &mark) || memcmp(mark, magic, sizeof(magic)) != 0 ||
        !pin_take_u32be(&in, &length) || !pin_take_u32be(&in, &sum) || length > PIN_LOG_PAYLOAD_MAX ||
        pin_left(&in) < PIN_LOG_HEAD - CHECKED_FROM + length ||
        pin_crc32c(in.at, PIN_LOG_HEAD - CHECKED_FROM + length) != sum)
        return 0;
    if (!take_u64be(&in, &found.sequence) || !take_u64be(&in, &found.at_ns) ||
        !pin_take_u32be(&in, &found.exec) || !pin_take_u32be(&in, &kind) ||
        !pin_take_bytes(&in, length, &found.payload))
        return 0;
    found.kind = (enum pin_log_kind)(kind >> 24);
    found.size = length;
    if (found.kind < PIN_LOG_STDOUT || found.kind >= PIN_LOG_KIND_COUNT || (kind & 0xffffff) != 0)
        return 0;
    *record = found;
    return PIN_LOG_HEAD + length;
}
