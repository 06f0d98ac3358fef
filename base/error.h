/* error.h: an error carries its cause, its place and its mend.
 *
 * A struct pin_error lies on the caller's stack, zeroed; it allocates nothing and fits one atomic pipe write,
 * so that a child can send it to its parent as it is. Functions that fail fill it through pin_fail() or
 * pin_fail_errno() and return false (or -1); callers put context in front with pin_wrap(). Writing over an
 * error that is already set is a bug and aborts. Library code never prints and never exits: tools/ turns an
 * error into a line or JSON. Texts are lower case, without a full stop, values in quotes.
 */
#pragma once

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>

enum pin_error_kind {
    PIN_ERROR_NONE,
    PIN_ERROR_USAGE,       /* the command line is wrong */
    PIN_ERROR_SYNTAX,      /* a file is not what its format says */
    PIN_ERROR_INVALID,     /* a value that its field can't have */
    PIN_ERROR_REFUSED,     /* the policy doesn't grant it */
    PIN_ERROR_UNSUPPORTED, /* this host, or this version, can't do it */
    PIN_ERROR_NOT_FOUND,   /* no such file, sandbox, image, policy */
    PIN_ERROR_NOT_EXECUTABLE,
    PIN_ERROR_EXISTS,
    PIN_ERROR_BUSY,      /* somebody else holds it */
    PIN_ERROR_EXHAUSTED, /* no room: memory, disk, descriptors, ids */
    PIN_ERROR_SYSTEM,    /* a system call failed */
    PIN_ERROR_INTERNAL,
    PIN_ERROR_COUNT
};

struct pin_error {
    enum pin_error_kind kind; /* what a program may branch on */
    int os_errno;             /* of the cause; 0 when no system call failed */
    char pointer[128];        /* "policy.json:3:7 /network/egress/2/cidr", or a path: where to look */
    char message[320];        /* "context: context: cause", for a person */
    char hint[160];           /* what to change; "": see pin_error_hint() */
};
_Static_assert(sizeof(struct pin_error) <= PIPE_BUF, "an error is one atomic write");

/* The name of a kind as JSON has it: "usage", "syntax", … */
const char *pin_error_kind_name(enum pin_error_kind kind);

/* Sets the error; returns false, so that `return pin_fail(…)` reads well. */
bool pin_fail(struct pin_error *err, enum pin_error_kind kind, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* As pin_fail(), with errno as the cause: its text ends the message, and it chooses the kind. */
bool pin_fail_errno(struct pin_error *err, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Puts context in front of an error that is set; returns false. Where room runs out, context is cut, not the
 * cause. */
bool pin_wrap(struct pin_error *err, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Say where, and how to mend it; only the first says counts. Both return false. */
bool pin_point(struct pin_error *err, const char *format, ...) __attribute__((format(printf, 2, 3)));
bool pin_hint(struct pin_error *err, const char *format, ...) __attribute__((format(printf, 2, 3)));

static inline bool pin_is_set(const struct pin_error *err) {
    return err->kind != PIN_ERROR_NONE;
}

/* The hint, or where nobody gave one what mends the cause in general; "" when we can't know. */
const char *pin_error_hint(const struct pin_error *err);

/* Forgets the error: for a caller that has another way to go on. */
void pin_error_clear(struct pin_error *err);
