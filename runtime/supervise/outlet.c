#include "runtime/supervise/outlet.h"

#include <stdlib.h>
#include <string.h>

#include "base/utf8.h"

#define LINE_BYTES ((size_t)32 * 1024) /* of text in one JSON line */

static bool capture(struct pin_outlet *outlet, const uint8_t *data, size_t size) {
    struct pin_text *text = outlet->text;
    if (text->size + size > outlet->room) {
        size_t room = (text->size + size) * 2;
        uint8_t *larger = realloc(text->data, room);
        if (larger == NULL)
            return false;
        text->data = larger;
        outlet->room = room;
    }
    memcpy(text->data + text->size, data, size);
    text->size += size;
    return true;
}

/* Out of memory for a line is out of memory for the text; the sink reports what the descriptor says. */
static bool print(struct pin_outlet *outlet, const uint8_t *data, size_t size) {
    struct pin_error err = {0};
    return size == 0 || pin_stream_text(outlet->stream, outlet->type, data, size, &err);
}

/* The bytes at the end that may be the start of a UTF-8 sequence. */
static size_t unfinished(const uint8_t *data, size_t size) {
    for (size_t n = 1; n <= 3 && n <= size; n++) {
        uint8_t byte = data[size - n];
        if ((byte & 0xc0) == 0x80)
            continue;
        size_t length = byte >= 0xf0 ? 4 : byte >= 0xe0 ? 3 : byte >= 0xc0 ? 2 : 1;
        return length > n ? n : 0;
    }
    return 0;
}

/* With up to three bytes held from before in front. */
static bool print_held(struct pin_outlet *outlet, const uint8_t **data, size_t *size) {
    uint8_t joined[sizeof(outlet->held) + 4];
    size_t held = outlet->held_size, taken = *size < 4 ? *size : 4;
    if (held == 0)
        return true;
    memcpy(joined, outlet->held, held);
    memcpy(joined + held, *data, taken);
    size_t length = pin_utf8_sequence(joined, held + taken);
    size_t printed = length > held ? length : held;
    outlet->held_size = 0;
    if (length == 0 && held + taken <= sizeof(outlet->held) &&
        unfinished(joined, held + taken) == held + taken) {
        memcpy(outlet->held, joined, outlet->held_size = held + taken);
        *data += taken;
        *size -= taken;
        return true;
    }
    *data += printed - held;
    *size -= printed - held;
    return print(outlet, joined, printed);
}

static bool stream(struct pin_outlet *outlet, const uint8_t *data, size_t size) {
    if (!print_held(outlet, &data, &size))
        return false;
    while (size > 0) {
        size_t part = size < LINE_BYTES ? size : LINE_BYTES;
        size_t tail = unfinished(data, part);
        if (tail == part) { /* so short that nothing else is there */
            memcpy(outlet->held, data, outlet->held_size = tail);
            return true;
        }
        part -= tail;
        if (!print(outlet, data, part))
            return false;
        data += part;
        size -= part;
    }
    return true;
}

bool pin_outlet_write(struct pin_outlet *outlet, const uint8_t *data, size_t size) {
    if (outlet->tap != NULL)
        outlet->tap(outlet->tap_self, data, size);
    switch (outlet->kind) {
    case PIN_OUTPUT_PASS: pin_sink_write(outlet->sink, data, size); return true;
    case PIN_OUTPUT_CAPTURE: return capture(outlet, data, size);
    case PIN_OUTPUT_STREAM: return stream(outlet, data, size);
    case PIN_OUTPUT_COUNT: break;
    }
    abort();
}

bool pin_outlet_is_full(const struct pin_outlet *outlet) {
    return outlet->sink != NULL && pin_sink_is_full(outlet->sink);
}

/* A cut may have gone through a character: the rest of the text shall not become base64 for it. */
static void trim_to_character(struct pin_text *text) {
    size_t valid = pin_utf8_prefix(text->data, text->size);
    if (text->truncated && text->size - valid <= 3 &&
        unfinished(text->data, text->size) == text->size - valid)
        text->size = valid;
}

void pin_outlet_end(struct pin_outlet *outlet) {
    if (outlet->kind == PIN_OUTPUT_CAPTURE && outlet->text->size > 0)
        trim_to_character(outlet->text);
    (void)print(outlet, outlet->held, outlet->held_size);
    outlet->held_size = 0;
}
