#include "runtime/audit/log.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/io.h"
#include "base/units.h"
#include "runtime/private/private_dir.h"

static const struct pin_private_place place = {"PINFOLD_AUDIT", "/var/log/pinfold/audit.jsonl",
                                               "XDG_STATE_HOME", ".local/state", "pinfold/audit.jsonl"};

static uint64_t now_ns(clockid_t clock) {
    struct timespec now = {0, 0};
    (void)clock_gettime(clock, &now);
    return (uint64_t)now.tv_sec * PIN_NS_PER_S + (uint64_t)now.tv_nsec;
}

static bool read_boot(struct pin_audit *audit, struct pin_error *err) {
    size_t size;
    PIN_FREE char *id = pin_read_file_at(AT_FDCWD, "/proc/sys/kernel/random/boot_id", 64, &size, err);
    if (id == NULL)
        return false;
    (void)snprintf(audit->boot, sizeof(audit->boot), "%.*s", (int)strspn(id, "0123456789abcdef-"), id);
    return true;
}

/* "audit.jsonl.head" */
static const char *head_name(const struct pin_audit *audit, char name[NAME_MAX + 1]) {
    (void)snprintf(name, NAME_MAX + 1, "%s.head", audit->name);
    return name;
}

static bool split(struct pin_audit *audit, const char *path, char folder[PATH_MAX], struct pin_error *err) {
    const char *slash = strrchr(path, '/');
    size_t length = slash != NULL ? (size_t)(slash - path) : 0;
    if (path[0] != '/' || length == 0 || length >= PATH_MAX || slash[1] == '\0' ||
        strlen(slash + 1) >= sizeof(audit->name)) {
        (void)pin_fail(err, PIN_ERROR_USAGE, "'%s' can't be an audit log", path);
        return pin_hint(err, "give the absolute path of a file in a directory of its own");
    }
    memcpy(folder, path, length);
    folder[length] = '\0';
    (void)snprintf(audit->name, sizeof(audit->name), "%s", slash + 1);
    return true;
}

bool pin_audit_open_path(struct pin_audit *audit, const char *path, bool to_write, struct pin_error *err) {
    char folder[PATH_MAX], name[NAME_MAX + 1];
    if (!split(audit, path, folder, err))
        return false;
    audit->dir = pin_private_dir(folder, to_write, err);
    if (audit->dir >= 0)
        audit->head =
            pin_private_file(audit->dir, head_name(audit, name), to_write ? O_RDWR | O_CREAT : O_RDONLY, err);
    if (audit->head >= 0 && (!to_write || read_boot(audit, err)))
        return true;
    pin_audit_close(audit);
    return pin_wrap(err, "the audit log '%s'", path);
}

bool pin_audit_place(char path[PATH_MAX], struct pin_error *err) {
    return pin_private_choose(&place, path, err);
}

bool pin_audit_open(struct pin_audit *audit, bool to_write, struct pin_error *err) {
    char path[PATH_MAX];
    return pin_audit_place(path, err) && pin_audit_open_path(audit, path, to_write, err);
}

void pin_audit_close(struct pin_audit *audit) {
    pin_close_fd(&audit->dir);
    pin_close_fd(&audit->head);
}

static bool damaged(struct pin_error *err, const char *what) {
    (void)pin_fail(err, PIN_ERROR_REFUSED, "the audit log %s", what);
    return pin_hint(err, "see what 'pinfold audit verify' says, then put the log aside with its head");
}

/* Whether the file ends, at `size`, with the record whose hash this is. */
static bool ends_with(int log, uint64_t size, const char *hash) {
    char tail[PIN_DIGEST_TEXT + 2];
    const size_t wanted = PIN_DIGEST_TEXT - 1 + 3;
    return size >= wanted && pread(log, tail, wanted, (off_t)(size - wanted)) == (ssize_t)wanted &&
           memcmp(tail, hash, PIN_DIGEST_TEXT - 1) == 0 && memcmp(tail + wanted - 3, "\"}\n", 3) == 0;
}

