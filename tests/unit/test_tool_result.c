/* Results of tool calls: which messages count, and what is said of a run without one. */
#include "tests/unit/test.h"

#include <stdlib.h>
#include <string.h>

#include <jansson.h>

#include "runtime/tool/lines.h"
#include "runtime/tool/result.h"

#define KEY "00112233445566778899aabbccddeeff"

static json_t *judge(const struct pin_result *run, const char *payload, int *code) {
    struct pin_result result = *run;
    struct pin_frame_record frame = {
        .info = {.verdict = PIN_FRAME_WHOLE,
                 .kind = PIN_FRAME_RESULT,
                 .length = payload != NULL ? (uint32_t)strlen(payload) : 0},
        .from_fd = true,
        .payload = payload != NULL ? (uint8_t *)(uintptr_t)payload : NULL,
    };
    if (payload != NULL) {
        result.frames = &frame;
        result.frame_count = 1;
    }
    result.fingerprint = "sha256:0";
    return pin_tool_result_json(&result, KEY, code);
}

static const char *text_at(json_t *json, const char *key) {
    return json_string_value(json_object_get(json, key));
}

static void only_a_message_with_the_key_counts(void **state) {
    (void)state;
    static const struct {
        const char *payload, *status, *type; /* type: of the failure */
    } rows[] = {
        {"{\"ok\":true,\"func_return\":1,\"notes\":[],\"key\":\"" KEY "\"}", "success", NULL          },
        {"{\"ok\":true,\"key\":\"" KEY "\"}",                                "success", NULL          },
        {"{\"ok\":true,\"func_return\":1,\"key\":\"x\"}",                    "error",   "ForgedResult"},
        {"{\"ok\":true,\"func_return\":1}",                                  "error",   "ForgedResult"},
        {"{\"ok\":1,\"key\":\"" KEY "\"}",                                   "error",   "ForgedResult"},
        {"{\"ok\":true,\"notes\":[1],\"key\":\"" KEY "\"}",                  "error",   "ForgedResult"},
        {"{\"ok\":true,\"ok\":true,\"key\":\"" KEY "\"}",                    "error",   "ForgedResult"},
        {"\x80\x04N.",                                                       "error",   "ForgedResult"},
        {"[]",                                                               "error",   "ForgedResult"},
        {NULL,                                                               "error",   "NoResult"    },
    };
    for (size_t i = 0; i < PIN_COUNT(rows); i++) {
        int code = -1;
        const struct pin_result run = {.status = PIN_STATUS_SUCCESS};
        json_t *json = judge(&run, rows[i].payload, &code);
        assert_string_equal(text_at(json, "status"), rows[i].status);
        assert_int_equal(code, rows[i].type != NULL);
        if (rows[i].type != NULL)
            assert_string_equal(text_at(json_object_get(json, "func_return"), "type"), rows[i].type);
        json_decref(json);
    }
}

#define VALUE "{\"ok\":true,\"func_return\":1,\"agent_state\":{\"a\":1},\"key\":\"" KEY "\"}"
#define FAULT "{\"ok\":false,\"func_return\":{\"type\":\"E\"},\"key\":\"" KEY "\"}"

/* The descriptor's frame, stdout's, and what is made of them; a frame in stdout is only there where stdout is
 * searched. */
