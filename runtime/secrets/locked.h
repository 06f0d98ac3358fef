/* locked.h: memory for secrets: never in swap, never in a core dump, wiped when it is released.
 *
 * A process that may lock without a limit (CAP_IPC_LOCK, or RLIMIT_MEMLOCK unlimited) locks all that it
 * touches from its first secret on: what it does with the value, output that holds it included, stays out of
 * swap too.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "base/error.h"

/* Whether this process may lock all its memory. */
bool pin_locked_has_no_limit(void);

struct pin_locked { /* zeroed: none */
    uint8_t *bytes; /* zeroed at first */
    size_t size, mapped;
};

bool pin_locked_alloc(struct pin_locked *memory, size_t size, struct pin_error *err);
/* NULL and none are fine. */
void pin_locked_free(struct pin_locked *memory);
