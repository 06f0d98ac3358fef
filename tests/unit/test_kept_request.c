#include <string.h>

#include "runtime/kept/request.h"
#include "test.h"

static bool parse(const char *text, struct pin_kept_request *request, struct pin_error *err) {
    return pin_kept_request_parse(text, strlen(text), request, err);
}

static void an_exec_is_read_whole(void **state) {
    struct pin_kept_request request;
    struct pin_error err = {0};
    (void)state;
    assert_true(
        parse("{\"pinfold\":1,\"id\":7,\"verb\":\"exec\",\"args\":[\"sh\",\"-c\"],\"env\":{\"A\":\"1\"},"
              "\"cwd\":\"/tmp\",\"stdin\":true,\"stdout\":true,\"timeout_ms\":5,\"output\":\"stream\"}",
              &request, &err));
    assert_int_equal(request.id, 7);
    assert_int_equal(request.arg_count, 2);
    assert_string_equal(request.args[1], "-c");
    assert_null(request.args[2]);
    assert_string_equal(request.env[0], "A=1");
    assert_null(request.env[1]);
    assert_true(request.input && request.out && !request.err && request.has_timeout);
    assert_int_equal(request.timeout_ms, 5);
    assert_int_equal(request.output, PIN_OUTPUT_STREAM);
    pin_kept_request_free(&request);
}

static void a_context_has_its_times_and_a_cell_its_context(void **state) {
    struct pin_kept_request request;
    struct pin_error err = {0}, fault = {0};
    (void)state;
    assert_true(
        parse("{\"pinfold\":1,\"verb\":\"exec\",\"args\":[\"python3\"],\"detach\":true,\"context\":true,"
              "\"idle_ms\":7,\"lifetime_ms\":9}",
              &request, &err));
    assert_true(request.context && request.detach && request.has_idle && request.has_lifetime);
    assert_int_equal(request.idle_ms, 7);
    assert_int_equal(request.lifetime_ms, 9);
    pin_kept_request_free(&request);
    assert_true(parse("{\"pinfold\":1,\"verb\":\"exec\",\"args\":[\"x\"],\"cell_of\":3,\"hand\":true}",
                      &request, &err));
    assert_true(request.hand);
    assert_int_equal(request.cell_of, 3);
    pin_kept_request_free(&request);
    assert_false(parse("{\"pinfold\":1,\"verb\":\"renew\",\"context\":true}", &request, &fault));
    pin_kept_request_free(&request);
}

static void a_call_has_a_key_and_no_command(void **state) {
    static const char too_long[] = "{\"pinfold\":1,\"verb\":\"call\",\"key\":"
                                   "\"01234567890123456789012345678901234567890123456789012345678901234\"}";
    static const char *const refused[] = {
        "{\"pinfold\":1,\"verb\":\"call\"}",
        "{\"pinfold\":1,\"verb\":\"call\",\"key\":\"k\",\"args\":[\"sh\"]}",
        too_long,
        "{\"pinfold\":1,\"verb\":\"exec\",\"args\":[\"sh\"],\"key\":\"k\"}",
    };
    struct pin_kept_request request;
    (void)state;
    struct pin_error err = {0};
    assert_true(
        parse("{\"pinfold\":1,\"id\":2,\"verb\":\"call\",\"key\":\"abc\",\"if_idle\":true,\"timeout_ms\":9}",
              &request, &err));
    assert_string_equal(request.key, "abc");
    assert_true(request.if_idle && request.has_timeout);
    pin_kept_request_free(&request);
    for (size_t i = 0; i < sizeof(refused) / sizeof(refused[0]); i++) {
        struct pin_error fault = {0};
        assert_false(parse(refused[i], &request, &fault));
        assert_true(pin_is_set(&fault));
        pin_kept_request_free(&request);
    }
}

static void connections_that_are_lent_are_listed(void **state) {
    struct pin_kept_request request;
    struct pin_error err = {0};
    (void)state;
    assert_true(parse("{\"pinfold\":1,\"verb\":\"exec\",\"args\":[\"x\"],\"stdin\":true,\"lent\":[4,9]}",
                      &request, &err));
    assert_int_equal(request.lent_count, 2);
    assert_int_equal(request.lent[1], 9);
    pin_kept_request_free(&request);
}

static void every_verb_has_a_name_of_its_own(void **state) {
    (void)state;
    for (int verb = 0; verb < PIN_KEPT_VERB_COUNT; verb++)
        for (int other = 0; other < verb; other++)
            assert_string_not_equal(pin_kept_verb_name((enum pin_kept_verb)verb),
                                    pin_kept_verb_name((enum pin_kept_verb)other));
    assert_null(pin_kept_verb_name(PIN_KEPT_VERB_COUNT));
}

