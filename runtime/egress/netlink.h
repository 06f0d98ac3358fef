/* netlink.h: netlink requests packed into one buffer on the stack, and their answers.
 *
 * libmnl does the same and more, but is had as a shared library only (Debian has no archive of it), and the
 * program that runs this between clone and exec is linked statically, with another C library. A buffer that
 * is too small is remembered, and sending it fails. Source: netlink(7).
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"

#define PIN_NETLINK_ROOM 8192

struct pin_netlink {
    uint32_t sequence;
    size_t used, message; /* `message`: where the last one begins */
    bool full;
    _Alignas(8) uint8_t data[PIN_NETLINK_ROOM];
};

/* Begins a message with its fixed header of `size` bytes (NULL: zeros). */
void pin_netlink_begin(struct pin_netlink *batch, uint16_t type, uint16_t flags, const void *header,
                       size_t size);
void pin_netlink_put(struct pin_netlink *batch, uint16_t type, const void *data, size_t size);
void pin_netlink_put_text(struct pin_netlink *batch, uint16_t type, const char *text); /* with its zero */
void pin_netlink_put_be32(struct pin_netlink *batch, uint16_t type, uint32_t value);
/* A nested attribute from open to close; the place is what open returned. */
size_t pin_netlink_open(struct pin_netlink *batch, uint16_t type);
void pin_netlink_close(struct pin_netlink *batch, size_t place);

/* Sends the batch and waits for `answers` acknowledgements; the first error ends it. `what` names the step.
 */
bool pin_netlink_talk(int socket, const struct pin_netlink *batch, unsigned answers, const char *what,
                      struct pin_error *err);
