/* walls.h: the broker locks itself in, before it reads a byte from inside.
 *
 * It stays in the host's network namespace, which is what it is for. Everything else is taken away: other
 * descriptors, capabilities, the root's id, files (an empty root in namespaces of its own, Landlock beside
 * it), and every system call that serving sockets doesn't need.
 */
#pragma once

#include <stdint.h>

#include "base/error.h"

enum wall { /* a set: those that a host may lack; the others always stand */
            WALL_NAMESPACES = 1,
            WALL_LANDLOCK = 2,
};

/* `standing`: which of the two stand; one of them at least, or it fails. */
bool walls_raise(uint32_t *standing, struct pin_error *err);
