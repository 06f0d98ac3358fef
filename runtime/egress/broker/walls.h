/* walls.h: the broker locks itself in, before it reads a byte from inside.
 *
 * It stays in the host's network namespace, which is what it is for. Everything else is taken away: other
 * descriptors, capabilities, the root's id, files (an empty root in namespaces of its own, Landlock beside
 * it), and every system call that serving sockets doesn't need.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "base/error.h"

enum wall { /* a set: those that a host may lack; the others always stand */
            WALL_NAMESPACES = 1,
            WALL_LANDLOCK = 2,
};

struct walls_joined {
    const uint16_t *ports;
    size_t count;
};

/* Root becomes nobody; not a word to anybody else. */
bool walls_leave_root(struct pin_error *err);

/* `joined`, or NULL: the ports that a process may connect to which is in the sandbox's namespaces. It stays
 * in that user namespace, where no other can be made. The ports are held where the kernel can (Landlock from
 * Linux 6.7 on): the sockets that it accepts belong to the host's network, and must not be turned around.
 * `standing`: which of the two stand; one of them at least, or it fails. */
bool walls_raise(const struct walls_joined *joined, uint32_t *standing, struct pin_error *err);