static void what_is_wrong_is_refused_and_named(void **state) {
    static const struct {
        const char *text, *pointer;
        enum pin_error_kind kind;
    } cases[] = {
        {"",                                                                                "",            PIN_ERROR_SYNTAX     },
        {"[]",                                                                              "",            PIN_ERROR_SYNTAX     },
        {"{\"pinfold\":1,\"pinfold\":1,\"verb\":\"show\"}",                                 "",            PIN_ERROR_SYNTAX     },
        {"{\"verb\":\"show\"}",                                                             "/pinfold",    PIN_ERROR_UNSUPPORTED},
        {"{\"pinfold\":2,\"verb\":\"show\"}",                                               "/pinfold",    PIN_ERROR_UNSUPPORTED},
        {"{\"pinfold\":1}",                                                                 "/verb",       PIN_ERROR_INVALID    },
        {"{\"pinfold\":1,\"verb\":\"sho\"}",                                                "/verb",       PIN_ERROR_INVALID    },
        {"{\"pinfold\":1,\"verb\":\"show\",\"args\":[\"x\"]}",                              "/args",       PIN_ERROR_INVALID    },
        {"{\"pinfold\":1,\"verb\":\"exec\"}",                                               "/args",       PIN_ERROR_INVALID    },
        {"{\"pinfold\":1,\"verb\":\"exec\",\"args\":[]}",                                   "/args",       PIN_ERROR_INVALID    },
        {"{\"pinfold\":1,\"verb\":\"exec\",\"args\":[\"\"]}",                               "/args",       PIN_ERROR_INVALID    },
        {"{\"pinfold\":1,\"verb\":\"exec\",\"args\":[1]}",                                  "/args",       PIN_ERROR_INVALID    },
        {"{\"pinfold\":1,\"verb\":\"exec\",\"args\":[\"x\"],\"env\":{\"A=B\":\"1\"}}",      "/env",
         PIN_ERROR_INVALID                                                                                                      },
        {"{\"pinfold\":1,\"verb\":\"exec\",\"args\":[\"x\"],\"env\":{\"\":\"1\"}}",         "/env",
         PIN_ERROR_INVALID                                                                                                      },
        {"{\"pinfold\":1,\"verb\":\"exec\",\"args\":[\"x\"],\"lent\":[1,2,3,4]}",           "/lent",       PIN_ERROR_INVALID    },
        {"{\"pinfold\":1,\"verb\":\"exec\",\"args\":[\"x\"],\"lent\":[\"1\"]}",             "/lent",       PIN_ERROR_INVALID    },
        {"{\"pinfold\":1,\"verb\":\"exec\",\"args\":[\"x\"],\"cwd\":\"tmp\"}",              "/cwd",        PIN_ERROR_INVALID    },
        {"{\"pinfold\":1,\"verb\":\"exec\",\"args\":[\"x\"],\"rows\":65536}",               "/rows",       PIN_ERROR_INVALID    },
        {"{\"pinfold\":1,\"verb\":\"exec\",\"args\":[\"x\"],\"timeout_ms\":-1}",            "/timeout_ms",
         PIN_ERROR_INVALID                                                                                                      },
        {"{\"pinfold\":1,\"verb\":\"exec\",\"args\":[\"x\"],\"tty\":1}",                    "/tty",        PIN_ERROR_INVALID    },
        {"{\"pinfold\":1,\"verb\":\"exec\",\"args\":[\"x\"],\"tty\":true,\"stderr\":true}", "/stderr",
         PIN_ERROR_INVALID                                                                                                      },
        {"{\"pinfold\":1,\"verb\":\"exec\",\"args\":[\"x\"],\"output\":\"stream\"}",        "/stdout",
         PIN_ERROR_INVALID                                                                                                      },
        {"{\"pinfold\":1,\"verb\":\"exec\",\"args\":[\"x\\u0000y\"]}",                      "",            PIN_ERROR_SYNTAX     },
        {"{\"pinfold\":1,\"verb\":\"signal\",\"exec\":1}",                                  "/signal",     PIN_ERROR_INVALID    },
        {"{\"pinfold\":1,\"verb\":\"signal\",\"signal\":65}",                               "/signal",     PIN_ERROR_INVALID    },
    };
    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct pin_kept_request request;
        struct pin_error err = {0};
        if (parse(cases[i].text, &request, &err))
            fail_msg("accepted: %s", cases[i].text);
        assert_int_equal(err.kind, cases[i].kind);
        assert_string_equal(err.pointer, cases[i].pointer);
        pin_kept_request_free(&request);
    }
}

static void an_error_still_knows_whose_request_it_was(void **state) {
    struct pin_kept_request request;
    struct pin_error err = {0};
    (void)state;
    assert_false(parse("{\"pinfold\":1,\"id\":12,\"verb\":\"nothing\"}", &request, &err));
    assert_int_equal(request.id, 12);
    pin_kept_request_free(&request);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_exec_is_read_whole),
        cmocka_unit_test(a_context_has_its_times_and_a_cell_its_context),
        cmocka_unit_test(a_call_has_a_key_and_no_command),
        cmocka_unit_test(connections_that_are_lent_are_listed),
        cmocka_unit_test(every_verb_has_a_name_of_its_own),
        cmocka_unit_test(what_is_wrong_is_refused_and_named),
        cmocka_unit_test(an_error_still_knows_whose_request_it_was),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
