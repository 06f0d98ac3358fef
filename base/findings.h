/* findings.h: a bounded list of errors, for validators that name every fault at once.
 *
 * The list lies on the caller's stack or heap, zeroed. What doesn't fit is counted, never forgotten silently.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "base/error.h"

#define PIN_FINDINGS_MAX 64

struct pin_findings {
    size_t count;   /* in `list` */
    size_t dropped; /* found beyond the room of the list */
    struct pin_error list[PIN_FINDINGS_MAX];
};

/* Appends a finding, with its place and its mend (either may be NULL); returns it, or NULL where there was no
 * room. */
struct pin_error *pin_find(struct pin_findings *found, enum pin_error_kind kind, const char *pointer,
                           const char *hint, const char *format, ...) __attribute__((format(printf, 5, 6)));

/* Appends a copy of an error that is set. */
void pin_find_error(struct pin_findings *found, const struct pin_error *err);

/* Puts context in front of those from `first` on. */
void pin_wrap_findings(struct pin_findings *found, size_t first, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

static inline bool pin_found_any(const struct pin_findings *found) {
    return found->count + found->dropped > 0;
}

/* Turns the first finding into `err`, with the number of the others in its message; returns false. */
bool pin_fail_findings(struct pin_error *err, const struct pin_findings *found);
