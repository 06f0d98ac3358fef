#include "runtime/bundle/json_text.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/utf8.h"

static void put(struct pin_json_text *text, const char *data, size_t size) {
    if (text->room - text->size <= size) {
        size_t room = (text->size + size + 1) * 2;
        text->data = realloc(text->data, room);
        if (text->data == NULL)
            abort(); /* as an arena does */
        text->room = room;
    }
    memcpy(text->data + text->size, data, size);
    text->size += size;
    text->data[text->size] = '\0';
}

static void put_text(struct pin_json_text *text, const char *data) {
    put(text, data, strlen(data));
}

static void new_line(struct pin_json_text *text) {
    if (!text->pretty)
        return;
    put_text(text, "\n");
    for (unsigned i = 0; i < text->depth; i++)
        put_text(text, "  ");
}

void pin_json_text_cut(struct pin_json_text *text, const struct pin_json_mark *mark) {
    text->size = mark->size;
    if (text->data != NULL)
        text->data[text->size] = '\0';
    text->steps = mark->steps;
    text->depth = mark->depth;
}

struct pin_json_mark pin_json_text_member(struct pin_json_text *text, const char *key, size_t index) {
    struct pin_json_mark mark = {text->size, text->steps, text->depth};
    char last = text->size > 0 ? text->data[text->size - 1] : '{';
    if (last != '{' && last != '[')
        put_text(text, ",");
    new_line(text);
    if (text->steps == PIN_JSON_TEXT_DEPTH)
        abort(); /* the tables of fields are not that deep */
    text->path[text->steps++] = (struct pin_json_step){key, index};
    if (key != NULL) {
        pin_json_text_string(text, key);
        put_text(text, text->pretty ? ": " : ":");
    }
    return mark;
}

void pin_json_text_end(struct pin_json_text *text, const struct pin_json_mark *mark) {
    text->steps = mark->steps;
}

void pin_json_text_open(struct pin_json_text *text, char bracket) {
    put(text, &bracket, 1);
    text->depth++;
}

void pin_json_text_close(struct pin_json_text *text, char bracket) {
    text->depth--;
    char last = text->data[text->size - 1];
    if (last != '{' && last != '[')
        new_line(text);
    put(text, &bracket, 1);
}

static void put_escaped(struct pin_json_text *text, unsigned char byte) {
    char escape[8];
    if (byte == '"' || byte == '\\')
        (void)snprintf(escape, sizeof(escape), "\\%c", byte);
    else
        (void)snprintf(escape, sizeof(escape), "\\u%04x", byte);
    put_text(text, escape);
}

static void note_bad(struct pin_json_text *text) {
    size_t used = 0;
    for (size_t i = 0; i < text->steps && used < sizeof(text->bad); i++) {
        const struct pin_json_step *step = &text->path[i];
        int put_bytes = step->key != NULL
                            ? snprintf(text->bad + used, sizeof(text->bad) - used, "/%s", step->key)
                            : snprintf(text->bad + used, sizeof(text->bad) - used, "/%zu", step->index);
        used += put_bytes > 0 ? (size_t)put_bytes : 0;
    }
}

void pin_json_text_string(struct pin_json_text *text, const char *value) {
    size_t size = strlen(value), start = 0;
    if (!pin_utf8_valid((const uint8_t *)value, size) && text->bad[0] == '\0')
        note_bad(text);
    put_text(text, "\"");
    for (size_t i = 0; i < size; i++) {
        unsigned char byte = (unsigned char)value[i];
        if (byte >= 0x20 && byte != '"' && byte != '\\')
            continue;
        put(text, value + start, i - start);
        put_escaped(text, byte);
        start = i + 1;
    }
    put(text, value + start, size - start);
    put_text(text, "\"");
}

void pin_json_text_u64(struct pin_json_text *text, uint64_t value) {
    char digits[24];
    (void)snprintf(digits, sizeof(digits), "%" PRIu64, value);
    put_text(text, digits);
}

void pin_json_text_i64(struct pin_json_text *text, int64_t value) {
    char digits[24];
    (void)snprintf(digits, sizeof(digits), "%" PRId64, value);
    put_text(text, digits);
}

void pin_json_text_flag(struct pin_json_text *text, bool value) {
    put_text(text, value ? "true" : "false");
}

void pin_json_text_digits(struct pin_json_text *text, const char *digits) {
    put_text(text, digits);
}

void pin_json_text_free(struct pin_json_text *text) {
    free(text->data);
    *text = (struct pin_json_text){0};
}
