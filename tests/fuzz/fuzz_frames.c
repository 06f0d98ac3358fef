/* The laws of the frame parser: where a stream is cut doesn't matter, and no byte is lost or moved. */
#include <assert.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/supervise/frames.h"

static const uint8_t nonce[PIN_FRAME_MARKER_SIZE] = "\xf5nonce-of-a-run";

struct tally {
    const uint8_t *input;
    size_t size, at;   /* `at`: how much of the input is accounted for */
    uint64_t verdicts; /* a hash of all of them in their order */
    unsigned results;
};

static void note(struct tally *tally, uint64_t value) {
    tally->verdicts = (tally->verdicts ^ value) * 0x100000001b3u;
}

static void on_text(void *self, const uint8_t *data, size_t size) {
    struct tally *tally = self;
    assert(size > 0 && size <= tally->size - tally->at);
    assert(memcmp(tally->input + tally->at, data, size) == 0);
    tally->at += size;
}

static void on_frame(void *self, const struct pin_frame_info *info, const uint8_t *payload) {
    struct tally *tally = self;
    note(tally, info->verdict * 100u + info->kind * 10u + info->format);
    note(tally, info->offset);
    note(tally, info->length);
    assert((payload != NULL) == (info->verdict == PIN_FRAME_WHOLE));
    if (payload == NULL)
        return;
    assert(info->offset == tally->at && info->length <= 512);
    size_t header = info->format == PIN_FRAME_LETTA ? 16 + 4 + 32 : 16 + 12;
    assert(header + info->length <= tally->size - tally->at);
    assert(memcmp(tally->input + tally->at + header, payload, info->length) == 0);
    tally->at += header + info->length;
    tally->results += info->kind == PIN_FRAME_RESULT;
}

static struct tally feed(const uint8_t *data, size_t size, size_t step) {
    bool result_seen = false;
    struct tally tally = {.input = data, .size = size};
    struct pin_frame_options options = {
        .letta = true, .pinfold = true, .limit_bytes = 512, .result_seen = &result_seen};
    memcpy(options.nonce, nonce, sizeof(nonce));
    const struct pin_frame_sink sink = {&tally, on_text, on_frame};
    struct pin_frame_parser *parser = pin_frame_parser_new(&options, &sink);
    for (size_t at = 0; at < size; at += step)
        pin_frame_parser_feed(parser, data + at, step < size - at ? step : size - at);
    pin_frame_parser_end(parser);
    pin_frame_parser_free(parser);
    return tally;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    if (size == 0)
        return 0;
    struct tally whole = feed(data, size, size);
    assert(whole.at == size && whole.results <= 1);
    static const size_t steps[] = {1, 2, 7, 16, 61};
    for (size_t i = 0; i < sizeof(steps) / sizeof(steps[0]); i++) {
        struct tally split = feed(data, size, steps[i]);
        assert(split.at == size && split.verdicts == whole.verdicts);
    }
    return 0;
}
