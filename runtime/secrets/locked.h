/* locked.h: memory for secrets: never in swap, never in a core dump, wiped when it is released.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "base/error.h"

struct pin_locked { /* zeroed: none */
    uint8_t *bytes; /* zeroed at first */
    size_t size, mapped;
};

bool pin_locked_alloc(struct pin_locked *memory, size_t size, struct pin_error *err);
/* NULL and none are fine. */
void pin_locked_free(struct pin_locked *memory);
