#include "policy/json_source.h"
#include "policy_fixture.h"

static bool read_text(struct pin_json_source *source, const char *text, size_t size,
                      struct pin_findings *found) {
    memset(source, 0, sizeof(*source));
    memset(found, 0, sizeof(*found));
    return pin_json_read(source, "f.json", text, size, found);
}

static void text_that_is_not_json_is_refused_with_its_place(void **state) {
    (void)state;
    static const struct {
        const char *text;
        size_t size;
        const char *pointer, *message;
    } rows[] = {
        {"\xEF\xBB\xBF{}",                5,  "f.json:1:1", "byte order mark"     },
        {"{\n \"a\":\0 1}",               11, "f.json:2:6", "NUL byte"            },
        {"{\"a\": \"\xFF\"}",             9,  "f.json:1:8", "not UTF-8"           },
        {"{\"\xC3\xBC\": \"\xC0\x80\"}",  11, "f.json:1:8", "not UTF-8"           },
        {"{} x",                          4,  "f.json:1:4", "end of file expected"},
        {"{\"a\": 1,}",                   9,  "f.json:1:9", "not JSON"            },
        {"{\"a\": 01}",                   9,  "f.json:1",   "not JSON"            },
        {"{'a': 1}",                      8,  "f.json:1",   "not JSON"            },
        {"",                              0,  "f.json:1",   "not JSON"            },
        {"1",                             1,  "f.json:1",   "not JSON"            },
        {"{\"a\": \"\\u0000\"}",          15, "f.json:1",   "not JSON"            },
        {"{\"a\": \"\\ud800\"}",          15, "f.json:1",   "not JSON"            },
        {"// x\n{}",                      7,  "f.json:1",   "not JSON"            },
        {"{\"a\": 99999999999999999999}", 27, "f.json:1",   "too big"             },
        {"{\"a\": 1e999}",                12, "f.json:1",   "overflow"            },
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct pin_json_source source;
        static struct pin_findings found;
        assert_false(read_text(&source, rows[i].text, rows[i].size, &found));
        assert_int_equal(found.count, 1);
        assert_int_equal(found.list[0].kind, PIN_ERROR_SYNTAX);
        if (strncmp(found.list[0].pointer, rows[i].pointer, strlen(rows[i].pointer)) != 0 ||
            strstr(found.list[0].message, rows[i].message) == NULL)
            fail_msg("row %zu: %s: %s", i, found.list[0].pointer, found.list[0].message);
        pin_json_free(&source);
    }
}

static void every_value_has_its_place(void **state) {
    (void)state;
    static const char text[] = "{\n  \"\xC3\xBC\": [1, \"a\\\"b\",\n    {\"deep\": null}],\r\n\t\"z\":true }";
    struct pin_json_source source;
    static struct pin_findings found;
    assert_true(read_text(&source, text, strlen(text), &found));
    const struct pin_json *list = source.root->first, *flag = list->next;
    const struct pin_json *deep = list->first->next->next;
    assert_string_equal(list->key, "\xC3\xBC");
    assert_int_equal(list->count, 3);
    assert_int_equal(list->line, 2);
    assert_int_equal(list->column, 8); /* the umlaut is one column */
    assert_int_equal(list->first->next->column, 12);
    assert_string_equal(json_string_value(list->first->next->value), "a\"b");
    assert_int_equal(deep->first->line, 3);
    assert_int_equal(deep->first->column, 14);
    assert_true(json_is_null(deep->first->value));
    assert_int_equal(flag->key_line, 4);
    assert_int_equal(flag->key_column, 2);
    assert_true(json_is_true(flag->value));
    pin_json_free(&source);
}

static void all_duplicate_keys_are_found_even_when_written_differently(void **state) {
    (void)state;
    static const char text[] = "{\"a\": 1, \"b\": {\"x\": 1, \"x\": 2}, \"\\u0061\": {\"q\": [1]}, \"a\": 3}";
    struct pin_json_source source;
    static struct pin_findings found;
    assert_true(read_text(&source, text, strlen(text), &found));
    assert_int_equal(found.count, 3);
    assert_non_null(finding_at(&found, "/b/x"));
    assert_non_null(finding_at(&found, "f.json:1:33 /a"));
    assert_null(source.root->first->value); /* neither of them counts */
    assert_null(source.root->first->next->next->value);
    pin_json_free(&source);
}

static void nesting_is_bounded(void **state) {
    (void)state;
    char text[256];
    for (size_t depth = 32; depth <= 34; depth++) {
        memset(text, '[', depth);
        memset(text + depth, ']', depth);
        struct pin_json_source source;
        static struct pin_findings found;
        assert_int_equal(read_text(&source, text, 2 * depth, &found), depth <= 33);
        if (depth == 34) /* 33 lists around level 33 */
            assert_non_null(strstr(found.list[0].message, "32 levels"));
        pin_json_free(&source);
    }
}

static void the_front_of_a_long_file_name_is_cut_never_the_place(void **state) {
    (void)state;
    char where[128], name[300];
    memset(name, 'd', sizeof(name) - 1);
    memcpy(name + sizeof(name) - 8, "/p.json", 8);
    pin_json_where(where, sizeof(where), name, 12, 7, "/network/egress");
    assert_int_equal(strlen(where), sizeof(where) - 1);
    assert_memory_equal(where, "...d", 4);
    assert_non_null(strstr(where, "/p.json:12:7 /network/egress"));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(text_that_is_not_json_is_refused_with_its_place),
        cmocka_unit_test(every_value_has_its_place),
        cmocka_unit_test(all_duplicate_keys_are_found_even_when_written_differently),
        cmocka_unit_test(nesting_is_bounded),
        cmocka_unit_test(the_front_of_a_long_file_name_is_cut_never_the_place),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
