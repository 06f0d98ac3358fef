/* collector.h: one stream out of a sandbox: its frames taken out, its text counted, cut and sent on.
 *
 * Over its limit the text is cut: the rest is still read and counted, and dropped. A full outlet stops the
 * reading, and thereby, once the pipe is full, the writer. A stream that runs hot gets a larger pipe. However
 * much is written, memory stays as it is, but for what an outlet captures.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "runtime/supervise/frames.h"
#include "runtime/supervise/loop.h"
#include "runtime/supervise/outlet.h"

struct pin_mask;

struct pin_collector;

struct pin_collector_options {
    int fd; /* our end; owned from here on, also on failure */
    uint64_t limit_bytes;
    struct pin_outlet *outlet;              /* NULL: text is only counted */
    struct pin_text *record;                /* total_bytes and truncated are kept here */
    const struct pin_frame_options *frames; /* NULL: all is text */
    const struct pin_mask *mask;            /* what is taken out of the text; NULL: nothing */
    void *self;
    void (*on_frame)(void *self, const struct pin_frame_info *info, const uint8_t *payload);
    void (*on_cut)(void *self); /* at the first byte over the limit; may be NULL */
    void (*on_end)(void *self); /* end of file, or stopped; may be NULL */
};

struct pin_collector *pin_collector_new(struct pin_loop *loop, const struct pin_collector_options *options,
                                        struct pin_error *err);
void pin_collector_free(struct pin_collector *collector);

/* From here on this is taken out of its text, of which none has come. */
bool pin_collector_mask(struct pin_collector *collector, const struct pin_mask *mask);
/* Some outlet has room again: goes on where it is this collector's. */
void pin_collector_resume(struct pin_collector *collector);
/* Nobody wants the text any more: closes our end, so that the writer finds a broken pipe. */
void pin_collector_stop(struct pin_collector *collector);
bool pin_collector_has_ended(const struct pin_collector *collector);
/* No process can write any more: true when nothing is left in the pipe and the collector may be stopped. Ask
 * after a step of the loop in which it made no progress. */
bool pin_collector_is_dry(const struct pin_collector *collector);
uint64_t pin_collector_progress(const struct pin_collector *collector);
