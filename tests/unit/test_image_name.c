/* Names of images: what is one, and that no two share a file. */
#include "tests/unit/test.h"

#include <string.h>

#include "images/image_name.h"

#define HEX "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"

static void names_are_read_into_their_parts(void **state) {
    (void)state;
    static const struct {
        const char *text, *name, *tag, *digest, *printed, *file;
    } rows[] = {
        {"python-3.11",                "python-3.11",         "latest", "",            "python-3.11",                "python-3.11,latest"     },
        {"python:3.11",                "python",              "3.11",   "",            "python:3.11",                "python,3.11"            },
        {"a/b/c:latest",               "a/b/c",               "latest", "",            "a/b/c",                      "a+b+c,latest"           },
        {"localhost:5000/a",           "localhost:5000/a",    "latest", "",            "localhost:5000/a",           "localhost,5000+a,latest"},
        {"r.example:443/t/a_b:V1.0-x", "r.example:443/t/a_b", "V1.0-x", "",            "r.example:443/t/a_b:V1.0-x",
         "r.example,443+t+a_b,V1.0-x"                                                                                                         },
        {"a@sha256:" HEX,              "a",                   "latest", "sha256:" HEX, "a",                          "a,latest"               },
        {"a:b@sha256:" HEX,            "a",                   "b",      "sha256:" HEX, "a:b",                        "a,b"                    },
    };
    for (size_t i = 0; i < PIN_COUNT(rows); i++) {
        struct pin_error err = {0};
        struct pin_image_name name, again;
        char text[PIN_IMAGE_TEXT], file[PIN_IMAGE_FILE];
        assert_true(pin_image_name_parse(rows[i].text, &name, &err));
        assert_string_equal(name.name, rows[i].name);
        assert_string_equal(name.tag, rows[i].tag);
        assert_string_equal(name.digest, rows[i].digest);
        assert_string_equal(pin_image_name_print(text, &name), rows[i].printed);
        assert_string_equal(pin_image_name_file(file, &name), rows[i].file);
        assert_true(pin_image_name_from_file(file, &again));
        assert_string_equal(again.name, name.name);
        assert_string_equal(again.tag, name.tag);
    }
}

static void a_digest_alone_is_a_name_of_its_own(void **state) {
    (void)state;
    struct pin_error err = {0};
    struct pin_image_name name;
    assert_true(pin_image_name_parse("sha256:" HEX, &name, &err));
    assert_string_equal(name.name, "");
    assert_string_equal(name.digest, "sha256:" HEX);
}

static const char too_long[] = "a@sha256:" HEX "0", other_algorithm[] = "a@sha512:" HEX;

static void what_is_no_name_is_refused(void **state) {
    (void)state;
    static const char *const rows[] = {
        "",       "host",       "host:x",    "/",        "a/",          "/a",
        "a//b",   ".",          "..",        "a/..",     "a/../b",      "a..b",
        "-a",     "a-",         "_a",        ":tag",     "a:",          "a:b:c",
        "a b",    "a\n",        "a+b",       "a,b",      "a%2fb",       "\xc3\xa9",
        "a:.tag", "a:-tag",     "a:t/x:y:z", "a@",       "a@sha256:12", other_algorithm,
        too_long, "h:123456/a", "h:/a",      "a/b:80/c", "sha256:12/",
    };
    for (size_t i = 0; i < PIN_COUNT(rows); i++) {
        struct pin_error err = {0};
        struct pin_image_name name = {.name = "untouched"};
        if (pin_image_name_parse(rows[i], &name, &err))
            fail_msg("'%s' was taken for a name", rows[i]);
        assert_string_equal(name.name, "untouched");
        assert_true(pin_is_set(&err));
    }
}

static void names_have_a_greatest_length(void **state) {
    (void)state;
    char text[600];
    struct pin_image_name name;
    static const struct {
        size_t name, tag;
        bool good;
    } rows[] = {
        {200, 54,  true },
        {200, 55,  false},
        {201, 1,   false},
        {126, 128, true },
        {1,   129, false}
    };
    for (size_t i = 0; i < PIN_COUNT(rows); i++) {
        struct pin_error err = {0};
        memset(text, 'n', rows[i].name);
        text[rows[i].name] = ':';
        memset(text + rows[i].name + 1, 't', rows[i].tag);
        text[rows[i].name + 1 + rows[i].tag] = '\0';
        assert_int_equal(pin_image_name_parse(text, &name, &err), rows[i].good);
    }
}

static void only_sha256_in_lower_case_is_a_digest(void **state) {
    (void)state;
    assert_true(pin_image_is_digest("sha256:" HEX));
    static const char *const rows[] = {
        "",
        "sha256:",
        "sha256:" HEX "0",
        "sha256:../" HEX,
        "SHA256:" HEX,
        HEX,
        "sha512:" HEX,
        "sha256:0123456789ABCDEF0123456789abcdef0123456789abcdef0123456789abcdef"};
    for (size_t i = 0; i < PIN_COUNT(rows); i++)
        assert_false(pin_image_is_digest(rows[i]));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(names_are_read_into_their_parts),
        cmocka_unit_test(a_digest_alone_is_a_name_of_its_own),
        cmocka_unit_test(what_is_no_name_is_refused),
        cmocka_unit_test(names_have_a_greatest_length),
        cmocka_unit_test(only_sha256_in_lower_case_is_a_digest),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
