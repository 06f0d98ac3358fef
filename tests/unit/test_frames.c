#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <md5.h>

#include "base/names.h"
#include "runtime/supervise/crc32c.h"
#include "runtime/supervise/frames.h"

static const uint8_t nonce[PIN_FRAME_MARKER_SIZE] = "\x10nonce-of-a-run";

struct bytes {
    uint8_t data[1 << 16];
    size_t size;
};

static void put(struct bytes *to, const void *data, size_t size) {
    assert_true(to->size + size <= sizeof(to->data));
    memcpy(to->data + to->size, data, size);
    to->size += size;
}

static void put_text(struct bytes *to, const char *text) {
    put(to, text, strlen(text));
}

static void put_u32(struct bytes *to, uint32_t value) {
    const uint8_t big[4] = {(uint8_t)(value >> 24), (uint8_t)(value >> 16), (uint8_t)(value >> 8),
                            (uint8_t)value};
    put(to, big, sizeof(big));
}

static void put_letta(struct bytes *to, const void *payload, size_t size) {
    char sum[MD5_DIGEST_STRING_LENGTH];
    put(to, pin_letta_marker, PIN_FRAME_MARKER_SIZE);
    put_u32(to, (uint32_t)size);
    put(to, MD5Data(payload, size, sum), 32);
    put(to, payload, size);
}

static void put_pinfold(struct bytes *to, uint8_t kind, const void *payload, size_t size) {
    const uint8_t head[4] = {PIN_FRAME_VERSION, kind, 0x12, 0x34};
    put(to, nonce, sizeof(nonce));
    put(to, head, sizeof(head));
    put_u32(to, (uint32_t)size);
    put_u32(to, pin_crc32c(payload, size));
    put(to, payload, size);
}

struct seen {
    struct bytes text, log;
    struct pin_frame_info infos[16];
    size_t count;
};

static void on_text(void *self, const uint8_t *data, size_t size) {
    struct seen *seen = self;
    put(&seen->text, data, size);
    put(&seen->log, data, size);
}

static void on_frame(void *self, const struct pin_frame_info *info, const uint8_t *payload) {
    struct seen *seen = self;
    assert_int_equal(payload != NULL, info->verdict == PIN_FRAME_WHOLE);
    assert_true(seen->count < PIN_COUNT(seen->infos));
    seen->infos[seen->count++] = *info;
    put_text(&seen->log, "<");
    put_text(&seen->log, pin_frame_verdict_name(info->verdict));
    if (payload != NULL) {
        put_text(&seen->log, " ");
        put(&seen->log, payload, info->length);
    }
    put_text(&seen->log, ">");
}

static struct seen *feed_split(const struct bytes *in, size_t first, size_t step, uint64_t limit) {
    bool result_seen = false;
    struct seen *seen = calloc(1, sizeof(*seen));
    struct pin_frame_options options = {
        .letta = true, .pinfold = true, .limit_bytes = limit, .result_seen = &result_seen};
    memcpy(options.nonce, nonce, sizeof(nonce));
    const struct pin_frame_sink sink = {seen, on_text, on_frame};
    struct pin_frame_parser *parser = pin_frame_parser_new(&options, &sink);
    assert_non_null(parser);
    for (size_t at = 0, part = first; at < in->size; at += part, part = step) {
        if (part > in->size - at)
            part = in->size - at;
        uint8_t *exact = malloc(part + (part == 0)); /* so that a sanitizer sees a read past the end */
        memcpy(exact, in->data + at, part);
        pin_frame_parser_feed(parser, exact, part);
        free(exact);
    }
    pin_frame_parser_end(parser);
    pin_frame_parser_free(parser);
    return seen;
}

static void expect_log(const struct bytes *in, uint64_t limit, const char *expected) {
    for (size_t first = 0; first <= in->size; first++) {
        struct seen *seen = feed_split(in, first, in->size + 1, limit);
        put(&seen->log, "", 1);
        assert_string_equal((char *)seen->log.data, expected);
        free(seen);
    }
    for (size_t step = 1; step < 20; step++) {
        struct seen *seen = feed_split(in, step, step, limit);
        put(&seen->log, "", 1);
        assert_string_equal((char *)seen->log.data, expected);
        free(seen);
    }
}

static void frames_leave_the_text_around_them_whole_at_every_split_point(void **state) {
    (void)state;
    static struct bytes in;
    put_text(&in, "before ");
    put_letta(&in, "result", 6);
    put_text(&in, " between ");
    put_pinfold(&in, PIN_FRAME_PROGRESS, "50 %", 4);
    put_pinfold(&in, PIN_FRAME_LOG, "", 0);
    put_text(&in, " after");
    expect_log(&in, 1024, "before <whole result> between <whole 50 %><whole > after");
}

