/* mask.h: takes secrets out of output.
 *
 * Each run of bytes that is a secret's value, whole, becomes "***", wherever chunks end; so does the value as
 * it stands in JSON text, and with the line ends of a terminal. What a program encodes or prints in pieces is
 * not found: docs/secrets.md. A stream holds back only what may be the start of a value.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "runtime/secrets/secrets.h"

struct pin_mask; /* may be shared by streams; nothing in it changes */

/* NULL with an error when memory is out. */
struct pin_mask *pin_mask_new(const struct pin_secrets *secrets, struct pin_error *err);
void pin_mask_free(struct pin_mask *mask);

struct pin_mask_stream;

struct pin_mask_sink {
    void *self;
    void (*text)(void *self, const uint8_t *data, size_t size);
};

/* NULL when memory is out. */
struct pin_mask_stream *pin_mask_stream_new(const struct pin_mask *mask, const struct pin_mask_sink *sink);
void pin_mask_stream_free(struct pin_mask_stream *stream);
void pin_mask_stream_feed(struct pin_mask_stream *stream, const uint8_t *data, size_t size);
/* The stream has ended: what was held back comes out. */
void pin_mask_stream_end(struct pin_mask_stream *stream);

/* The bytes, masked; the caller frees them. NULL when memory is out. */
uint8_t *pin_mask_bytes(const struct pin_mask *mask, const uint8_t *data, size_t size, size_t *masked_size);

/* The texts of an error, in place: a caller may have written a value where the error quotes it. NULL: no
 * mask. */
void pin_mask_error(const struct pin_mask *mask, struct pin_error *err);
