#include "base/error.h"

#include <assert.h>
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/names.h"

static const char *const kind_names[] = {
    [PIN_ERROR_NONE] = "none",           [PIN_ERROR_USAGE] = "usage",
    [PIN_ERROR_SYNTAX] = "syntax",       [PIN_ERROR_INVALID] = "invalid",
    [PIN_ERROR_REFUSED] = "refused",     [PIN_ERROR_UNSUPPORTED] = "unsupported",
    [PIN_ERROR_NOT_FOUND] = "not_found", [PIN_ERROR_NOT_EXECUTABLE] = "not_executable",
    [PIN_ERROR_EXISTS] = "exists",       [PIN_ERROR_BUSY] = "busy",
    [PIN_ERROR_EXHAUSTED] = "exhausted", [PIN_ERROR_SYSTEM] = "system",
    [PIN_ERROR_INTERNAL] = "internal",
};
_Static_assert(PIN_COUNT(kind_names) == PIN_ERROR_COUNT, "every kind has a name");

const char *pin_error_kind_name(enum pin_error_kind kind) {
    return (size_t)kind < PIN_ERROR_COUNT ? kind_names[kind] : "internal";
}

/* An error that is overwritten would hide the first cause, and perhaps let a failure pass for another. */
static void must_be_unset(const struct pin_error *err) {
    if (err->kind != PIN_ERROR_NONE)
        abort();
}

__attribute__((format(printf, 3, 0))) static void put(char *to, size_t room, const char *format,
                                                      va_list args) {
    if (vsnprintf(to, room, format, args) < 0)
        to[0] = '\0';
}

bool pin_fail(struct pin_error *err, enum pin_error_kind kind, const char *format, ...) {
    must_be_unset(err);
    va_list args;
    va_start(args, format);
    put(err->message, sizeof(err->message), format, args);
    va_end(args);
    err->kind = kind;
    return false;
}

static enum pin_error_kind kind_of(int os_errno) {
    switch (os_errno) {
    case ENOSPC:
    case EDQUOT:
    case ENOMEM:
    case EMFILE:
    case ENFILE:
    case EAGAIN: return PIN_ERROR_EXHAUSTED;
    case ENOENT: return PIN_ERROR_NOT_FOUND;
    case EEXIST: return PIN_ERROR_EXISTS;
    case EBUSY: return PIN_ERROR_BUSY;
    case ENOSYS: return PIN_ERROR_UNSUPPORTED;
    default: return PIN_ERROR_SYSTEM;
    }
}

bool pin_fail_errno(struct pin_error *err, const char *format, ...) {
    int cause = errno;
    must_be_unset(err);
    char context[sizeof(err->message)];
    va_list args;
    va_start(args, format);
    put(context, sizeof(context), format, args);
    va_end(args);
    const char *why = strerrordesc_np(cause);
    const char *name = strerrorname_np(cause);
    size_t tail = strlen(why != NULL ? why : "unknown error") + 24;
    size_t room = sizeof(err->message) > tail ? sizeof(err->message) - tail : 0;
    (void)snprintf(err->message, sizeof(err->message), "%.*s: %s (%s)", (int)room, context,
                   why != NULL ? why : "unknown error", name != NULL ? name : "?");
    err->os_errno = cause;
    err->kind = kind_of(cause);
    return false;
}

bool pin_wrap(struct pin_error *err, const char *format, ...) {
    if (err->kind == PIN_ERROR_NONE)
        abort(); /* a failure without a cause is a bug too */
    char context[sizeof(err->message)], cause[sizeof(err->message)];
    memcpy(cause, err->message, sizeof(cause));
    va_list args;
    va_start(args, format);
    put(context, sizeof(context), format, args);
    va_end(args);
    size_t tail = strlen(cause) + 2, length = strlen(context);
    if (tail + 1 >= sizeof(err->message))
        return false;
    if (length > sizeof(err->message) - 1 - tail)
        length = sizeof(err->message) - 1 - tail;
    memcpy(err->message, context, length);
    memcpy(err->message + length, ": ", 2);
    memcpy(err->message + length + 2, cause, tail - 1);
    return false;
}

bool pin_point(struct pin_error *err, const char *format, ...) {
    if (err->pointer[0] != '\0')
        return false;
    va_list args;
    va_start(args, format);
    put(err->pointer, sizeof(err->pointer), format, args);
    va_end(args);
    return false;
}

bool pin_hint(struct pin_error *err, const char *format, ...) {
    if (err->hint[0] != '\0')
        return false;
    va_list args;
    va_start(args, format);
    put(err->hint, sizeof(err->hint), format, args);
    va_end(args);
    return false;
}

const char *pin_error_hint(const struct pin_error *err) {
    if (err->hint[0] != '\0')
        return err->hint;
    switch (err->os_errno) {
    case EMFILE: return "raise the caller's limit of open files (ulimit -n)";
    case ENFILE: return "the host's table of open files is full: see sysctl fs.file-max";
    case EFBIG: return "raise the caller's limit of a file's size (ulimit -f)";
    case ENOSPC: return "make room where it is written to";
    case EDQUOT: return "make room within the quota, or raise it";
    case ENOMEM: return "free memory, or raise the caller's limits of it (ulimit -v, its cgroup)";
    case EROFS: return "name a place that can be written";
    default: return "";
    }
}

void pin_error_clear(struct pin_error *err) {
    memset(err, 0, sizeof(*err));
}
