#include "runtime/supervise/pump.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "runtime/supervise/sink.h"

struct pin_pump {
    struct pin_loop *loop;
    int from;
    struct pin_source *source;
    struct pin_sink *sink;
    struct pin_pump_events events;
    const char *at_end;
    bool in_line; /* the last byte ended none, as a terminal counts lines */
    bool ended;
};

static void close_when_drained(struct pin_pump *pump) {
    if (!pump->ended || pump->at_end != NULL || pump->sink == NULL || pin_sink_is_full(pump->sink))
        return;
    pin_sink_free(pump->sink);
    pump->sink = NULL;
}

static void lose(struct pin_pump *pump, const char *what, int error) {
    struct pin_error why = {0};
    errno = error;
    (void)pin_fail_errno(&why, "%s", what);
    pump->events.lost(pump->events.self, &why);
}

static bool is_end(const struct pin_pump *pump, int error) {
    return error == 0 || error == EBADF || (error == EIO && isatty(pump->from));
}

static void on_bytes(void *self, const uint8_t *data, size_t size, int error) {
    struct pin_pump *pump = self;
    if (size == 0 && !is_end(pump, error)) {
        pin_source_remove(&pump->source);
        lose(pump, "read the command's input", error);
        return;
    }
    if (size > 0) {
        pump->in_line = strchr("\n\r\x04", data[size - 1]) == NULL || data[size - 1] == '\0';
        pin_sink_write(pump->sink, data, size);
        if (pin_sink_is_full(pump->sink))
            pin_source_pause(pump->source);
        return;
    }
    pump->ended = true;
    pin_source_remove(&pump->source);
    if (pump->at_end != NULL &&
        pump->in_line) /* there the first one only hands on what there is of the line */
        pin_sink_write(pump->sink, pump->at_end, strlen(pump->at_end));
    if (pump->at_end != NULL)
        pin_sink_write(pump->sink, pump->at_end, strlen(pump->at_end));
    close_when_drained(pump);
}

static void on_ready(void *self, unsigned events) {
    struct pin_pump *pump = self;
    struct pin_error err = {0};
    (void)events;
    pin_source_remove(&pump->source);
    pump->source = pin_loop_read(pump->loop, pump->from, on_bytes, pump, &err);
    if (pump->source == NULL)
        on_bytes(pump, NULL, 0, err.os_errno);
}

/* A fifo that nobody has opened for writing yet reads as one that everybody has closed; poll(2) knows. */
static struct pin_source *start_reading(struct pin_pump *pump, struct pin_error *err) {
    struct stat facts;
    return fstat(pump->from, &facts) == 0 && S_ISFIFO(facts.st_mode)
               ? pin_loop_watch(pump->loop, pump->from, POLLIN, on_ready, pump, err)
               : pin_loop_read(pump->loop, pump->from, on_bytes, pump, err);
}

static void on_drained(void *self) {
    struct pin_pump *pump = self;
    if (pump->source != NULL)
        pin_source_resume(pump->source);
    close_when_drained(pump);
}

static void on_broken(void *self, int error) {
    struct pin_pump *pump = self;
    bool closed = error == EPIPE || (error == EIO && pump->at_end != NULL); /* by the command: its right */
    if (pump->source != NULL)
        pin_source_pause(pump->source);
    if (!closed)
        lose(pump, "hand on the command's input", error);
}

struct pin_pump *pin_pump_new(struct pin_loop *loop, int from, int to, const char *at_end,
                              const struct pin_pump_events *events, struct pin_error *err) {
    PIN_CLOSE int target = to;
    struct pin_pump *pump = calloc(1, sizeof(*pump));
    if (pump == NULL) {
        (void)pin_fail_errno(err, "prepare input");
        return NULL;
    }
    const struct pin_sink_events taken = {pump, on_drained, on_broken};
    pump->events = *events;
    pump->loop = loop;
    pump->from = from;
    pump->at_end = at_end;
    pump->sink = pin_sink_new(loop, target, true, &taken, err);
    if (pump->sink != NULL) {
        (void)pin_steal_fd(&target);
        pump->source = start_reading(pump, err);
    }
    if (pump->source != NULL)
        return pump;
    pin_pump_free(pump);
    return NULL;
}

bool pin_pump_has_ended(const struct pin_pump *pump) {
    return pump->ended && (pump->sink == NULL || !pin_sink_is_full(pump->sink));
}

void pin_pump_free(struct pin_pump *pump) {
    if (pump == NULL)
        return;
    pin_source_remove(&pump->source);
    pin_sink_free(pump->sink);
    free(pump);
}
