#include "runtime/audit/lines.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "runtime/audit/record.h"

struct pin_audit_lines {
    int fd;
    uint64_t offset, limit; /* in the file */
    size_t at, end;         /* in `bytes` */
    bool ended;
    char bytes[PIN_AUDIT_LINE_MAX];
};

struct pin_audit_lines *pin_audit_lines_new(int fd, uint64_t limit) {
    struct pin_audit_lines *lines = malloc(sizeof(*lines));
    if (lines == NULL)
        return NULL;
    lines->fd = fd;
    lines->offset = 0;
    lines->limit = limit;
    lines->at = lines->end = 0;
    lines->ended = false;
    return lines;
}

void pin_audit_lines_free(struct pin_audit_lines *lines) {
    free(lines);
}

static bool fill(struct pin_audit_lines *lines, struct pin_error *err) {
    memmove(lines->bytes, lines->bytes + lines->at, lines->end - lines->at);
    lines->end -= lines->at;
    lines->at = 0;
    size_t room = sizeof(lines->bytes) - lines->end;
    uint64_t left = lines->limit - lines->offset;
    ssize_t got =
        pread(lines->fd, lines->bytes + lines->end, left < room ? (size_t)left : room, (off_t)lines->offset);
    if (got < 0)
        return pin_fail_errno(err, "read the audit log");
    lines->ended = got == 0;
    lines->offset += (uint64_t)got;
    lines->end += (size_t)got;
    return true;
}

/* Drops bytes until a line ends. */
static bool skip(struct pin_audit_lines *lines, struct pin_error *err) {
    for (;;) {
        const char *from = lines->bytes + lines->at;
        const char *stop = memchr(from, '\n', lines->end - lines->at);
        lines->at = stop != NULL ? (size_t)(stop - lines->bytes) + 1 : lines->end;
        if (stop != NULL || lines->ended)
            return true;
        if (!fill(lines, err))
            return false;
    }
}

enum pin_audit_line pin_audit_lines_next(struct pin_audit_lines *lines, const char **line, size_t *size,
                                         struct pin_error *err) {
    for (;;) {
        const char *from = lines->bytes + lines->at;
        size_t left = lines->end - lines->at;
        const char *stop = memchr(from, '\n', left);
        *line = from;
        *size = stop != NULL ? (size_t)(stop - from) : left;
        if (stop != NULL) {
            lines->at += *size + 1;
            return PIN_AUDIT_LINE_WHOLE;
        }
        if (left == sizeof(lines->bytes)) {
            *size = 0; /* the bytes go while the rest is skipped */
            return skip(lines, err) ? PIN_AUDIT_LINE_TOO_LONG : PIN_AUDIT_LINE_FAILED;
        }
        if (lines->ended) {
            lines->at = lines->end;
            return left > 0 ? PIN_AUDIT_LINE_TORN : PIN_AUDIT_LINE_END;
        }
        if (!fill(lines, err))
            return PIN_AUDIT_LINE_FAILED;
    }
}
