#include "runtime/kept/log.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <linux/fs.h>

#include "base/clock.h"
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
    log->file = PIN_LOG_FILE_NONE;
    log->file.fd = openat(log->folder, "log.1", O_CREAT | O_EXCL | O_RDWR | O_NOFOLLOW | O_CLOEXEC, 0600);
    return log->file.fd >= 0;
}

bool pin_log_open(struct pin_log *log, int folder, uint64_t file_max, struct pin_error *err) {
    *log = (struct pin_log){
        .folder = folder, .older = PIN_LOG_FILE_NONE, .file_max = file_max, .first_of_file = 1};
    return open_file(log) || pin_fail_errno(err, "make the output log");
}

void pin_log_close(struct pin_log *log) {
    pin_log_file_close(&log->file);
    pin_log_file_close(&log->older);
}

void pin_log_rest(struct pin_log *log) {
    pin_log_file_rest(&log->file);
    pin_log_file_rest(&log->older);
}

static bool append(struct pin_log *log, enum pin_log_kind kind, uint32_t exec, const void *data,
                   size_t size) {
    uint8_t head[PIN_LOG_HEAD], *at = head + CHECKED_FROM;
    memcpy(head, magic, sizeof(magic));
    put(&at, log->sequence + 1, 8);
    put(&at, pin_now_ns(), 8);
    put(&at, exec, 4);
    put(&at, (uint64_t)kind << 24, 4);
    at = head + sizeof(magic);
    put(&at, size, 4);
    uint32_t sum = pin_crc32c(head + CHECKED_FROM, PIN_LOG_HEAD - CHECKED_FROM);
    put(&at, pin_crc32c_more(sum, data, size), 4);
    if (!pin_log_file_put(&log->file, log->size, head, data, size))
        return false;
    log->sequence++;
    log->size += PIN_LOG_HEAD + size;
    return true;
}

static bool tell_cut(struct pin_log *log, const char *what, uint64_t count) {
    char text[64];
    int size = snprintf(text, sizeof(text), "{\"%s\":%llu}", what, (unsigned long long)count);
    return append(log, PIN_LOG_CUT, 0, text, (size_t)size);
}

/* The file of the records that go is written over: making a new one and giving the old one back costs three
 * times as much. */
static bool change_places(struct pin_log *log) {
    if (log->older.fd < 0 || !pin_log_file_begin_again(&log->older) ||
        syscall(SYS_renameat2, log->folder, "log.0", log->folder, "log.1", RENAME_EXCHANGE) != 0)
        return false;
    struct pin_log_file older = log->older;
    log->older = log->file;
    log->file = older;
    return true;
}

/* The first time; and on file systems that can't exchange. */
static bool begin_anew(struct pin_log *log) {
    if (renameat(log->folder, "log.1", log->folder, "log.0") != 0)
        return false;
    pin_log_file_close(&log->older);
    log->older = log->file;
    return open_file(log);
}

static bool rotate(struct pin_log *log) {
    uint64_t gone = log->first_of_older == 0 ? 0 : log->first_of_file - log->first_of_older;
    if (!change_places(log) && !begin_anew(log))
        return false;
    log->first_of_older = log->first_of_file;
    log->first_of_file = log->sequence + 1;
    log->size = 0;
    return gone == 0 || tell_cut(log, "records", gone);
}

static bool write_one(struct pin_log *log, enum pin_log_kind kind, uint32_t exec, const void *data,
                      size_t size) {
    if (log->file.fd < 0)
        return false;
    if (log->size > 0 && log->size + PIN_LOG_HEAD + size > log->file_max && !rotate(log))
        return false;
    if (log->unwritten > 0) {
        if (!tell_cut(log, "unwritten", log->unwritten))
            return false;
        log->unwritten = 0;
    }
    return append(log, kind, exec, data, size);
}

bool pin_log_write(struct pin_log *log, enum pin_log_kind kind, uint32_t exec, const void *data,
                   size_t size) {
    const uint8_t *at = data;
    bool all = true;
    do {
        size_t part = size < PIN_LOG_PAYLOAD_MAX ? size : PIN_LOG_PAYLOAD_MAX;
        if (!write_one(log, kind, exec, at, part)) {
            log->unwritten++;
            all = false;
        }
        at = at == NULL ? NULL : at + part;
        size -= part;
    } while (size > 0);
    return all;
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
    if (!pin_take_u64be(&in, &found.sequence) || !pin_take_u64be(&in, &found.at_ns) ||
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
