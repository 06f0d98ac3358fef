#include "runtime/supervise/frames.h"

#include <stdlib.h>
#include <string.h>

#include <md5.h>

#include "base/cursor.h"
#include "base/names.h"
#include "runtime/supervise/crc32c.h"

/* uuid5(NAMESPACE_DNS, "local-sandbox-result-start-marker") */
const uint8_t pin_letta_marker[PIN_FRAME_MARKER_SIZE] = {0x92, 0xc8, 0xe4, 0x98, 0x43, 0xd3, 0x5f, 0xb3,
                                                         0x91, 0x9d, 0xa6, 0x9e, 0xb3, 0xe5, 0xc5, 0xc6};

static const char *const kind_names[] = {
    [PIN_FRAME_RESULT] = "result", [PIN_FRAME_AGENT_STATE] = "agent_state", [PIN_FRAME_PROGRESS] = "progress",
    [PIN_FRAME_LOG] = "log",       [PIN_FRAME_ARTIFACT] = "artifact",
};
_Static_assert(PIN_COUNT(kind_names) == PIN_FRAME_KIND_COUNT, "every kind has a name");

static const char *const verdict_names[] = {
    [PIN_FRAME_WHOLE] = "whole",         [PIN_FRAME_TORN] = "torn",           [PIN_FRAME_CORRUPT] = "corrupt",
    [PIN_FRAME_OVERSIZED] = "oversized", [PIN_FRAME_DUPLICATE] = "duplicate",
};
_Static_assert(PIN_COUNT(verdict_names) == PIN_FRAME_VERDICT_COUNT, "every verdict has a name");

const char *pin_frame_kind_name(enum pin_frame_kind kind) {
    return (size_t)kind < PIN_COUNT(kind_names) ? kind_names[kind] : NULL;
}

const char *pin_frame_verdict_name(enum pin_frame_verdict verdict) {
    return (size_t)verdict < PIN_COUNT(verdict_names) ? verdict_names[verdict] : NULL;
}

#define LARGE_FRAME ((size_t)1024 * 1024)

/* What a marker announces, decided from its header and, once it is there, its payload. */
enum judgement {
    NEED_MORE,
    ACCEPT,       /* the frame is taken out */
    REJECT,       /* it is text, and a frame may begin inside it */
    REJECT_WHOLE, /* it is text to its end */
};

struct candidate {
    struct pin_frame_info info;
    const uint8_t *payload;
    size_t total; /* marker, header and payload, where the judgement goes by the whole */
};

struct marker {
    uint8_t bytes[PIN_FRAME_MARKER_SIZE];
    size_t rare; /* index of the byte that is looked for: the rarer in text, the faster */
    enum pin_frame_format format;
    enum judgement (*judge)(struct pin_frame_parser *parser, struct pin_cursor in, struct candidate *found);
};

struct pin_frame_parser {
    struct pin_frame_sink sink;
    struct marker markers[PIN_FRAME_FORMAT_COUNT];
    size_t marker_count;
    uint64_t limit;
    bool *result_seen;
    uint8_t *held; /* the start of what may become a frame */
    size_t held_size, held_room;
    const struct marker *pending; /* what is held starts with this marker, and isn't whole yet */
    uint64_t offset;              /* in the stream, of the next byte to be looked at */
    uint64_t summed;              /* bytes that check sums were taken of in vain */
    bool ended;
};

/* Somebody who prints nothing but markers can't make us sum the same bytes over and over: when more has been
 * summed in vain than the stream is long, and then some, a corrupt frame is passed over whole. It depends on
 * the stream alone, not on how it was cut. */
static enum judgement corrupt(struct pin_frame_parser *parser, struct candidate *found, uint64_t at) {
    found->info.verdict = PIN_FRAME_CORRUPT;
    parser->summed += found->info.length;
    return parser->summed <= 2 * at + UINT64_C(16) * 1024 * 1024 ? REJECT : REJECT_WHOLE;
}

static enum judgement reject(struct candidate *found, enum pin_frame_verdict verdict) {
    found->info.verdict = verdict;
    return REJECT;
}

