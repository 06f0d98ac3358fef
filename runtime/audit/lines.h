/* lines.h: the lines of a log file, one after the other, in bounded memory.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"

enum pin_audit_line {
    PIN_AUDIT_LINE_WHOLE,
    PIN_AUDIT_LINE_TOO_LONG, /* longer than PIN_AUDIT_LINE_MAX: its start; the rest is skipped */
    PIN_AUDIT_LINE_TORN,     /* the file ends in it */
    PIN_AUDIT_LINE_END,      /* there is none */
    PIN_AUDIT_LINE_FAILED,   /* it couldn't be read; the error is set */
};

struct pin_audit_lines;

/* Borrows the descriptor; reads at most `limit` bytes from its start. NULL when memory is out. */
struct pin_audit_lines *pin_audit_lines_new(int fd, uint64_t limit);
void pin_audit_lines_free(struct pin_audit_lines *lines);

/* The next line, without its end; good until the next call. */
enum pin_audit_line pin_audit_lines_next(struct pin_audit_lines *lines, const char **line, size_t *size,
                                         struct pin_error *err);