static void headers_are_read_as_documented(void **state) {
    (void)state;
    static struct bytes in;
    put_text(&in, "abc");
    put_pinfold(&in, PIN_FRAME_ARTIFACT, "data", 4);
    struct seen *seen = feed_split(&in, 1, 1, 1024);
    assert_int_equal(seen->count, 1);
    assert_int_equal(seen->infos[0].format, PIN_FRAME_PINFOLD);
    assert_int_equal(seen->infos[0].kind, PIN_FRAME_ARTIFACT);
    assert_int_equal(seen->infos[0].flags, 0x1234);
    assert_int_equal(seen->infos[0].length, 4);
    assert_int_equal(seen->infos[0].offset, 3);
    free(seen);
}

static void a_payload_may_hold_markers(void **state) {
    (void)state;
    static struct bytes inner, in;
    put_letta(&inner, "inner", 5);
    put_pinfold(&in, PIN_FRAME_RESULT, inner.data, inner.size);
    struct seen *seen = feed_split(&in, 7, 7, 1024);
    assert_int_equal(seen->count, 1);
    assert_int_equal(seen->text.size, 0);
    free(seen);
}

static struct bytes damaged(size_t at, size_t cut) {
    struct bytes in = {.size = 0};
    put_letta(&in, "payload", 7);
    in.data[at] ^= 1;
    in.size -= cut;
    return in;
}

static void a_corrupt_frame_stays_in_the_text_and_is_reported(void **state) {
    (void)state;
    static const size_t places[] = {20, 51, 52, 58}; /* the sum's first and last character, the payload's */
    for (size_t i = 0; i < PIN_COUNT(places); i++) {
        struct bytes in = damaged(places[i], 0);
        struct seen *seen = feed_split(&in, 5, 5, 1024);
        assert_int_equal(seen->count, 1);
        assert_int_equal(seen->infos[0].verdict, PIN_FRAME_CORRUPT);
        assert_int_equal(seen->text.size, in.size);
        assert_memory_equal(seen->text.data, in.data, in.size);
        free(seen);
    }
}

static void a_torn_frame_stays_in_the_text_and_is_reported(void **state) {
    (void)state;
    struct bytes whole = {.size = 0};
    put_letta(&whole, "payload", 7);
    for (size_t size = 0; size < whole.size; size++) {
        struct bytes in = whole;
        in.size = size;
        struct seen *seen = feed_split(&in, 3, 3, 1024);
        assert_int_equal(seen->count, size >= PIN_FRAME_MARKER_SIZE);
        if (seen->count == 1)
            assert_int_equal(seen->infos[0].verdict, PIN_FRAME_TORN);
        assert_int_equal(seen->text.size, size);
        assert_memory_equal(seen->text.data, in.data, size);
        free(seen);
    }
}

static void a_frame_over_the_limit_is_reported_before_its_payload_is_waited_for(void **state) {
    (void)state;
    static struct bytes in;
    put(&in, pin_letta_marker, PIN_FRAME_MARKER_SIZE);
    put_u32(&in, UINT32_MAX);
    put_text(&in, "text ");
    put_letta(&in, "1234", 4);
    struct seen *seen = feed_split(&in, 1, 1, 4);
    assert_int_equal(seen->count, 2);
    assert_int_equal(seen->infos[0].verdict, PIN_FRAME_OVERSIZED);
    assert_int_equal(seen->infos[1].verdict, PIN_FRAME_WHOLE);
    assert_int_equal(seen->text.size, PIN_FRAME_MARKER_SIZE + 4 + 5);
    free(seen);
}

static void a_true_frame_is_found_inside_a_false_one(void **state) {
    (void)state;
    static struct bytes in;
    put(&in, pin_letta_marker, PIN_FRAME_MARKER_SIZE);
    put_u32(&in, 500);
    put_text(&in, "00000000000000000000000000000000");
    put_pinfold(&in, PIN_FRAME_RESULT, "truth", 5);
    struct seen *seen = feed_split(&in, 11, 11, 1024);
    assert_int_equal(seen->count, 2);
    assert_int_equal(seen->infos[0].verdict, PIN_FRAME_TORN);
    assert_int_equal(seen->infos[1].verdict, PIN_FRAME_WHOLE);
    assert_int_equal(seen->text.size, PIN_FRAME_MARKER_SIZE + 4 + 32);
    free(seen);
}

static void a_run_has_one_result(void **state) {
    (void)state;
    static struct bytes in;
    put_letta(&in, "first", 5);
    size_t first = in.size;
    put_letta(&in, "second", 6);
    struct seen *seen = feed_split(&in, 9, 9, 1024);
    assert_int_equal(seen->count, 2);
    assert_int_equal(seen->infos[0].verdict, PIN_FRAME_WHOLE);
    assert_int_equal(seen->infos[1].verdict, PIN_FRAME_DUPLICATE);
    assert_int_equal(seen->text.size, in.size - first);
    free(seen);
}

