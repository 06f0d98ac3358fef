#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/cleanup.h"
#include "base/names.h"
#include "base/units.h"
#include "runtime/supervise/base64.h"
#include "runtime/supervise/result.h"

static struct pin_text text_of(const char *text) {
    return (struct pin_text){(uint8_t *)strdup(text), strlen(text), false, strlen(text)};
}

static void expect_json(json_t *value, const char *expected) {
    PIN_FREE char *text = json_dumps(value, JSON_COMPACT | JSON_ENSURE_ASCII | JSON_ENCODE_ANY);
    assert_string_equal(text, expected);
    json_decref(value);
}

static void add_frame(struct pin_result *result, enum pin_frame_kind kind, const char *payload) {
    const struct pin_frame_info info = {.format = PIN_FRAME_PINFOLD,
                                        .verdict = PIN_FRAME_WHOLE,
                                        .kind = kind,
                                        .length = (uint32_t)strlen(payload)};
    pin_result_add_frame(result, &info, (const uint8_t *)payload, true, 1024);
}

static void an_object_has_the_documented_keys_in_their_order(void **state) {
    (void)state;
    static const char *const missing[] = {"landlock"};
    struct pin_result result = {.out = text_of("out"),
                                .err = text_of("err"),
                                .sandbox = "s1",
                                .fingerprint = "sha256:00",
                                .missing = missing,
                                .missing_count = 1,
                                .labels = json_pack("{s:s}", "tenant", "a")};
    result.usage = (struct pin_usage){
        .wall_ns = 1500 * PIN_NS_PER_MS,
        .cpu_ns = 2 * PIN_NS_PER_MS,
        .memory_peak_bytes = 4096,
        .pids_peak = 3,
        .egress = {.allowed = 1, .denied = 2, .bytes_out = 3, .bytes_in = 4}
    };
    expect_json(
        pin_result_json(&result),
        "{\"status\":\"success\",\"exit_code\":0,\"signal\":null,\"stdout\":\"out\",\"stderr\":\"err\","
        "\"encoding\":\"utf-8\",\"truncated\":{\"stdout\":false,\"stderr\":false},\"result\":null,"
        "\"frames\":[],\"usage\":{\"wall_ms\":1500,\"cpu_ms\":2,\"memory_peak_bytes\":4096,"
        "\"pids_peak\":3,\"egress\":{\"allowed\":1,\"denied\":2,\"bytes_out\":3,\"bytes_in\":4}},"
        "\"missing\":[\"landlock\"],\"sandbox\":\"s1\",\"fingerprint\":\"sha256:00\","
        "\"labels\":{\"tenant\":\"a\"}}");
    pin_result_free(&result);
}

static void changes_and_an_error_are_added_where_there_are_any(void **state) {
    (void)state;
    struct pin_result result = {.changes = json_array()};
    struct pin_error cause = {0};
    (void)pin_fail(&cause, PIN_ERROR_NOT_FOUND, "execute 'x\xff'");
    result.error = cause;
    json_t *object = pin_result_json(&result);
    assert_true(json_is_array(json_object_get(object, "changes")));
    const json_t *error = json_object_get(object, "error");
    assert_string_equal(json_string_value(json_object_get(error, "kind")), "not_found");
    assert_string_equal(json_string_value(json_object_get(error, "message")), "execute 'x\\xff'");
    json_decref(object);
    pin_result_free(&result);
}

static void one_stream_that_is_not_utf8_makes_both_base64(void **state) {
    (void)state;
    struct pin_result result = {.out = text_of("plain"), .err = text_of("\xff\xfe")};
    json_t *object = pin_result_json(&result);
    assert_string_equal(json_string_value(json_object_get(object, "encoding")), "base64");
    assert_string_equal(json_string_value(json_object_get(object, "stdout")), "cGxhaW4=");
    assert_string_equal(json_string_value(json_object_get(object, "stderr")), "//4=");
    json_decref(object);
    pin_result_free(&result);
}

static void a_zero_byte_is_kept_and_terminals_see_only_ascii(void **state) {
    (void)state;
    struct pin_result result = {.out = text_of("a?b\x1b[31m\xe2\x80\xae\xc2\x9b")};
    struct pin_error err = {0};
    char line[2048] = "";
    result.out.data[1] = '\0';
    PIN_CLOSE int fd = memfd_create("line", MFD_CLOEXEC);
    json_t *object = pin_result_json(&result);
    assert_true(pin_json_print(fd, object, &err));
    assert_true(pread(fd, line, sizeof(line) - 1, 0) > 0);
    assert_non_null(strstr(line, "\"stdout\":\"a\\u0000b\\u001B[31m\\u202E\\u009B\""));
    assert_ptr_equal(strchr(line, '\n'), line + strlen(line) - 1);
    json_decref(object);
    pin_result_free(&result);
}

