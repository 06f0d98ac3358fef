/* layer_pipe.h: bytes that are read ahead and hashed while they are used: a blob's while it is copied, a
 * layer's while it is unpacked.
 *
 * Three threads share a ring of buffers: one fills it from a source (a file, a decompressor), one hashes
 * (where a digest is wanted), and the caller takes the pieces in order. A buffer is filled again only when
 * both have let go of it, so that memory is bounded whatever the source gives. Everything but the source
 * function runs in the caller's thread.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "base/sha256.h"

#define PIN_LAYER_PIPE_PIECE ((size_t)128 * 1024) /* bytes, at most */

struct pin_layer_piece {
    const void *data; /* valid until the next one is taken */
    size_t size;      /* 0: the end */
    uint64_t taken;   /* bytes that the source had read for all up to this one; 0 at the end */
};

/* Called in a thread of its own, one call after another: at most `room` bytes to `to`; 0 at the end, -1 with
 * the error. `*taken` counts what it has read so far. */
typedef ptrdiff_t pin_layer_source(void *context, void *to, size_t room, uint64_t *taken,
                                   struct pin_error *err);

struct pin_layer_pipe;

/* The context stays the caller's, and is the source's alone until the pipe is closed. NULL on failure. */
struct pin_layer_pipe *pin_layer_pipe_open(pin_layer_source *source, void *context, bool hashed,
                                           struct pin_error *err);
/* The next piece; the last one has no bytes, and so has every one after it. */
bool pin_layer_pipe_take(struct pin_layer_pipe *pipe, struct pin_layer_piece *piece, struct pin_error *err);
/* After the last piece: the digest of all, by a pipe that hashes. */
void pin_layer_pipe_digest(struct pin_layer_pipe *pipe, char digest[PIN_DIGEST_TEXT]);
/* Ends the threads, wherever they are. */
void pin_layer_pipe_close(struct pin_layer_pipe *pipe);
void pin_layer_pipe_close_slot(struct pin_layer_pipe **pipe);

#define PIN_LAYER_PIPE __attribute__((cleanup(pin_layer_pipe_close_slot)))
