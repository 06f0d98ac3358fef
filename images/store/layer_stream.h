/* layer_stream.h: the entries of a layer's tar, decompressed, counted and hashed on the way.
 *
 * Exactly one compression (none, gzip or zstd), told by the first bytes. Hostile bytes: libarchive reads
 * them, and every bound below is checked here. The digest is that of the uncompressed tar, all of it, with
 * what follows its end mark: the diff id. Where nothing is compressed and the caller knows the blob's digest,
 * that is the diff id, and nothing is hashed again. What is not quite in order (a warning of libarchive's) is
 * refused.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/error.h"
#include "base/sha256.h"

struct pin_layer_limits {
    uint64_t bytes;       /* of the tar, and of all files' sizes together */
    uint64_t ratio;       /* of uncompressed to compressed bytes, … */
    uint64_t ratio_after; /* … looked at from this many uncompressed bytes on */
    uint64_t entries;
    uint64_t time_ns;
};
extern const struct pin_layer_limits pin_layer_limits_default;

struct archive_entry;
struct pin_layer_stream;

/* Reads from the descriptor's start, which stays the caller's. `digest` is that of the blob, which the caller
 * has checked, or NULL; it must outlive the stream. NULL on failure. */
struct pin_layer_stream *pin_layer_stream_open(int fd, const char *digest,
                                               const struct pin_layer_limits *limits, struct pin_error *err);
/* The next entry, valid until the call after; `*entry` is NULL at the end. */
bool pin_layer_stream_next(struct pin_layer_stream *stream, struct archive_entry **entry,
                           struct pin_error *err);
/* The next piece of the entry's data, at `*offset` of the file; `*data` is NULL at its end. */
bool pin_layer_stream_data(struct pin_layer_stream *stream, const void **data, size_t *size, off_t *offset,
                           struct pin_error *err);
/* Reads what is left and tells the digest and the size of the tar. */
bool pin_layer_stream_finish(struct pin_layer_stream *stream, char diff_id[PIN_DIGEST_TEXT], uint64_t *bytes,
                             struct pin_error *err);
uint64_t pin_layer_stream_entries(const struct pin_layer_stream *stream);
const char *pin_layer_stream_media_type(const struct pin_layer_stream *stream); /* OCI's, static */
void pin_layer_stream_close(struct pin_layer_stream *stream);
void pin_layer_stream_close_slot(struct pin_layer_stream **stream);

#define PIN_LAYER_STREAM __attribute__((cleanup(pin_layer_stream_close_slot)))
