#include "runtime/audit/head.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <time.h>
#include <unistd.h>

#include <jansson.h>

#include "base/units.h"
#include "runtime/audit/record.h"

enum { HEAD_BYTES = 256, PATIENCE_MS = 5000 };

bool pin_audit_lock(int head_fd, bool exclusive, struct pin_error *err) {
    const struct timespec pause = {0, (long)PIN_NS_PER_MS / 2};
    for (int tries = 0; tries < 2 * PATIENCE_MS; tries++) {
        if (flock(head_fd, (exclusive ? LOCK_EX : LOCK_SH) | LOCK_NB) == 0)
            return true;
        if (errno != EWOULDBLOCK && errno != EINTR)
            return pin_fail_errno(err, "lock the audit log");
        (void)nanosleep(&pause, NULL);
    }
    return pin_fail(err, PIN_ERROR_BUSY, "somebody has held the lock of the audit log for %d seconds",
                    PATIENCE_MS / 1000);
}

void pin_audit_unlock(int head_fd) {
    (void)flock(head_fd, LOCK_UN); /* closing it would do, too */
}

static bool take_number(const json_t *json, const char *key, uint64_t *value) {
    const json_t *number = json_object_get(json, key);
    if (!json_is_integer(number) || json_integer_value(number) < 0)
        return false;
    *value = (uint64_t)json_integer_value(number);
    return true;
}

static bool parse(const char *text, size_t size, struct pin_audit_head *head) {
    json_t *json = json_loadb(text, size, JSON_REJECT_DUPLICATES, NULL);
    const char *hash = json_string_value(json_object_get(json, "hash"));
    bool ok = take_number(json, "seq", &head->seq) && take_number(json, "first", &head->first) &&
              take_number(json, "size", &head->size) && hash != NULL && strlen(hash) == PIN_DIGEST_TEXT - 1 &&
              strncmp(hash, "sha256:", 7) == 0;
    if (ok)
        memcpy(head->hash, hash, PIN_DIGEST_TEXT);
    json_decref(json);
    return ok;
}

bool pin_audit_head_read(int head_fd, struct pin_audit_head *head, struct pin_error *err) {
    char text[HEAD_BYTES + 1];
    ssize_t size = pread(head_fd, text, sizeof(text), 0);
    *head = (struct pin_audit_head){.first = 1, .hash = PIN_AUDIT_NO_HASH};
    if (size == 0)
        return true;
    if (size < 0)
        return pin_fail_errno(err, "read the head of the audit log");
    if (size == HEAD_BYTES && parse(text, (size_t)size, head))
        return true;
    (void)pin_fail(err, PIN_ERROR_SYNTAX, "the head of the audit log is damaged");
    return pin_hint(err, "see what 'pinfold audit verify' says, then put the log aside with its head");
}

bool pin_audit_head_write(int head_fd, const struct pin_audit_head *head, struct pin_error *err) {
    char text[HEAD_BYTES + 1];
    int length = snprintf(text, sizeof(text),
                          "{\"seq\":%" PRIu64 ",\"first\":%" PRIu64 ",\"size\":%" PRIu64 ",\"hash\":\"%s\"}",
                          head->seq, head->first, head->size, head->hash);
    memset(text + length, ' ', HEAD_BYTES - 1 - (size_t)length);
    text[HEAD_BYTES - 1] = '\n';
    ssize_t written = pwrite(head_fd, text, HEAD_BYTES, 0);
    if (written == HEAD_BYTES)
        return true;
    if (written >= 0)
        errno = ENOSPC;
    return pin_fail_errno(err, "write the head of the audit log");
}
