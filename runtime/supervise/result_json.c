#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/io.h"
#include "base/text.h"
#include "base/units.h"
#include "base/utf8.h"
#include "runtime/supervise/base64.h"
#include "runtime/supervise/result.h"

#define RESULT_VALUES_MAX ((size_t)256 * 1024) /* a parsed value takes up to 300 bytes: never past 80 MiB */

static json_t *text_json(const uint8_t *data, size_t size, bool as_base64) {
    if (!as_base64)
        return json_stringn_nocheck(data != NULL ? (const char *)data : "", size);
    PIN_FREE char *encoded = pin_base64(data, size);
    return encoded == NULL ? NULL : json_string_nocheck(encoded);
}

static const char *encoding_name(bool as_base64) {
    return as_base64 ? "base64" : "utf-8";
}

bool pin_json_set_bytes(json_t *object, const char *key, const uint8_t *data, size_t size) {
    bool as_base64 = !pin_utf8_valid(data, size);
    return json_object_set_new(object, "encoding", json_string(encoding_name(as_base64))) == 0 &&
           json_object_set_new(object, key, text_json(data, size, as_base64)) == 0;
}

/* At least the number of values in the text. */
static bool has_too_many_values(const uint8_t *data, size_t size) {
    size_t values = 1;
    for (size_t i = 0; i < size; i++)
        values += data[i] == ',' || data[i] == '[' || data[i] == '{' || data[i] == ':';
    return values > RESULT_VALUES_MAX;
}

/* NULL when the payload is no JSON value, or one that would cost too much to hold. */
static json_t *parse_payload(const struct pin_frame_record *frame) {
    json_error_t ignored;
    if (has_too_many_values(frame->payload, frame->info.length))
        return NULL;
    return json_loadb((const char *)frame->payload, frame->info.length,
                      JSON_REJECT_DUPLICATES | JSON_DECODE_ANY | JSON_ALLOW_NUL, &ignored);
}

static bool is_utf8(const struct pin_frame_record *frame) {
    return pin_utf8_valid(frame->payload, frame->info.length);
}

/* The value of "result", and how its frame says that it is to be read. */
static json_t *result_value(const struct pin_frame_record *frame, const char **encoding) {
    *encoding = "json";
    if (frame == NULL)
        return json_null();
    json_t *value = parse_payload(frame);
    if (value != NULL)
        return value;
    *encoding = encoding_name(!is_utf8(frame));
    return text_json(frame->payload, frame->info.length, !is_utf8(frame));
}

static json_t *kind_json(enum pin_frame_kind kind) {
    const char *name = pin_frame_kind_name(kind);
    return name == NULL ? json_null() : json_string(name);
}

/* Everything but the payload. */
static json_t *frame_head(const struct pin_frame_info *info, bool from_fd) {
    return json_pack("{s:s, s:s, s:s, s:o, s:i, s:I, s:I}", "source", from_fd ? "fd" : "stdout", "format",
                     info->format == PIN_FRAME_LETTA ? "letta" : "pinfold", "verdict",
                     pin_frame_verdict_name(info->verdict), "kind", kind_json(info->kind), "flags",
                     (int)info->flags, "offset", (json_int_t)info->offset, "bytes", (json_int_t)info->length);
}

json_t *pin_frame_json(const struct pin_frame_info *info, bool from_fd, const uint8_t *payload) {
    json_t *object = frame_head(info, from_fd);
    if (object != NULL && payload != NULL)
        (void)pin_json_set_bytes(object, "payload", payload, info->length);
    return object;
}

/* The payload of the result stands in "result" alone. */
static json_t *frames_json(const struct pin_result *result, const char *result_encoding) {
    json_t *list = json_array();
    const struct pin_frame_record *the_result = pin_result_frame(result);
    for (size_t i = 0; i < result->frame_count; i++) {
        const struct pin_frame_record *frame = &result->frames[i];
        json_t *object = frame == the_result ? frame_head(&frame->info, frame->from_fd)
                                             : pin_frame_json(&frame->info, frame->from_fd, frame->payload);
        if (object != NULL && frame == the_result)
            (void)json_object_set_new(object, "encoding", json_string(result_encoding));
        (void)json_array_append_new(list, object);
    }
    if (result->frames_dropped > 0)
        (void)json_array_append_new(list, json_pack("{s:I}", "dropped", (json_int_t)result->frames_dropped));
    if (result->stray_bytes > 0)
        (void)json_array_append_new(list, json_pack("{s:I}", "stray_bytes", (json_int_t)result->stray_bytes));
    return list;
}

json_t *pin_result_signal(int number) {
    char text[32];
    if (number == 0)
        return json_null();
    const char *name = sigabbrev_np(number);
    if (name != NULL)
        (void)snprintf(text, sizeof(text), "SIG%s", name);
    else
        (void)snprintf(text, sizeof(text), "SIGRTMIN+%d", number - SIGRTMIN);
    return json_string(text);
}

static json_int_t whole_ms(uint64_t ns) {
    return (json_int_t)((ns + PIN_NS_PER_MS / 2) / PIN_NS_PER_MS);
}