static void a_letta_frame_stands_for_the_value_and_for_nothing_else(void **state) {
    (void)state;
    /* clang-format off */
    static const struct {
        const char *from_fd, *letta, *status, *value, *agent_state;
    } rows[] = {
        {VALUE, "{\"results\":[2]}",                             "success", "[2]",                   "{\"a\":1}"},
        {VALUE, "{\"results\":null,\"agent_state\":{\"b\":2}}",  "success", "null",                  "{\"b\":2}"},
        {VALUE, "{\"other\":2}",                                 "success", "{\"other\":2}",         "{\"a\":1}"},
        {VALUE, "7",                                             "success", "7",                     "{\"a\":1}"},
        {VALUE, "\x80\x04N.",                                    "success", "\"gAROLg==\"",          "{\"a\":1}"},
        {VALUE, "{\"results\":1,\"results\":2}",                 "success", "\"eyJyZXN1bHRzIjoxLCJyZXN1bHRzIjoyfQ==\"", "{\"a\":1}"},
        {VALUE, NULL,                                            "success", "1",                     "{\"a\":1}"},
        {FAULT, "{\"results\":2}",                               "error",   "{\"type\":\"E\"}",      "null"},
        {NULL,  "{\"results\":2}",                               "success", "2",                     "null"},
        {"[]",  "{\"results\":2}",                               "error",   NULL,                    "null"},
    };
    /* clang-format on */
    for (size_t i = 0; i < PIN_COUNT(rows); i++) {
        const char *payloads[] = {rows[i].from_fd, rows[i].letta};
        struct pin_frame_record frames[2];
        struct pin_result run = {.status = PIN_STATUS_SUCCESS, .fingerprint = "sha256:0", .frames = frames};
        int code = -1;
        for (size_t n = 0; n < 2; n++)
            if (payloads[n] != NULL)
                frames[run.frame_count++] = (struct pin_frame_record){
                    .info = {.format = n == 0 ? PIN_FRAME_PINFOLD : PIN_FRAME_LETTA,
                             .verdict = PIN_FRAME_WHOLE,
                             .kind = PIN_FRAME_RESULT,
                             .length = (uint32_t)strlen(payloads[n])},
                    .from_fd = n == 0,
                    .payload = (uint8_t *)(uintptr_t)payloads[n],
                };
        json_t *json = pin_tool_result_json(&run, KEY, &code);
        assert_string_equal(text_at(json, "status"), rows[i].status);
        char *value = json_dumps(json_object_get(json, "func_return"), JSON_COMPACT | JSON_ENCODE_ANY);
        char *agent = json_dumps(json_object_get(json, "agent_state"), JSON_COMPACT | JSON_ENCODE_ANY);
        if (rows[i].value != NULL)
            assert_string_equal(value, rows[i].value);
        assert_string_equal(agent, rows[i].agent_state);
        free(value);
        free(agent);
        json_decref(json);
    }
}

static void what_the_kernel_says_is_over_what_the_runner_says(void **state) {
    (void)state;
    static const struct {
        enum pin_status status;
        int code;
        const char *name, *type;
    } rows[] = {
        {PIN_STATUS_TIMEOUT, 124, "timeout", "Timeout"    },
        {PIN_STATUS_MEMORY,  137, "memory",  "MemoryLimit"},
        {PIN_STATUS_OUTPUT,  137, "output",  "OutputLimit"},
        {PIN_STATUS_KILLED,  139, "killed",  "Killed"     },
    };
    for (size_t i = 0; i < PIN_COUNT(rows); i++) {
        int code = -1;
        const struct pin_result run = {.status = rows[i].status, .exit_code = rows[i].code};
        json_t *json = judge(&run, "{\"ok\":true,\"key\":\"" KEY "\"}", &code);
        assert_int_equal(code, rows[i].code);
        assert_string_equal(text_at(json, "status"), rows[i].name);
        assert_string_equal(text_at(json_object_get(json, "func_return"), "type"), rows[i].type);
        json_decref(json);
    }
}

static void output_comes_as_lines(void **state) {
    (void)state;
    static const struct {
        const char *text, *lines;
        bool replaced;
    } rows[] = {
        {"",               "[]",                        false},
        {"a",              "[\"a\"]",                   false},
        {"a\nb\n",         "[\"a\",\"b\"]",             false},
        {"\n\na",          "[\"\",\"\",\"a\"]",         false},
        {"a\r\n",          "[\"a\\r\"]",                false},
        {"x\xFFy\xC3",     "[\"x\\uFFFDy\\uFFFD\"]",    true },
        {"\xC3\xBC\n\x80", "[\"\\u00FC\",\"\\uFFFD\"]", true },
    };
    for (size_t i = 0; i < PIN_COUNT(rows); i++) {
        bool replaced = false;
        json_t *lines = pin_tool_lines((const uint8_t *)rows[i].text, strlen(rows[i].text), &replaced);
        char *text = json_dumps(lines, JSON_COMPACT | JSON_ENSURE_ASCII);
        assert_string_equal(text, rows[i].lines);
        assert_true(replaced == rows[i].replaced);
        free(text);
        json_decref(lines);
    }
}

static void a_flood_of_lines_is_bounded_and_keeps_its_bytes(void **state) {
    (void)state;
    size_t size = (size_t)1024 * 1024;
    uint8_t *data = malloc(size);
    bool replaced = false;
    assert_non_null(data);
    memset(data, '\n', size);
    json_t *lines = pin_tool_lines(data, size, &replaced);
    size_t count = json_array_size(lines);
    assert_true(count <= (size_t)256 * 1024);
    assert_int_equal(count - 1 + json_string_length(json_array_get(lines, count - 1)), size);
    json_decref(lines);
    free(data);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(only_a_message_with_the_key_counts),
        cmocka_unit_test(a_letta_frame_stands_for_the_value_and_for_nothing_else),
        cmocka_unit_test(what_the_kernel_says_is_over_what_the_runner_says),
        cmocka_unit_test(output_comes_as_lines),
        cmocka_unit_test(a_flood_of_lines_is_bounded_and_keeps_its_bytes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
