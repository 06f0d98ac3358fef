/* frames.h: takes frames out of a stream of bytes, and leaves every other byte as it was.
 *
 * Incremental (a marker may be split anywhere), bounded (by the limit given) and total: any bytes yield text,
 * frames and verdicts, and text + frames = input, in order. What looks like a frame and isn't one (its check
 * sum is wrong, it is too long, the stream ends in it) is text, with a verdict that says so. Formats:
 * docs/frames.md. Only our own bytes decide what is a frame's end: a payload may hold markers.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define PIN_FRAME_MARKER_SIZE 16
#define PIN_FRAME_VERSION 1
#define PIN_FRAME_LIMIT_MAX (UINT64_C(1) << 30)

enum pin_frame_format { PIN_FRAME_LETTA, PIN_FRAME_PINFOLD, PIN_FRAME_FORMAT_COUNT };

enum pin_frame_kind { /* as on the wire; a Letta frame is a RESULT */
                      PIN_FRAME_RESULT = 1,
                      PIN_FRAME_AGENT_STATE,
                      PIN_FRAME_PROGRESS,
                      PIN_FRAME_LOG,
                      PIN_FRAME_ARTIFACT,
                      PIN_FRAME_KIND_COUNT
};
const char *pin_frame_kind_name(enum pin_frame_kind kind); /* "result", "agent_state", … */

enum pin_frame_verdict {
    PIN_FRAME_WHOLE,
    PIN_FRAME_TORN,      /* the stream ended inside it */
    PIN_FRAME_CORRUPT,   /* the check sum is wrong, or a field has no such value */
    PIN_FRAME_OVERSIZED, /* longer than the limit */
    PIN_FRAME_DUPLICATE, /* a whole result after the first one */
    PIN_FRAME_VERDICT_COUNT
};
const char *pin_frame_verdict_name(enum pin_frame_verdict verdict);

struct pin_frame_info {
    enum pin_frame_format format;
    enum pin_frame_verdict verdict;
    enum pin_frame_kind kind; /* 0 where the header says none that we know */
    uint16_t flags;
    uint32_t length; /* of the payload, as the header says; 0 where the header is incomplete */
    uint64_t offset; /* in the stream, of the marker's first byte */
};

/* Pieces come in the order of the stream. Pointers are good until the callback returns. */
struct pin_frame_sink {
    void *self;
    void (*text)(void *self, const uint8_t *data, size_t size);
    /* `payload` is `info->length` bytes when the verdict is WHOLE, else NULL: the bytes come as text */
    void (*frame)(void *self, const struct pin_frame_info *info, const uint8_t *payload);
};

struct pin_frame_options {
    bool letta, pinfold;                  /* what to look for */
    uint8_t nonce[PIN_FRAME_MARKER_SIZE]; /* of pinfold frames */
    uint64_t limit_bytes;                 /* of a payload */
    bool *result_seen;                    /* shared by all streams of a run: a run has one result; not NULL */
};

struct pin_frame_parser;

/* NULL when memory is out. */
struct pin_frame_parser *pin_frame_parser_new(const struct pin_frame_options *options,
                                              const struct pin_frame_sink *sink);
void pin_frame_parser_free(struct pin_frame_parser *parser);
void pin_frame_parser_feed(struct pin_frame_parser *parser, const uint8_t *data, size_t size);
/* The stream has ended: what was held back comes out. */
void pin_frame_parser_end(struct pin_frame_parser *parser);

extern const uint8_t pin_letta_marker[PIN_FRAME_MARKER_SIZE];
