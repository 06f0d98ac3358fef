/* scratch.h: the file systems of a kept sandbox that its calls may write to: what one has left, the next
 * doesn't find.
 *
 * Opened while nothing hostile has run yet, and emptied by descriptor, while no process of a call lives.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <sys/stat.h>

#include "base/error.h"
#include "runtime/kept/serve.h"

struct pin_scratch { /* zeroed */
    size_t count;
    struct {
        int dir;
        struct stat was; /* whose it was, and its mode: a call that changes them has marked it */
    } items[PIN_KEPT_SCRATCH_MAX];
};

/* `paths` are relative to `root`, the sandbox's; at most PIN_KEPT_SCRATCH_MAX. To be closed, whatever it
 * returns. */
bool pin_scratch_open(struct pin_scratch *scratch, int root, const char *const *paths, size_t count,
                      struct pin_error *err);

/* False where something is left, or is no longer as it was: the sandbox must then end. */
bool pin_scratch_clean(const struct pin_scratch *scratch, struct pin_error *err);

void pin_scratch_close(struct pin_scratch *scratch);