static void archive_name(const struct pin_audit *audit, uint64_t first, char name[NAME_MAX + 1]) {
    (void)snprintf(name, NAME_MAX + 1, "%s.%0*" PRIu64, audit->name, PIN_AUDIT_SEQ_DIGITS, first);
}

/* A writer was killed between the new name of a full file and the head that says so. */
static bool was_rotated(const struct pin_audit *audit, const struct pin_audit_head *head) {
    char name[NAME_MAX + 1];
    struct pin_error none = {0};
    archive_name(audit, head->first, name);
    PIN_CLOSE int old = pin_private_file(audit->dir, name, O_RDONLY, &none);
    return old >= 0 && ends_with(old, head->size, head->hash);
}

/* Opens the current file, which must end where the head says; a missing one is made where none should be. */
static int open_log(const struct pin_audit *audit, struct pin_audit_head *head, struct pin_error *err) {
    struct pin_error missing = {0};
    PIN_CLOSE int log = pin_private_file(audit->dir, audit->name, O_RDWR | O_APPEND, &missing);
    if (log >= 0)
        return pin_steal_fd(&log);
    if (missing.os_errno != ENOENT) {
        *err = missing;
        return -1;
    }
    if (head->size > 0 && !was_rotated(audit, head)) {
        (void)damaged(err, "has been removed, and its head is still there");
        return -1;
    }
    head->first = head->seq + 1;
    head->size = 0;
    return pin_private_file(audit->dir, audit->name, O_RDWR | O_APPEND | O_CREAT | O_EXCL, err);
}

static bool print_and_append(struct pin_audit *audit, int log, struct pin_audit_head *head,
                             const struct pin_audit_event *event, struct pin_error *err) {
    struct pin_audit_stamp stamp = {now_ns(CLOCK_REALTIME), now_ns(CLOCK_MONOTONIC), audit->boot};
    char hash[PIN_DIGEST_TEXT];
    size_t size;
    PIN_FREE char *line = pin_audit_record_print(head->seq + 1, head->hash, &stamp, event, &size, hash, err);
    if (line == NULL)
        return false;
    ssize_t written = write(log, line, size);
    if (written != (ssize_t)size || (audit->sync && fdatasync(log) != 0)) {
        if (written >= 0 && written != (ssize_t)size)
            errno = ENOSPC;
        (void)pin_fail_errno(err, "append to the audit log");
        if (written > 0)
            pin_ignore(
                ftruncate(log, (off_t)head->size)); /* else the next writer finds it torn, and cuts it */
        return false;
    }
    head->seq++;
    head->size += size;
    memcpy(head->hash, hash, sizeof(head->hash));
    return pin_audit_head_write(audit->head, head, err) &&
           (!audit->sync || fdatasync(audit->head) == 0 ||
            pin_fail_errno(err, "write the head of the audit log"));
}

/* One record may be ahead of the head: its writer was killed in between. */
static bool adopt(const char *line, size_t size, struct pin_audit_head *head) {
    struct pin_audit_record record;
    if (!pin_audit_record_parse(line, size - 1, &record))
        return false;
    bool fits = record.is_intact && record.seq == head->seq + 1 && strcmp(record.prev, head->hash) == 0;
    if (fits) {
        head->seq = record.seq;
        head->size += size;
        memcpy(head->hash, record.hash, sizeof(head->hash));
    }
    pin_audit_record_free(&record);
    return fits;
}

static bool note_repair(struct pin_audit *audit, int log, struct pin_audit_head *head, uint64_t dropped,
                        struct pin_error *err) {
    json_t *data = json_pack("{s:I}", "dropped_bytes", (json_int_t)dropped);
    const struct pin_audit_event event = {"repair", NULL, NULL, data};
    bool ok = print_and_append(audit, log, head, &event, err);
    json_decref(data);
    return ok;
}

