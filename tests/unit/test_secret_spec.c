#include "test.h"

#include <string.h>

#include "runtime/secrets/secret_spec.h"

static void each_form_has_its_target(void **state) {
    (void)state;
    static const struct {
        const char *text, *name, *target;
        enum pin_secret_form form;
    } cases[] = {
        {"KEY",            "KEY",   "KEY",   PIN_SECRET_ENV },
        {"KEY:env",        "KEY",   "KEY",   PIN_SECRET_ENV },
        {"a.b-c:env=A_1",  "a.b-c", "A_1",   PIN_SECRET_ENV },
        {"a.b-c:file",     "a.b-c", "a.b-c", PIN_SECRET_FILE},
        {"KEY:file=k.pem", "KEY",   "k.pem", PIN_SECRET_FILE},
    };
    for (size_t i = 0; i < PIN_COUNT(cases); i++) {
        struct pin_secret_spec spec;
        struct pin_error err = {0};
        assert_true(pin_secret_spec_parse(cases[i].text, &spec, &err));
        assert_string_equal(spec.name, cases[i].name);
        assert_string_equal(spec.target, cases[i].target);
        assert_int_equal(spec.form, cases[i].form);
    }
}

static void what_would_lead_elsewhere_is_refused(void **state) {
    (void)state;
    static const char *const bad[] = {"",         ":file",     "a/b",         "../a",        ".a",
                                      "KEY:",     "KEY:x",     "KEY:envx",    "KEY:env=",    "KEY:env=A=B",
                                      "a.b",      "KEY:file=", "KEY:file=..", "KEY:file=/e", "KEY:file=a/b",
                                      "1KEY:env", "KEY file"};
    char longer[PIN_SECRET_NAME_MAX + 1];
    struct pin_secret_spec spec;
    for (size_t i = 0; i < PIN_COUNT(bad); i++) {
        struct pin_error err = {0};
        if (pin_secret_spec_parse(bad[i], &spec, &err))
            fail_msg("'%s' is taken", bad[i]);
        assert_int_equal(err.kind, PIN_ERROR_USAGE);
    }
    struct pin_error err = {0};
    memset(longer, 'A', sizeof(longer) - 1);
    longer[sizeof(longer) - 1] = '\0';
    assert_false(pin_secret_spec_parse(longer, &spec, &err));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_form_has_its_target),
        cmocka_unit_test(what_would_lead_elsewhere_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
