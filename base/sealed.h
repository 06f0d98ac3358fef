/* sealed.h: bytes of ours as a file that nobody can change and that has no name. */
#pragma once

#include <stddef.h>

#include "base/error.h"

/* A descriptor (close-on-exec) of a memfd with these bytes, which may be executed or loaded and never written
 * again, by whoever opens it through /proc. -1 with an error. */
int pin_sealed_program(const char *name, const void *bytes, size_t size, struct pin_error *err);