static enum judgement accept(struct pin_frame_parser *parser, struct candidate *found) {
    if (found->info.kind == PIN_FRAME_RESULT) {
        if (*parser->result_seen) {
            found->info.verdict = PIN_FRAME_DUPLICATE;
            return REJECT_WHOLE;
        }
        *parser->result_seen = true;
    }
    found->info.verdict = PIN_FRAME_WHOLE;
    return ACCEPT;
}

static bool take_payload(struct pin_cursor *in, struct candidate *found, const uint8_t *start) {
    if (!pin_take_bytes(in, found->info.length, &found->payload))
        return false;
    found->total = (size_t)(in->at - start);
    return true;
}

static bool is_hex(const uint8_t *text, size_t size) {
    for (size_t i = 0; i < size; i++)
        if (!(text[i] >= '0' && text[i] <= '9') && !(text[i] >= 'a' && text[i] <= 'f'))
            return false;
    return true;
}

static bool md5_is(const struct candidate *found, const uint8_t *hex) {
    MD5_CTX context;
    char text[MD5_DIGEST_STRING_LENGTH];
    MD5Init(&context);
    MD5Update(&context, found->payload, found->info.length);
    (void)MD5End(&context, text);
    return memcmp(text, hex, MD5_DIGEST_STRING_LENGTH - 1) == 0;
}

static enum judgement judge_letta(struct pin_frame_parser *parser, struct pin_cursor in,
                                  struct candidate *found) {
    const uint8_t *start = in.at, *marker, *sum;
    found->info.kind = PIN_FRAME_RESULT;
    if (!pin_take_bytes(&in, PIN_FRAME_MARKER_SIZE, &marker) || !pin_take_u32be(&in, &found->info.length))
        return NEED_MORE;
    if (found->info.length > parser->limit)
        return reject(found, PIN_FRAME_OVERSIZED);
    if (!pin_take_bytes(&in, 32, &sum))
        return NEED_MORE;
    if (!is_hex(sum, 32))
        return reject(found, PIN_FRAME_CORRUPT);
    if (!take_payload(&in, found, start))
        return NEED_MORE;
    return md5_is(found, sum) ? accept(parser, found)
                              : corrupt(parser, found, found->info.offset + found->total);
}

static enum judgement judge_pinfold(struct pin_frame_parser *parser, struct pin_cursor in,
                                    struct candidate *found) {
    const uint8_t *start = in.at, *marker;
    uint8_t version, kind;
    uint32_t sum;
    if (!pin_take_bytes(&in, PIN_FRAME_MARKER_SIZE, &marker) || !pin_take_u8(&in, &version) ||
        !pin_take_u8(&in, &kind))
        return NEED_MORE;
    if (version != PIN_FRAME_VERSION || kind == 0 || kind >= PIN_FRAME_KIND_COUNT)
        return reject(found, PIN_FRAME_CORRUPT);
    found->info.kind = (enum pin_frame_kind)kind;
    if (!pin_take_u16be(&in, &found->info.flags) || !pin_take_u32be(&in, &found->info.length))
        return NEED_MORE;
    if (found->info.length > parser->limit)
        return reject(found, PIN_FRAME_OVERSIZED);
    if (!pin_take_u32be(&in, &sum) || !take_payload(&in, found, start))
        return NEED_MORE;
    return pin_crc32c(found->payload, found->info.length) == sum
               ? accept(parser, found)
               : corrupt(parser, found, found->info.offset + found->total);
}

/* The lower, the rarer in what programs print: never in UTF-8; in no ASCII; control; the rest. */
static int rarity(uint8_t byte) {
    if (byte == 0xc0 || byte == 0xc1 || byte >= 0xf5)
        return 0;
    if (byte >= 0x80)
        return byte < 0xc0 ? 2 : 1;
    return byte < 0x20 && byte != '\n' && byte != '\t' && byte != 0 ? 3 : 4;
}

static size_t rarest(const uint8_t *bytes) {
    size_t best = 0;
    for (size_t i = 1; i < PIN_FRAME_MARKER_SIZE; i++)
        if (rarity(bytes[i]) < rarity(bytes[best]))
            best = i;
    return best;
}

