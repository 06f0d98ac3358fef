/* outlet.h: where the text of one stream goes: to a descriptor, into memory, or out as JSON lines.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "runtime/supervise/result.h"
#include "runtime/supervise/sink.h"
#include "runtime/supervise/stream.h"

#define PIN_CAPTURE_MAX (UINT64_C(1) << 30) /* in memory, whatever the policy says */

enum pin_output {
    PIN_OUTPUT_PASS,    /* to the caller's descriptors as it comes */
    PIN_OUTPUT_CAPTURE, /* into the result */
    PIN_OUTPUT_STREAM,  /* JSON lines, see stream.h */
    PIN_OUTPUT_COUNT
};

struct pin_outlet {
    enum pin_output kind;
    struct pin_sink *sink;     /* PASS, STREAM; borrowed */
    struct pin_text *text;     /* CAPTURE; the bytes are the text's */
    struct pin_stream *stream; /* STREAM */
    const char *type;          /* STREAM: "stdout" or "stderr" */
    uint8_t held[3];           /* STREAM: the start of a UTF-8 sequence that isn't whole yet */
    size_t held_size;
    size_t room;                                               /* CAPTURE: of text->data */
    void (*tap)(void *self, const uint8_t *data, size_t size); /* sees the same bytes, first; NULL: nobody */
    void *tap_self;
};

/* False when memory is out: the text is then cut here. */
bool pin_outlet_write(struct pin_outlet *outlet, const uint8_t *data, size_t size);
bool pin_outlet_is_full(const struct pin_outlet *outlet);
/* No more text comes. */
void pin_outlet_end(struct pin_outlet *outlet);