static void a_result_is_json_text_or_base64_and_its_frame_says_which(void **state) {
    (void)state;
    static const struct {
        const char *payload, *result, *encoding;
    } rows[] = {
        {"{\"a\":[1,2.5,null]}",    "{\"a\":[1,2.5,null]}",          "json"  },
        {"\"text\"",                "\"text\"",                      "json"  },
        {"null",                    "null",                          "json"  },
        {"plain",                   "\"plain\"",                     "utf-8" },
        {"{\"a\":1,\"a\":2}",       "\"{\\\"a\\\":1,\\\"a\\\":2}\"", "utf-8" },
        {"NaN",                     "\"NaN\"",                       "utf-8" },
        {"1e999",                   "\"1e999\"",                     "utf-8" },
        {"99999999999999999999999", "\"99999999999999999999999\"",   "utf-8" },
        {"\"\\ud800\"",             "\"\\\"\\\\ud800\\\"\"",         "utf-8" },
        {"\x80pickle",              "\"gHBpY2tsZQ==\"",              "base64"},
        {"",                        "\"\"",                          "utf-8" },
    };
    for (size_t i = 0; i < PIN_COUNT(rows); i++) {
        struct pin_result result = {0};
        add_frame(&result, PIN_FRAME_PROGRESS, "1 %");
        add_frame(&result, PIN_FRAME_RESULT, rows[i].payload);
        json_t *object = pin_result_json(&result);
        expect_json(json_incref(json_object_get(object, "result")), rows[i].result);
        const json_t *frame = json_array_get(json_object_get(object, "frames"), 1);
        assert_string_equal(json_string_value(json_object_get(frame, "encoding")), rows[i].encoding);
        assert_null(json_object_get(frame, "payload"));
        json_decref(object);
        pin_result_free(&result);
    }
}

/* Deep or wide JSON would cost far more memory parsed than printed. */
static void json_that_costs_too_much_stays_text(void **state) {
    (void)state;
    static const size_t sizes[] = {5000, 600000};
    for (size_t i = 0; i < PIN_COUNT(sizes); i++) {
        PIN_FREE char *payload = malloc(sizes[i] + 1);
        for (size_t at = 0; at < sizes[i]; at++) /* brackets in brackets, then one list of many */
            payload[at] = i == 0 ? (at < sizes[i] / 2 ? '[' : ']') : (at % 2 == 0 ? '1' : ',');
        if (i == 1) {
            payload[0] = '[';
            payload[1] = '1';
            payload[sizes[i] - 1] = ']';
        }
        payload[sizes[i]] = '\0';
        struct pin_result result = {0};
        add_frame(&result, PIN_FRAME_RESULT, payload);
        json_t *object = pin_result_json(&result);
        assert_true(json_is_string(json_object_get(object, "result")));
        json_decref(object);
        pin_result_free(&result);
    }
}

static void frames_are_listed_with_their_verdicts(void **state) {
    (void)state;
    struct pin_result result = {0};
    add_frame(&result, PIN_FRAME_LOG, "\xff");
    const struct pin_frame_info torn = {.format = PIN_FRAME_LETTA,
                                        .verdict = PIN_FRAME_TORN,
                                        .kind = PIN_FRAME_RESULT,
                                        .length = 9,
                                        .offset = 5};
    pin_result_add_frame(&result, &torn, NULL, false, 1024);
    result.stray_bytes = 3;
    json_t *object = pin_result_json(&result);
    expect_json(
        json_incref(json_object_get(object, "frames")),
        "[{\"source\":\"fd\",\"format\":\"pinfold\",\"verdict\":\"whole\",\"kind\":\"log\",\"flags\":0,"
        "\"offset\":0,\"bytes\":1,\"encoding\":\"base64\",\"payload\":\"/w==\"},"
        "{\"source\":\"stdout\",\"format\":\"letta\",\"verdict\":\"torn\",\"kind\":\"result\",\"flags\":0,"
        "\"offset\":5,\"bytes\":9},{\"stray_bytes\":3}]");
    json_decref(object);
    pin_result_free(&result);
}

