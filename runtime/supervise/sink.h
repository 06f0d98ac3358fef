/* sink.h: bytes to a descriptor whose reader may be slow, without ever waiting for it.
 *
 * What can't be written at once is kept, and written when there is room; until then the sink is full, and who
 * feeds it should stop. The descriptor's own flags are never changed: it may be shared with the caller's
 * shell. A sink that is broken (its reader has gone, the disk is full) takes everything and drops it.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "runtime/supervise/loop.h"

struct pin_sink;

struct pin_sink_events { /* either may be NULL */
    void *self;
    void (*drained)(void *self);           /* it was full, and no longer is */
    void (*broken)(void *self, int error); /* once; EPIPE: the reader has gone */
};

/* Borrows the descriptor, unless `owned`. */
struct pin_sink *pin_sink_new(struct pin_loop *loop, int fd, bool owned, const struct pin_sink_events *events,
                              struct pin_error *err);
/* What is still kept is lost; NULL is fine. */
void pin_sink_free(struct pin_sink *sink);

void pin_sink_write(struct pin_sink *sink, const void *data, size_t size);
bool pin_sink_is_full(const struct pin_sink *sink);
