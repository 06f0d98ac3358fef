/* Results of cells: which messages count, what is taken over of them, and when a context is lost. */
#include "tests/unit/test.h"

#include <string.h>

#include "base/names.h"
#include "tools/pinfold-kept/code_result.h"

#define KEY "00112233445566778899aabbccddeeff"
#define SAID(error)                                                                                          \
    "{\"key\":\"" KEY "\",\"execution_count\":7,\"results\":[],\"error\":" error ",\"notes\":[]}"

static struct pin_code_outcome judge(const char *status, int code, const char *said) {
    json_t *result = json_pack("{s:s, s:i}", "status", status, "exit_code", code);
    if (said != NULL)
        (void)json_object_set_new(result, "result", json_loads(said, JSON_DECODE_ANY, NULL));
    struct pin_code_outcome outcome = pin_code_result(result, KEY);
    json_decref(result);
    return outcome;
}

static void what_the_supervisor_says_is_over_what_the_context_says(void **state) {
    (void)state;
    static const struct {
        const char *status;
        int code;
        const char *said, *expected, *type; /* type: of the error; NULL: none */
        int exit_code;
        bool lost;
    } rows[] = {
        {"success", 0,   SAID("null"),                     "success", NULL,           0,   false},
        {"success", 0,   SAID("{\"type\":\"E\"}"),         "error",   "E",            1,   false},
        {"timeout", 124, SAID("{\"type\":\"E\"}"),         "timeout", "E",            124, false},
        {"timeout", 124, SAID("null"),                     "timeout", "Timeout",      124, false},
        {"timeout", 124, NULL,                             "timeout", "Timeout",      124, true },
        {"error",   1,   NULL,                             "error",   "ContextEnded", 1,   true },
        {"memory",  137, NULL,                             "memory",  "MemoryLimit",  137, true },
        {"output",  137, NULL,                             "output",  "OutputLimit",  137, true },
        {"killed",  137, NULL,                             "killed",  "Killed",       137, true },
        {"success", 0,   "{\"key\":\"0\",\"results\":[]}", "error",   "ForgedResult", 1,   false},
        {"success", 0,   "{\"key\":\"" KEY "\"}",          "error",   "ForgedResult", 1,   false},
        {"success", 0,   "[1]",                            "error",   "ForgedResult", 1,   false},
        {"error",   1,   "\"text\"",                       "error",   "ForgedResult", 1,   true },
    };
    for (size_t i = 0; i < PIN_COUNT(rows); i++) {
        struct pin_code_outcome outcome = judge(rows[i].status, rows[i].code, rows[i].said);
        const json_t *error = json_object_get(outcome.object, "error");
        assert_string_equal(json_string_value(json_object_get(outcome.object, "status")), rows[i].expected);
        assert_int_equal(outcome.exit_code, rows[i].exit_code);
        assert_int_equal(outcome.lost, rows[i].lost);
        assert_int_equal(json_is_null(error), rows[i].type == NULL);
        if (rows[i].type != NULL)
            assert_string_equal(json_string_value(json_object_get(error, "type")), rows[i].type);
        json_decref(outcome.object);
    }
}

static void only_known_types_of_the_right_form_are_taken_over(void **state) {
    (void)state;
    struct pin_code_outcome outcome =
        judge("success", 0,
              "{\"key\":\"" KEY "\",\"results\":[{\"text/plain\":1,\"image/png\":\"<script>\",\"x/y\":\"z\"},"
              "5,{\"image/png\":\"aGk=\",\"application/json\":null}],\"error\":null,\"notes\":[1,\"n\"]}");
    json_t *expected = json_loads("[{},{\"image/png\":\"aGk=\",\"application/json\":null}]", 0, NULL);
    json_t *notes = json_loads("[\"n\"]", 0, NULL);
    assert_true(json_equal(json_object_get(outcome.object, "results"), expected));
    assert_true(json_equal(json_object_get(outcome.object, "notes"), notes));
    json_decref(notes);
    json_decref(expected);
    json_decref(outcome.object);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_the_supervisor_says_is_over_what_the_context_says),
        cmocka_unit_test(only_known_types_of_the_right_form_are_taken_over),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