static json_t *usage_json(const struct pin_usage *usage) {
    return json_pack("{s:I, s:I, s:I, s:I, s:o}", "wall_ms", whole_ms(usage->wall_ns), "cpu_ms",
                     whole_ms(usage->cpu_ns), "memory_peak_bytes", (json_int_t)usage->memory_peak_bytes,
                     "pids_peak", (json_int_t)usage->pids_peak, "egress",
                     pin_egress_usage_json(&usage->egress));
}

static json_t *missing_json(const struct pin_result *result) {
    json_t *list = json_array();
    for (size_t i = 0; i < result->missing_count; i++)
        (void)json_array_append_new(list, json_string(result->missing[i]));
    return list;
}

/* Names and messages may hold bytes of a path that are no UTF-8. */
static json_t *readable(const char *text) {
    char escaped[1024];
    if (text == NULL)
        return json_null();
    json_t *value = json_string(text);
    return value != NULL ? value : json_string(pin_escape(escaped, sizeof(escaped), text, strlen(text)));
}

static json_t *error_fields(const struct pin_error *error) {
    return json_pack("{s:s, s:o, s:o, s:o}", "kind", pin_error_kind_name(error->kind), "message",
                     readable(error->message), "pointer", readable(error->pointer), "hint",
                     readable(pin_error_hint(error)));
}

/* One "encoding" speaks for both streams: a reader needs a single rule. */
static void set_streams(json_t *object, const struct pin_result *result) {
    bool as_base64 = !pin_utf8_valid(result->out.data, result->out.size) ||
                     !pin_utf8_valid(result->err.data, result->err.size);
    (void)json_object_set_new(object, "stdout", text_json(result->out.data, result->out.size, as_base64));
    (void)json_object_set_new(object, "stderr", text_json(result->err.data, result->err.size, as_base64));
    (void)json_object_set_new(object, "encoding", json_string(encoding_name(as_base64)));
}

static json_t *to_json(const struct pin_result *result, bool with_streams) {
    const char *encoding;
    json_t *object = json_object();
    json_t *value = result_value(pin_result_frame(result), &encoding);
    (void)json_object_set_new(object, "status", json_string(pin_status_name(result->status)));
    (void)json_object_set_new(object, "exit_code", json_integer(result->exit_code));
    (void)json_object_set_new(object, "signal", pin_result_signal(result->signal));
    if (with_streams)
        set_streams(object, result);
    (void)json_object_set_new(
        object, "truncated",
        json_pack("{s:b, s:b}", "stdout", result->out.truncated, "stderr", result->err.truncated));
    (void)json_object_set_new(object, "result", value);
    (void)json_object_set_new(object, "frames", frames_json(result, encoding));
    (void)json_object_set_new(object, "usage", usage_json(&result->usage));
    (void)json_object_set_new(object, "missing", missing_json(result));
    (void)json_object_set_new(object, "sandbox", readable(result->sandbox));
    (void)json_object_set_new(object, "fingerprint", readable(result->fingerprint));
    (void)json_object_set_new(object, "labels",
                              result->labels != NULL ? json_incref(result->labels) : json_object());
    if (result->published != NULL)
        (void)json_object_set(object, "published", result->published);
    if (result->changes != NULL)
        (void)json_object_set(object, "changes", result->changes);
    if (result->denials != NULL)
        (void)json_object_set(object, "denials", result->denials);
    if (pin_is_set(&result->error))
        (void)json_object_set_new(object, "error", error_fields(&result->error));
    return object;
}

json_t *pin_result_json(const struct pin_result *result) {
    return to_json(result, true);
}

json_t *pin_result_json_end(const struct pin_result *result) {
    return to_json(result, false);
}

json_t *pin_error_json(const struct pin_error *error) {
    return json_pack("{s:o}", "error", error_fields(error));
}

/* A result with a stream of control characters is six times as long as the stream: it is never there whole.
 */
struct printing {
    int fd;
    struct pin_error *err;
    size_t used;
    char room[64 * 1024]; /* what fits is one write: a line of JSON lines isn't torn */
};

static bool flush(struct printing *printing) {
    size_t size = printing->used;
    printing->used = 0;
    return pin_write_all(printing->fd, printing->room, size, printing->err);
}

static int print_part(const char *text, size_t size, void *data) {
    struct printing *printing = data;
    while (size > 0) {
        size_t part = sizeof(printing->room) - printing->used;
        if (part > size)
            part = size;
        memcpy(printing->room + printing->used, text, part);
        printing->used += part;
        text += part;
        size -= part;
        if (printing->used == sizeof(printing->room) && !flush(printing))
            return -1;
    }
    return 0;
}

bool pin_json_print(int fd, const json_t *value, struct pin_error *err) {
    struct printing printing; /* not cleared: most results are short */
    printing.fd = fd;
    printing.err = err;
    printing.used = 0;
    /* All but ASCII is escaped: control and bidirectional characters from inside never reach a terminal. */
    if (value != NULL && json_dump_callback(value, print_part, &printing,
                                            JSON_COMPACT | JSON_ENSURE_ASCII | JSON_ENCODE_ANY) == 0)
        return print_part("\n", 1, &printing) == 0 && flush(&printing);
    return pin_is_set(err) ? false : pin_fail(err, PIN_ERROR_EXHAUSTED, "no memory to print a result");
}
