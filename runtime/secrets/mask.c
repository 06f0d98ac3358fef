#include "runtime/secrets/mask.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"

static const uint8_t mark[] = {'*', '*', '*'};

enum { VARIANTS = 3, CHUNK = 16 * 1024 };

struct pattern {
    struct pin_locked bytes;
    uint32_t *fallback; /* of Knuth, Morris and Pratt: linear, whatever a hostile writer repeats */
};

struct pin_mask {
    struct pattern *patterns;
    size_t count, longest;
    bool is_first[256]; /* some pattern begins with this byte */
};

/* Each variant writes to `to`, or counts where it is NULL. */
static size_t as_is(const char *value, size_t size, uint8_t *to) {
    if (to != NULL)
        memcpy(to, value, size);
    return size;
}

static size_t as_terminal(const char *value, size_t size, uint8_t *to) {
    size_t out = 0;
    for (size_t i = 0; i < size; i++) {
        bool end = value[i] == '\n';
        if (to != NULL && end)
            to[out] = '\r';
        out += end;
        if (to != NULL)
            to[out] = (uint8_t)value[i];
        out++;
    }
    return out;
}

static size_t as_json(const char *value, size_t size, uint8_t *to) {
    static const char from[] = "\"\\\n\r\t\b\f", names[] = "\"\\nrtbf";
    size_t out = 0;
    for (size_t i = 0; i < size; i++) {
        const char *special = value[i] != '\0' ? strchr(from, value[i]) : NULL;
        if (to != NULL && special != NULL)
            to[out] = '\\';
        out += special != NULL;
        if (to != NULL)
            to[out] = (uint8_t)(special != NULL ? names[special - from] : value[i]);
        out++;
    }
    return out;
}

static size_t (*const variants[VARIANTS])(const char *, size_t, uint8_t *) = {as_is, as_terminal, as_json};

static bool make_fallback(struct pattern *pattern) {
    const uint8_t *bytes = pattern->bytes.bytes;
    uint32_t k = 0;
    pattern->fallback = calloc(pattern->bytes.size + 1, sizeof(*pattern->fallback));
    if (pattern->fallback == NULL)
        return false;
    for (uint32_t i = 1; i < pattern->bytes.size; i++) {
        while (k > 0 && bytes[i] != bytes[k])
            k = pattern->fallback[k];
        if (bytes[i] == bytes[k])
            k++;
        pattern->fallback[i + 1] = k;
    }
    return true;
}

static bool add_pattern(struct pin_mask *mask, const struct pin_secret *secret, int variant,
                        struct pin_error *err) {
    size_t size;
    const char *value = pin_secret_value(secret, &size);
    size_t length = variants[variant](value, size, NULL);
    struct pattern *pattern = &mask->patterns[mask->count];
    if (variant > 0 && length == size)
        return true; /* no different from the value itself */
    if (!pin_locked_alloc(&pattern->bytes, length, err))
        return false;
    mask->count++;
    (void)variants[variant](value, size, pattern->bytes.bytes);
    mask->is_first[pattern->bytes.bytes[0]] = true;
    if (length > mask->longest)
        mask->longest = length;
    return make_fallback(pattern) || pin_fail(err, PIN_ERROR_EXHAUSTED, "no memory to mask output");
}

struct pin_mask *pin_mask_new(const struct pin_secrets *secrets, struct pin_error *err) {
    struct pin_mask *mask = calloc(1, sizeof(*mask));
    if (mask != NULL)
        mask->patterns = calloc(secrets->count * VARIANTS + 1, sizeof(*mask->patterns));
    bool ok = mask != NULL && mask->patterns != NULL;
    if (!ok)
        (void)pin_fail(err, PIN_ERROR_EXHAUSTED, "no memory to mask output");
    for (size_t i = 0; ok && i < secrets->count; i++)
        for (int variant = 0; ok && variant < VARIANTS; variant++)
            ok = add_pattern(mask, &secrets->list[i], variant, err);
    if (ok)
        return mask;
    pin_mask_free(mask);
    return NULL;
}

void pin_mask_free(struct pin_mask *mask) {
    if (mask == NULL)
        return;
    for (size_t i = 0; i < mask->count; i++) {
        pin_locked_free(&mask->patterns[i].bytes);
        free(mask->patterns[i].fallback);
    }
    free(mask->patterns);
    free(mask);
}

/* A byte that is older than the longest start of a value that the stream ends with can't become part of one
 * any more: it goes out. So what comes out doesn't depend on where chunks end. */
struct pin_mask_stream {
    const struct pin_mask *mask;
    struct pin_mask_sink sink;
    uint32_t *matched; /* of each pattern: how much of it the stream ends with */
    uint8_t *held;     /* the longest pattern, and a chunk */
    bool *is_secret;   /* of each byte that is held */
    size_t size;
    bool in_mark; /* the last byte that went out was a secret's */
};

struct pin_mask_stream *pin_mask_stream_new(const struct pin_mask *mask, const struct pin_mask_sink *sink) {
    struct pin_mask_stream *stream = calloc(1, sizeof(*stream));
    if (stream == NULL)
        return NULL;
    stream->mask = mask;
    stream->sink = *sink;
    stream->matched = calloc(mask->count + 1, sizeof(*stream->matched));
    stream->held = calloc(mask->longest + CHUNK, 1);
    stream->is_secret = calloc(mask->longest + CHUNK, sizeof(*stream->is_secret));
    if (stream->matched != NULL && stream->held != NULL && stream->is_secret != NULL)
        return stream;
    pin_mask_stream_free(stream);
    return NULL;
}

