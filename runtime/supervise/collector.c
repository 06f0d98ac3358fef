#include "runtime/supervise/collector.h"

#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>

#include "base/cleanup.h"
#include "runtime/secrets/mask.h"

#define HOT_BYTES ((size_t)16 * 1024) /* in one read: this stream is worth a larger pipe */

struct pin_collector {
    struct pin_collector_options options;
    struct pin_source *source;
    struct pin_frame_parser *parser;
    struct pin_mask_stream *masking; /* of what an outlet gets */
    uint64_t kept, seen;
    bool grown, paused;
    bool busy, stopping; /* stopped from within its own callbacks: done when they are over */
};

/* Powers of two that fcntl(2) may refuse when the user has many large pipes: pipe(7), pipe-user-pages-soft.
 */
static void grow_pipe(int fd) {
    static const int sizes[] = {1024 * 1024, 512 * 1024, 256 * 1024, 128 * 1024};
    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++)
        if (fcntl(fd, F_SETPIPE_SZ, sizes[i]) >= 0)
            return;
}

static void cut(struct pin_collector *collector) {
    if (collector->options.record->truncated)
        return;
    collector->options.record->truncated = true;
    if (collector->options.on_cut != NULL)
        collector->options.on_cut(collector->options.self);
}

/* Masked already, so that a cut never leaves the start of a secret. */
static void send_on(void *self, const uint8_t *data, size_t size) {
    struct pin_collector *collector = self;
    const struct pin_collector_options *options = &collector->options;
    uint64_t room = options->record->truncated ? 0 : options->limit_bytes - collector->kept;
    size_t taken = size < room ? size : (size_t)room;
    collector->kept += taken;
    bool whole = taken == size;
    if (taken > 0 && !pin_outlet_write(options->outlet, data, taken))
        whole = false;
    if (!whole)
        cut(collector);
}

static void on_text(void *self, const uint8_t *data, size_t size) {
    struct pin_collector *collector = self;
    collector->options.record->total_bytes += size;
    if (collector->options.outlet == NULL)
        return;
    if (collector->masking != NULL)
        pin_mask_stream_feed(collector->masking, data, size);
    else
        send_on(collector, data, size);
}

static void on_frame(void *self, const struct pin_frame_info *info, const uint8_t *payload) {
    const struct pin_collector *collector = self;
    collector->options.on_frame(collector->options.self, info, payload);
}

static void end(struct pin_collector *collector) {
    if (collector->options.fd < 0)
        return;
    pin_source_remove(&collector->source);
    pin_close_fd(&collector->options.fd);
    if (collector->parser != NULL)
        pin_frame_parser_end(collector->parser);
    if (collector->masking != NULL)
        pin_mask_stream_end(collector->masking);
    if (collector->options.outlet != NULL)
        pin_outlet_end(collector->options.outlet);
    if (collector->options.on_end != NULL)
        collector->options.on_end(collector->options.self);
}

static void on_bytes(void *self, const uint8_t *data, size_t size, int error) {
    struct pin_collector *collector = self;
    (void)error; /* EIO is how a terminal says that nobody is left; any other error ends the stream as well */
    if (size == 0) {
        end(collector);
        return;
    }
    collector->seen += size;
    if (size >= HOT_BYTES && !collector->grown) {
        collector->grown = true;
        grow_pipe(collector->options.fd);
    }
    collector->busy = true;
    if (collector->parser != NULL)
        pin_frame_parser_feed(collector->parser, data, size);
    else
        on_text(collector, data, size);
    collector->busy = false;
    if (collector->stopping) {
        end(collector);
    } else if (collector->options.outlet != NULL && pin_outlet_is_full(collector->options.outlet)) {
        collector->paused = true;
        pin_source_pause(collector->source);
    }
}

bool pin_collector_mask(struct pin_collector *collector, const struct pin_mask *mask) {
    const struct pin_mask_sink masked = {collector, send_on};
    collector->options.mask = mask;
    collector->masking = pin_mask_stream_new(mask, &masked);
    if (collector->source != NULL) /* it hasn't ended */
        pin_source_wipe(collector->source);
    return collector->masking != NULL;
}

static struct pin_collector *fail(struct pin_collector *collector, struct pin_error *err) {
    if (!pin_is_set(err))
        (void)pin_fail_errno(err, "collect output");
    pin_collector_free(collector);
    return NULL;
}

struct pin_collector *pin_collector_new(struct pin_loop *loop, const struct pin_collector_options *options,
                                        struct pin_error *err) {
    struct pin_collector *collector = calloc(1, sizeof(*collector));
    if (collector == NULL) {
        int fd = options->fd;
        (void)pin_fail_errno(err, "collect output");
        pin_close_fd(&fd);
        return NULL;
    }
    const struct pin_frame_sink sink = {collector, on_text, on_frame};
    collector->options = *options;
    if (options->frames != NULL && (collector->parser = pin_frame_parser_new(options->frames, &sink)) == NULL)
        return fail(collector, err);
    collector->source = pin_loop_read(loop, options->fd, on_bytes, collector, err);
    if (collector->source == NULL || (options->mask != NULL && !pin_collector_mask(collector, options->mask)))
        return fail(collector, err);
    return collector;
}

void pin_collector_free(struct pin_collector *collector) {
    if (collector == NULL)
        return;
    pin_source_remove(&collector->source);
    pin_close_fd(&collector->options.fd);
    pin_frame_parser_free(collector->parser);
    pin_mask_stream_free(collector->masking);
    free(collector);
}

void pin_collector_resume(struct pin_collector *collector) {
    const struct pin_outlet *outlet = collector->options.outlet;
    if (!collector->paused || collector->source == NULL || (outlet != NULL && pin_outlet_is_full(outlet)))
        return;
    collector->paused = false;
    pin_source_resume(collector->source);
}

void pin_collector_stop(struct pin_collector *collector) {
    if (collector->busy)
        collector->stopping = true;
    else
        end(collector);
}

bool pin_collector_has_ended(const struct pin_collector *collector) {
    return collector->options.fd < 0;
}

bool pin_collector_is_dry(const struct pin_collector *collector) {
    struct pollfd state = {.fd = collector->options.fd, .events = POLLIN};
    return !collector->paused && poll(&state, 1, 0) == 0;
}

uint64_t pin_collector_progress(const struct pin_collector *collector) {
    return collector->seen;
}
