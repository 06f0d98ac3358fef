#include "runtime/supervise/stream.h"

#include <string.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/io.h"
#include "base/units.h"
#include "runtime/supervise/loop.h"
#include "runtime/supervise/sink.h"

static bool print_line(struct pin_stream *stream, const json_t *line, struct pin_error *err) {
    if (stream->sink == NULL)
        return pin_json_print(stream->fd, line, err);
    PIN_FREE char *text = json_dumps(line, JSON_COMPACT | JSON_ENSURE_ASCII);
    if (text == NULL)
        return pin_fail(err, PIN_ERROR_EXHAUSTED, "no memory to print an event");
    size_t size = strlen(text);
    text[size] = '\n';
    pin_sink_write(stream->sink, text, size + 1);
    return true;
}

bool pin_stream_event(struct pin_stream *stream, const char *type, json_t *fields, struct pin_error *err) {
    uint64_t now = pin_now_ns();
    if (stream->started_ns == 0)
        stream->started_ns = now;
    uint64_t elapsed_ms = (now - stream->started_ns) / PIN_NS_PER_MS;
    json_t *line = json_pack("{s:s, s:I, s:I}", "type", type, "seq", (json_int_t)stream->seq + 1, "t_ms",
                             (json_int_t)elapsed_ms);
    bool made = line != NULL && (fields == NULL || json_object_update(line, fields) == 0);
    json_decref(fields);
    if (made)
        stream->seq++;
    bool printed = made ? print_line(stream, line, err)
                        : pin_fail(err, PIN_ERROR_EXHAUSTED, "no memory to print an event");
    json_decref(line);
    return printed;
}

bool pin_stream_text(struct pin_stream *stream, const char *type, const uint8_t *data, size_t size,
                     struct pin_error *err) {
    json_t *fields = json_object();
    if (!pin_json_set_bytes(fields, "data", data, size)) {
        json_decref(fields);
        return pin_fail(err, PIN_ERROR_EXHAUSTED, "no memory to print an event");
    }
    return pin_stream_event(stream, type, fields, err);
}

bool pin_stream_exit(struct pin_stream *stream, const struct pin_result *result, struct pin_error *err) {
    json_t *fields = pin_result_json_end(result);
    if (fields == NULL)
        return pin_fail(err, PIN_ERROR_EXHAUSTED, "no memory to print a result");
    return pin_stream_event(stream, "exit", fields, err);
}