void pin_mask_stream_free(struct pin_mask_stream *stream) {
    if (stream == NULL)
        return;
    if (stream->held != NULL)
        explicit_bzero(stream->held, stream->mask->longest + CHUNK);
    free(stream->held);
    free(stream->is_secret);
    free(stream->matched);
    free(stream);
}

static void put(struct pin_mask_stream *stream, const uint8_t *data, size_t size) {
    if (size == 0)
        return;
    stream->in_mark = false;
    stream->sink.text(stream->sink.self, data, size);
}

/* The first `size` bytes that are held go out. */
static void flush(struct pin_mask_stream *stream, size_t size) {
    for (size_t at = 0, end; at < size; at = end) {
        bool secret = stream->is_secret[at];
        for (end = at; end < size && stream->is_secret[end] == secret; end++)
            ;
        if (!secret) {
            put(stream, stream->held + at, end - at);
        } else if (!stream->in_mark) {
            stream->sink.text(stream->sink.self, mark, sizeof(mark));
            stream->in_mark = true;
        }
    }
    stream->size -= size;
    memmove(stream->held, stream->held + size, stream->size);
    memmove(stream->is_secret, stream->is_secret + size, stream->size * sizeof(*stream->is_secret));
}

static void match(struct pin_mask_stream *stream, size_t which, uint8_t byte) {
    const struct pattern *pattern = &stream->mask->patterns[which];
    uint32_t k = stream->matched[which];
    while (k > 0 && pattern->bytes.bytes[k] != byte)
        k = pattern->fallback[k];
    if (pattern->bytes.bytes[k] == byte)
        k++;
    if (k == pattern->bytes.size) {
        for (size_t i = stream->size - k; i < stream->size; i++)
            stream->is_secret[i] = true;
        k = pattern->fallback[k];
    }
    stream->matched[which] = k;
}

static size_t longest_start(const struct pin_mask_stream *stream) {
    size_t longest = 0;
    for (size_t i = 0; i < stream->mask->count; i++)
        if (stream->matched[i] > longest)
            longest = stream->matched[i];
    return longest;
}

static void take(struct pin_mask_stream *stream, const uint8_t *data, size_t size) {
    for (size_t i = 0; i < size; i++) {
        stream->held[stream->size] = data[i];
        stream->is_secret[stream->size++] = false;
        for (size_t j = 0; j < stream->mask->count; j++)
            match(stream, j, data[i]);
    }
    flush(stream, stream->size - longest_start(stream));
}

/* While nothing is held, bytes with which no value begins go straight through. */
static size_t plain(const struct pin_mask_stream *stream, const uint8_t *data, size_t size) {
    size_t at = 0;
    if (stream->size > 0)
        return 0;
    while (at < size && !stream->mask->is_first[data[at]])
        at++;
    return at;
}

void pin_mask_stream_feed(struct pin_mask_stream *stream, const uint8_t *data, size_t size) {
    while (size > 0) {
        size_t part = plain(stream, data, size);
        put(stream, data, part);
        data += part;
        size -= part;
        part = size < CHUNK ? size : CHUNK;
        take(stream, data, part);
        data += part;
        size -= part;
    }
}

void pin_mask_stream_end(struct pin_mask_stream *stream) {
    flush(stream, stream->size);
    memset(stream->matched, 0, stream->mask->count * sizeof(*stream->matched));
}

struct copy {
    uint8_t *bytes;
    size_t size, room;
    bool failed;
};

static void append(void *self, const uint8_t *data, size_t size) {
    struct copy *copy = self;
    if (copy->size + size > copy->room) {
        size_t room = (copy->size + size) * 2;
        uint8_t *larger = realloc(copy->bytes, room);
        copy->failed = copy->failed || larger == NULL;
        if (larger == NULL)
            return;
        copy->bytes = larger;
        copy->room = room;
    }
    memcpy(copy->bytes + copy->size, data, size);
    copy->size += size;
}

uint8_t *pin_mask_bytes(const struct pin_mask *mask, const uint8_t *data, size_t size, size_t *masked_size) {
    struct copy copy = {.bytes = malloc(size + sizeof(mark)), .room = size + sizeof(mark)};
    const struct pin_mask_sink sink = {&copy, append};
    struct pin_mask_stream *stream = pin_mask_stream_new(mask, &sink);
    if (stream != NULL && copy.bytes != NULL) {
        pin_mask_stream_feed(stream, data, size);
        pin_mask_stream_end(stream);
    }
    bool ok = stream != NULL && copy.bytes != NULL && !copy.failed;
    pin_mask_stream_free(stream);
    if (!ok) {
        free(copy.bytes);
        return NULL;
    }
    *masked_size = copy.size;
    return copy.bytes;
}

/* A longer text is cut; without memory it is all taken for a secret. */
static void mask_text(const struct pin_mask *mask, char *text, size_t room) {
    size_t size = strlen(text);
    PIN_FREE uint8_t *bytes = pin_mask_bytes(mask, (const uint8_t *)text, size, &size);
    if (bytes == NULL)
        size = sizeof(mark);
    size = size < room ? size : room - 1;
    memcpy(text, bytes != NULL ? bytes : mark, size);
    text[size] = '\0';
}

void pin_mask_error(const struct pin_mask *mask, struct pin_error *err) {
    if (mask == NULL || !pin_is_set(err))
        return;
    mask_text(mask, err->message, sizeof(err->message));
    mask_text(mask, err->pointer, sizeof(err->pointer));
    mask_text(mask, err->hint, sizeof(err->hint));
}