/* What stands behind the end that the head names. */
static bool mend(struct pin_audit *audit, int log, struct pin_audit_head *head, uint64_t size,
                 struct pin_error *err) {
    uint64_t extra = size - head->size;
    if (extra > PIN_AUDIT_LINE_MAX)
        return damaged(err, "goes on behind the end that its head names");
    PIN_FREE char *tail = malloc((size_t)extra);
    if (tail == NULL || pread(log, tail, (size_t)extra, (off_t)head->size) != (ssize_t)extra)
        return pin_fail_errno(err, "read the audit log");
    const char *stop = memchr(tail, '\n', (size_t)extra);
    if (stop == NULL) { /* a write that was never finished */
        if (ftruncate(log, (off_t)head->size) != 0)
            return pin_fail_errno(err, "cut off a torn record");
        return note_repair(audit, log, head, extra, err);
    }
    if ((size_t)(stop - tail) + 1 == extra && adopt(tail, (size_t)extra, head))
        return true;
    return damaged(err, "goes on behind the end that its head names");
}

static bool check_end(struct pin_audit *audit, int log, struct pin_audit_head *head, struct pin_error *err) {
    struct stat facts;
    if (fstat(log, &facts) != 0)
        return pin_fail_errno(err, "look at the audit log");
    uint64_t size = (uint64_t)facts.st_size;
    if (size < head->size)
        return damaged(err, "is shorter than its head says");
    if (head->size > 0 && !ends_with(log, head->size, head->hash))
        return damaged(err, "doesn't end with the record that its head names");
    return size == head->size || mend(audit, log, head, size, err);
}

/* Somebody who moves the directory's files away under a writer must not get records into what nobody reads.
 */
static bool is_in_place(const struct pin_audit *audit, struct pin_error *err) {
    char name[NAME_MAX + 1];
    struct stat named, opened;
    if (fstatat(audit->dir, head_name(audit, name), &named, AT_SYMLINK_NOFOLLOW) == 0 &&
        fstat(audit->head, &opened) == 0 && named.st_dev == opened.st_dev && named.st_ino == opened.st_ino)
        return true;
    return damaged(err, "has lost its head");
}

static bool rotate(struct pin_audit *audit, struct pin_audit_head *head, int *log, struct pin_error *err) {
    char name[NAME_MAX + 1];
    archive_name(audit, head->first, name);
    if (renameat(audit->dir, audit->name, audit->dir, name) != 0)
        return pin_fail_errno(err, "rename the audit log to '%s'", name);
    pin_close_fd(log);
    *log = open_log(audit, head, err);
    return *log >= 0;
}

static bool write_locked(struct pin_audit *audit, const struct pin_audit_event *event,
                         struct pin_audit_head *head, struct pin_error *err) {
    if (!is_in_place(audit, err) || !pin_audit_head_read(audit->head, head, err))
        return false;
    PIN_CLOSE int log = open_log(audit, head, err);
    return log >= 0 && check_end(audit, log, head, err) &&
           (head->size < audit->rotate_bytes || rotate(audit, head, &log, err)) &&
           print_and_append(audit, log, head, event, err);
}

bool pin_audit_write(struct pin_audit *audit, const struct pin_audit_event *event, struct pin_audit_head *end,
                     struct pin_error *err) {
    struct pin_audit_head head;
    if (!pin_audit_lock(audit->head, true, err))
        return false;
    bool ok = write_locked(audit, event, &head, err);
    pin_audit_unlock(audit->head);
    if (ok && end != NULL)
        *end = head;
    return ok;
}

bool pin_audit_reserve(struct pin_audit *audit, uint64_t bytes, struct pin_error *err) {
    struct stat facts;
    PIN_CLOSE int log = pin_private_file(audit->dir, audit->name, O_WRONLY, err);
    if (log < 0 || fstat(log, &facts) != 0)
        return pin_is_set(err) ? false : pin_fail_errno(err, "look at the audit log");
    if (fallocate(log, FALLOC_FL_KEEP_SIZE, facts.st_size, (off_t)bytes) == 0 || errno == EOPNOTSUPP)
        return true;
    return pin_fail_errno(err, "find room for the audit log");
}