static void unknown_versions_and_kinds_are_corrupt(void **state) {
    (void)state;
    static const uint8_t heads[][2] = {
        {0, 1                   },
        {2, 1                   },
        {1, 0                   },
        {1, PIN_FRAME_KIND_COUNT},
        {1, 255                 }
    };
    for (size_t i = 0; i < PIN_COUNT(heads); i++) {
        struct bytes in = {.size = 0};
        put_pinfold(&in, PIN_FRAME_LOG, "x", 1);
        memcpy(in.data + PIN_FRAME_MARKER_SIZE, heads[i], 2);
        struct seen *seen = feed_split(&in, 2, 2, 1024);
        assert_int_equal(seen->count, 1);
        assert_int_equal(seen->infos[0].verdict, PIN_FRAME_CORRUPT);
        assert_int_equal(seen->text.size, in.size);
        free(seen);
    }
}

static void count_text(void *self, const uint8_t *data, size_t size) {
    (void)data;
    *(size_t *)self += size;
}

static void refuse_frame(void *self, const struct pin_frame_info *info, const uint8_t *payload) {
    (void)self, (void)info;
    assert_null(payload);
}

/* A stream of nothing but markers that each announce a long payload must not cost a check sum each. */
static void nested_false_frames_cost_linear_work(void **state) {
    (void)state;
    static struct bytes unit;
    put(&unit, pin_letta_marker, PIN_FRAME_MARKER_SIZE);
    put_u32(&unit, 4 * 1024 * 1024);
    put_text(&unit, "00000000000000000000000000000000");
    bool result_seen = false;
    size_t text = 0;
    struct pin_frame_options options = {
        .letta = true, .limit_bytes = UINT64_MAX, .result_seen = &result_seen};
    const struct pin_frame_sink sink = {&text, count_text, refuse_frame};
    struct pin_frame_parser *parser = pin_frame_parser_new(&options, &sink);
    size_t total = 0;
    for (int i = 0; i < 400000; i++, total += unit.size)
        pin_frame_parser_feed(parser, unit.data, unit.size);
    pin_frame_parser_end(parser);
    pin_frame_parser_free(parser);
    assert_int_equal(text, total);
}

static void the_check_sum_is_castagnolis(void **state) {
    (void)state;
    static const uint8_t zeros[32]; /* RFC 3720, B.4 */
    assert_int_equal(pin_crc32c((const uint8_t *)"123456789", 9), 0xe3069283u);
    assert_int_equal(pin_crc32c(zeros, 32), 0x8a9136aau);
    static uint8_t data[7001]; /* more than two rounds of the processor's three lanes */
    for (size_t i = 0; i < sizeof(data); i++)
        data[i] = (uint8_t)(i * 7 + i / 256);
    for (size_t size = 0; size <= sizeof(data); size += 97) {
        uint32_t sum = pin_crc32c_portable(data, size);
        assert_int_equal(pin_crc32c(data, size), sum);
        assert_int_equal(pin_crc32c_more(pin_crc32c(data, size / 3), data + size / 3, size - size / 3), sum);
    }
}

static void every_kind_and_verdict_has_a_name(void **state) {
    (void)state;
    for (int kind = PIN_FRAME_RESULT; kind < PIN_FRAME_KIND_COUNT; kind++)
        assert_non_null(pin_frame_kind_name((enum pin_frame_kind)kind));
    for (int verdict = 0; verdict < PIN_FRAME_VERDICT_COUNT; verdict++)
        assert_non_null(pin_frame_verdict_name((enum pin_frame_verdict)verdict));
    assert_null(pin_frame_kind_name((enum pin_frame_kind)0));
    assert_null(pin_frame_kind_name(PIN_FRAME_KIND_COUNT));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(frames_leave_the_text_around_them_whole_at_every_split_point),
        cmocka_unit_test(headers_are_read_as_documented),
        cmocka_unit_test(a_payload_may_hold_markers),
        cmocka_unit_test(a_corrupt_frame_stays_in_the_text_and_is_reported),
        cmocka_unit_test(a_torn_frame_stays_in_the_text_and_is_reported),
        cmocka_unit_test(a_frame_over_the_limit_is_reported_before_its_payload_is_waited_for),
        cmocka_unit_test(a_true_frame_is_found_inside_a_false_one),
        cmocka_unit_test(a_run_has_one_result),
        cmocka_unit_test(unknown_versions_and_kinds_are_corrupt),
        cmocka_unit_test(nested_false_frames_cost_linear_work),
        cmocka_unit_test(the_check_sum_is_castagnolis),
        cmocka_unit_test(every_kind_and_verdict_has_a_name),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