static const uint8_t *find_marker(const struct marker *marker, const uint8_t *data, size_t size) {
    if (size < PIN_FRAME_MARKER_SIZE)
        return NULL;
    const uint8_t *at = data + marker->rare;
    const uint8_t *end = data + size - PIN_FRAME_MARKER_SIZE + marker->rare + 1;
    while (at < end && (at = memchr(at, marker->bytes[marker->rare], (size_t)(end - at))) != NULL) {
        if (memcmp(at - marker->rare, marker->bytes, PIN_FRAME_MARKER_SIZE) == 0)
            return at - marker->rare;
        at++;
    }
    return NULL;
}

/* Where each marker is next, so that a byte is looked at once for each, however many candidates there are. */
struct search {
    const uint8_t *next[PIN_FRAME_FORMAT_COUNT];  /* NULL: not found yet */
    const uint8_t *clear[PIN_FRAME_FORMAT_COUNT]; /* no marker starts before it */
};

static const uint8_t *find_next(const struct marker *marker, struct search *search, size_t i,
                                const uint8_t *at, const uint8_t *end) {
    if (search->next[i] != NULL && search->next[i] >= at)
        return search->next[i];
    const uint8_t *from = search->clear[i] > at ? search->clear[i] : at;
    search->next[i] = from < end ? find_marker(marker, from, (size_t)(end - from)) : NULL;
    if (search->next[i] == NULL && end - from >= PIN_FRAME_MARKER_SIZE)
        search->clear[i] = end - PIN_FRAME_MARKER_SIZE + 1;
    return search->next[i];
}

/* The first marker of any kind that starts at `at` or later; NULL: none is whole in the data. */
static const uint8_t *find_first(const struct pin_frame_parser *parser, struct search *search,
                                 const uint8_t *at, const uint8_t *end, const struct marker **which) {
    const uint8_t *first = NULL;
    for (size_t i = 0; i < parser->marker_count; i++) {
        const uint8_t *until = first == NULL ? end : first + PIN_FRAME_MARKER_SIZE - 1;
        const uint8_t *found = find_next(&parser->markers[i], search, i, at, until);
        if (found != NULL && (first == NULL || found < first)) {
            first = found;
            *which = &parser->markers[i];
        }
    }
    return first;
}

/* How many of the last bytes may be the start of a marker. */
static size_t partial_marker(const struct pin_frame_parser *parser, const uint8_t *data, size_t size) {
    size_t most = size < PIN_FRAME_MARKER_SIZE - 1 ? size : PIN_FRAME_MARKER_SIZE - 1;
    for (size_t n = most; n > 0; n--)
        for (size_t i = 0; i < parser->marker_count; i++)
            if (memcmp(data + size - n, parser->markers[i].bytes, n) == 0)
                return n;
    return 0;
}

static void emit_text(struct pin_frame_parser *parser, const uint8_t *from, const uint8_t *to) {
    if (to > from)
        parser->sink.text(parser->sink.self, from, (size_t)(to - from));
}

static enum judgement judge(struct pin_frame_parser *parser, const struct marker *marker, const uint8_t *at,
                            const uint8_t *end, uint64_t offset, struct candidate *found) {
    *found = (struct candidate){
        .info = {.format = marker->format, .offset = offset}
    };
    enum judgement judgement = marker->judge(parser, (struct pin_cursor){at, end}, found);
    if (judgement == NEED_MORE && parser->ended)
        return reject(found, PIN_FRAME_TORN);
    return judgement;
}

/* Looks at the data, which goes on from where the last call stopped; returns how many bytes are done with. */
static size_t scan(struct pin_frame_parser *parser, const uint8_t *data, size_t size) {
    const uint8_t *text = data, *at = data, *end = data + size;
    struct search search = {
        .clear = {data, data}
    };
    for (;;) {
        const struct marker *marker = parser->pending;
        const uint8_t *start = marker != NULL ? data : find_first(parser, &search, at, end, &marker);
        if (start == NULL) {
            if (!parser->ended)
                end -= partial_marker(parser, at, (size_t)(end - at));
            emit_text(parser, text, end);
            return (size_t)(end - data);
        }
        struct candidate found;
        enum judgement judgement =
            judge(parser, marker, start, end, parser->offset + (uint64_t)(start - data), &found);
        emit_text(parser, text, start);
        parser->pending = judgement == NEED_MORE ? marker : NULL;
        if (judgement == NEED_MORE)
            return (size_t)(start - data);
        parser->sink.frame(parser->sink.self, &found.info, judgement == ACCEPT ? found.payload : NULL);
        text = judgement == ACCEPT ? start + found.total : start;
        at = judgement == REJECT ? start + 1 : start + found.total;
    }
}

