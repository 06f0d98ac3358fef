/* deps_tree.h: a tree that an installation has made, which is hostile: measured, and made fit to be shared.
 *
 * Walked by descriptors; no link is followed and no mount entered. Nothing may run in it meanwhile, except
 * where it is only measured.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"

#define PIN_DEPS_DEPTH 64 /* directories within directories */

struct pin_deps_size {
    uint64_t bytes, entries; /* bytes as the disk counts them */
};

/* What can't be looked at isn't counted: it may be gone already. */
void pin_deps_measure(int parent, const char *name, struct pin_deps_size *size);

/* Files, directories and links become the caller's own and readable by all, and lose their set-id bits; what
 * is neither is removed. False where it is nested too deeply. */
bool pin_deps_settle(int parent, const char *name, struct pin_deps_size *size, struct pin_error *err);
