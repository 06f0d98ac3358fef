/* stream.h: the JSON lines of --stream: the facts of a result while they happen.
 *
 * Each line is one object: "type", "seq" (from 1, without gaps), "t_ms" (since the start), then what the type
 * says: stdout and stderr {"encoding", "data"}, frame and progress {as in a result's "frames", "payload"},
 * limit {"limit", "bytes" or "ms"}, exit {a result without "stdout" and "stderr"}. Text is never cut inside a
 * UTF-8 sequence; what is not UTF-8 comes as base64. The caller owns the stream and its descriptor.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <jansson.h>

#include "base/error.h"
#include "runtime/supervise/result.h"

struct pin_sink;

struct pin_stream {
    int fd;
    uint64_t started_ns; /* CLOCK_MONOTONIC; 0: set by the first event */
    uint64_t seq;
    struct pin_sink *sink; /* set while pin_supervise() runs: lines then wait for a slow reader there */
};

/* Writes {"type": type, "seq", "t_ms", …fields}; takes `fields` (an object or NULL) over. */
bool pin_stream_event(struct pin_stream *stream, const char *type, json_t *fields, struct pin_error *err);

/* The bytes as one event of type "stdout" or "stderr". */
bool pin_stream_text(struct pin_stream *stream, const char *type, const uint8_t *data, size_t size,
                     struct pin_error *err);

/* The last line. */
bool pin_stream_exit(struct pin_stream *stream, const struct pin_result *result, struct pin_error *err);