/* What is held may name a secret that the sink takes out: none of it stays behind in freed memory. */
static void drop_room(struct pin_frame_parser *parser) {
    if (parser->held != NULL)
        explicit_bzero(parser->held, parser->held_room);
    free(parser->held);
    parser->held = NULL;
    parser->held_room = 0;
}

static bool make_room(struct pin_frame_parser *parser, size_t room) {
    uint8_t *larger = malloc(room);
    if (larger == NULL)
        return false;
    if (parser->held_size > 0)
        memcpy(larger, parser->held, parser->held_size);
    drop_room(parser);
    parser->held = larger;
    parser->held_room = room;
    return true;
}

static bool hold(struct pin_frame_parser *parser, const uint8_t *data, size_t size) {
    size_t wanted = parser->held_size + size;
    if (wanted > parser->held_room && !make_room(parser, wanted + wanted / 2))
        return false;
    if (size > 0)
        memcpy(parser->held + parser->held_size, data, size);
    parser->held_size = wanted;
    return true;
}

/* No memory for a frame that long: what is held is judged as if the stream ended here. */
static void give_up_held(struct pin_frame_parser *parser) {
    parser->ended = true;
    (void)scan(parser, parser->held, parser->held_size);
    parser->ended = false;
    parser->offset += parser->held_size;
    parser->held_size = 0;
    drop_room(parser);
}

static void feed_held(struct pin_frame_parser *parser) {
    if (parser->held_size == 0)
        return;
    size_t done = scan(parser, parser->held, parser->held_size);
    parser->offset += done;
    parser->held_size -= done;
    if (parser->held_size > 0 && done > 0)
        memmove(parser->held, parser->held + done, parser->held_size);
    explicit_bzero(parser->held + parser->held_size, done);
    if (parser->held_size == 0 && parser->held_room > LARGE_FRAME) /* a large frame leaves nothing behind */
        drop_room(parser);
}

void pin_frame_parser_feed(struct pin_frame_parser *parser, const uint8_t *data, size_t size) {
    if (parser->held_size > 0) {
        if (hold(parser, data, size)) {
            feed_held(parser);
            return;
        }
        give_up_held(parser);
    }
    size_t done = scan(parser, data, size);
    parser->offset += done;
    if (done < size && !hold(parser, data + done, size - done)) {
        parser->ended = true;
        parser->offset += scan(parser, data + done, size - done);
        parser->ended = false;
    }
}

void pin_frame_parser_end(struct pin_frame_parser *parser) {
    parser->ended = true;
    feed_held(parser);
}

static void look_for(struct pin_frame_parser *parser, const uint8_t *bytes, enum pin_frame_format format) {
    struct marker *marker = &parser->markers[parser->marker_count++];
    memcpy(marker->bytes, bytes, PIN_FRAME_MARKER_SIZE);
    marker->rare = rarest(bytes);
    marker->format = format;
    marker->judge = format == PIN_FRAME_LETTA ? judge_letta : judge_pinfold;
}

struct pin_frame_parser *pin_frame_parser_new(const struct pin_frame_options *options,
                                              const struct pin_frame_sink *sink) {
    struct pin_frame_parser *parser = calloc(1, sizeof(*parser));
    if (parser == NULL)
        return NULL;
    parser->sink = *sink;
    parser->limit = options->limit_bytes < PIN_FRAME_LIMIT_MAX ? options->limit_bytes : PIN_FRAME_LIMIT_MAX;
    parser->result_seen = options->result_seen;
    if (options->letta)
        look_for(parser, pin_letta_marker, PIN_FRAME_LETTA);
    if (options->pinfold)
        look_for(parser, options->nonce, PIN_FRAME_PINFOLD);
    return parser;
}

void pin_frame_parser_free(struct pin_frame_parser *parser) {
    if (parser == NULL)
        return;
    drop_room(parser);
    free(parser);
}
