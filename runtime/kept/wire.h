/* wire.h: the messages of a kept sandbox's control socket: a length (u32, big endian) and that many bytes of
 * JSON.
 *
 * The reader takes bytes as they come and never more room than has come, twice over; it says how many bytes
 * it wants next, so that a read never goes past a message's end and descriptors stay with their message.
 * Source: docs/kept.md.
 */
#pragma once

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"

#define PIN_WIRE_VERSION 1
#define PIN_WIRE_HEAD ((size_t)4)
#define PIN_WIRE_REQUEST_MAX ((size_t)4 * 1024 * 1024) /* from a client */
#define PIN_WIRE_REPLY_MAX                                                                                   \
    ((size_t)3 * 1024 * 1024 * 1024) /* from a supervisor: it may hold captured output */

struct pin_wire { /* zeroed but for `limit` at first */
    size_t limit; /* of a message's length */
    uint8_t *bytes;
    size_t size, room;
};

void pin_wire_free(struct pin_wire *wire);

/* Where the next bytes belong, and how many may be put there: never 0. NULL when memory is out. */
uint8_t *pin_wire_room(struct pin_wire *wire, size_t *room);
/* `size` bytes have been put there. False when what has come is no message: an error of kind SYNTAX. */
bool pin_wire_put(struct pin_wire *wire, size_t size, struct pin_error *err);
/* Whether a message is whole; its JSON is then *text, until pin_wire_next(). */
bool pin_wire_is_whole(const struct pin_wire *wire, const char **text, size_t *size);
/* Makes ready for the next message. */
void pin_wire_next(struct pin_wire *wire);

/* A message, head and all, for the caller to free; takes `json` over. NULL when memory is out. */
uint8_t *pin_wire_print(json_t *json, size_t *size);