static void a_flood_of_frames_is_bounded_and_leaves_room_for_the_result(void **state) {
    (void)state;
    struct pin_result result = {0};
    char payload[101] = "";
    memset(payload, 'x', 100);
    for (int i = 0; i < 5000; i++)
        add_frame(&result, PIN_FRAME_LOG, i < 20 ? payload : "");
    add_frame(&result, PIN_FRAME_RESULT, "kept");
    assert_int_equal(result.frame_bytes, 1000);
    assert_int_equal(result.frame_count, PIN_FRAMES_KEPT_MAX + 1);
    assert_int_equal(result.frames_dropped, 5000 - PIN_FRAMES_KEPT_MAX);
    assert_non_null(pin_result_frame(&result));
    pin_result_free(&result);
}

static void exit_codes_come_from_the_wait_status(void **state) {
    (void)state;
    static const struct {
        int wait_status, exit_code, signal;
        enum pin_status status;
    } rows[] = {
        {0,              0,   0,       PIN_STATUS_SUCCESS},
        {1 << 8,         1,   0,       PIN_STATUS_ERROR  },
        {137 << 8,       137, 0,       PIN_STATUS_ERROR  },
        {SIGKILL,        137, SIGKILL, PIN_STATUS_KILLED },
        {SIGSEGV | 0x80, 139, SIGSEGV, PIN_STATUS_KILLED },
    };
    for (size_t i = 0; i < PIN_COUNT(rows); i++) {
        struct pin_result result = {0};
        pin_result_set_exit(&result, rows[i].wait_status);
        assert_int_equal(result.exit_code, rows[i].exit_code);
        assert_int_equal(result.signal, rows[i].signal);
        assert_int_equal(result.status, rows[i].status);
    }
}

static void signals_have_their_names(void **state) {
    (void)state;
    struct pin_result result = {.signal = SIGSEGV};
    json_t *object = pin_result_json(&result);
    assert_string_equal(json_string_value(json_object_get(object, "signal")), "SIGSEGV");
    json_decref(object);
    result.signal = SIGRTMIN + 2;
    object = pin_result_json(&result);
    assert_string_equal(json_string_value(json_object_get(object, "signal")), "SIGRTMIN+2");
    json_decref(object);
}

static void every_status_has_a_name(void **state) {
    (void)state;
    for (int status = 0; status < PIN_STATUS_COUNT; status++)
        assert_non_null(pin_status_name((enum pin_status)status));
    assert_null(pin_status_name(PIN_STATUS_COUNT));
}

static void an_error_is_one_object(void **state) {
    (void)state;
    struct pin_error error = {0};
    (void)pin_fail(&error, PIN_ERROR_REFUSED, "memory is too much");
    (void)pin_point(&error, "/resources/memory");
    (void)pin_hint(&error, "ask for less");
    expect_json(pin_error_json(&error), "{\"error\":{\"kind\":\"refused\",\"message\":\"memory is too much\","
                                        "\"pointer\":\"/resources/memory\",\"hint\":\"ask for less\"}}");
}

static void base64_is_padded(void **state) {
    (void)state;
    static const char *const rows[][2] = {
        {"",       ""        },
        {"f",      "Zg=="    },
        {"fo",     "Zm8="    },
        {"foo",    "Zm9v"    },
        {"foob",   "Zm9vYg=="},
        {"fooba",  "Zm9vYmE="},
        {"foobar", "Zm9vYmFy"},
    }; /* RFC 4648, section 10 */
    for (size_t i = 0; i < PIN_COUNT(rows); i++) {
        PIN_FREE char *text = pin_base64((const uint8_t *)rows[i][0], strlen(rows[i][0]));
        assert_string_equal(text, rows[i][1]);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_object_has_the_documented_keys_in_their_order),
        cmocka_unit_test(changes_and_an_error_are_added_where_there_are_any),
        cmocka_unit_test(one_stream_that_is_not_utf8_makes_both_base64),
        cmocka_unit_test(a_zero_byte_is_kept_and_terminals_see_only_ascii),
        cmocka_unit_test(a_result_is_json_text_or_base64_and_its_frame_says_which),
        cmocka_unit_test(json_that_costs_too_much_stays_text),
        cmocka_unit_test(frames_are_listed_with_their_verdicts),
        cmocka_unit_test(a_flood_of_frames_is_bounded_and_leaves_room_for_the_result),
        cmocka_unit_test(exit_codes_come_from_the_wait_status),
        cmocka_unit_test(signals_have_their_names),
        cmocka_unit_test(every_status_has_a_name),
        cmocka_unit_test(an_error_is_one_object),
        cmocka_unit_test(base64_is_padded),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
