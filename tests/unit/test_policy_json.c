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
        {"\xEF\xBB\xBF{}",                5,  "f.json:1:1",       "byte order mark"            },
        {"{\n \"a\":\0 1}",               11, "f.json:2:6 /a",    "NUL byte"                   },
        {"{\"a\": \"\xFF\"}",             9,  "f.json:1:8 /a",    "not UTF-8"                  },
        {"{\"\xC3\xBC\": \"\xC0\x80\"}",  11, "f.json:1:8 /",     "not UTF-8"                  },
        {"{\"\xFF\": 1}",                 8,  "f.json:1:3",       "not UTF-8"                  },
        {"{} x",                          4,  "f.json:1:4",       "text after the end"         },
        {"{\"a\": 1,}",                   9,  "f.json:1:9",       "a comma after the last item"},
        {"{\"a\": 01}",                   9,  "f.json:1:7 /a",    "'01' is no value"           },
        {"{'a': 1}",                      8,  "f.json:1:2",       "a key in single quotes"     },
        {"",                              0,  "f.json:1:1",       "nothing in it"              },
        {"1",                             1,  "f.json:1:1",       "neither an object"          },
        {"\xFF\xFE{\0}\0",                6,  "f.json:1:1",       "not UTF-8"                  },
        {"{\"a\": \"\\u0000\"}",          15, "f.json:1:7 /a",    "\\u0000 in a text"          },
        {"{\"a\": \"\\ud800\"}",          15, "f.json:1:7 /a",    "invalid Unicode"            },
        {"{\"a\": \"\\x\"}",              11, "f.json:1:7 /a",    "invalid escape"             },
        {"// x\n{}",                      7,  "f.json:1:1",       "a comment"                  },
        {"{/* x\n */}",                   10, "f.json:1:2",       "a comment"                  },
        {"{\"a\": 99999999999999999999}", 27, "f.json:1:7 /a",    "too big"                    },
        {"{\"a\": 1e999}",                12, "f.json:1:7 /a",    "overflow"                   },
        {"[1 2]",                         5,  "f.json:1:4",       "a comma is missing"         },
        {"[[1,,2]]",                      8,  "f.json:1:5 /0",    "nothing before it"          },
        {"{\"a\": [1}",                   9,  "f.json:1:9 /a",    "'}' where the '['"          },
        {"{\"a\": [1}}",                  10, "f.json:1:9 /a",    "'}' where the '['"          },
        {"{\"a\": {\"b\": [1, 2",         17, "f.json:1:18 /a/b", "text ends where the '['"    },
        {"{\"a\": \"b}",                  9,  "f.json:1:7 /a",    "a quote that isn't closed"  },
        {"{\"a\" 1}",                     7,  "f.json:1:6 /a",    "a key without a colon"      },
        {"{\"a\"}",                       5,  "f.json:1:5 /a",    "a key without a value"      },
        {"{\"a\": True}",                 11, "f.json:1:7 /a",    "'True' is no value"         },
        {"{[]: 1}",                       7,  "f.json:1:2",       "a key is missing"           },
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct pin_json_source source;
        static struct pin_findings found;
        (void)read_text(&source, rows[i].text, rows[i].size, &found);
        if (found.count == 0 || found.list[0].kind != PIN_ERROR_SYNTAX || found.list[0].hint[0] == '\0' ||
            strncmp(found.list[0].pointer, rows[i].pointer, strlen(rows[i].pointer)) != 0 ||
            strstr(found.list[0].message, rows[i].message) == NULL)
            fail_msg("row %zu: %zu: %s: %s", i, found.count, found.list[0].pointer, found.list[0].message);
        pin_json_free(&source);
    }
}

static void what_stands_beside_faults_is_read_and_the_next_ones_are_found(void **state) {
    (void)state;
    static const char text[] = "{ // all at once\n"
                               "  \"good\": [1, {\"b\": 2}],\n"
                               "  \"word\": api.example.com:443,\n"
                               "  \"list\": [1, True, 3],\n"
                               "  \"open\": \"x,\n"
                               "  bare: 'single',\n"
                               "  \"colon\" = 4\n"
                               "  \"deep\": {\"a\": [1, 2}, \"twice\": 5, \"twice\": 6,,\n"
                               "  \"last\": 7,\n"
                               "} {}";
    static const char *const pointers[] = {
        "f.json:1:3",       "f.json:3:11 /word",  "f.json:4:15 /list/1", "f.json:5:11 /open",   "f.json:6:3",
        "f.json:6:9 /bare", "f.json:7:11 /colon", "f.json:8:3",          "f.json:8:22 /deep/a", "f.json:8:48",
        "f.json:10:1",      "f.json:10:3",        "f.json:8:37 /twice",
    };
    struct pin_json_source source;
    static struct pin_findings found;
    assert_true(read_text(&source, text, strlen(text), &found));
    for (size_t i = 0; i < sizeof(pointers) / sizeof(pointers[0]); i++)
        if (i >= found.count || strcmp(found.list[i].pointer, pointers[i]) != 0)
            fail_msg("%zu: %s: %s", i, found.list[i].pointer, found.list[i].message);
    assert_int_equal(found.count, sizeof(pointers) / sizeof(pointers[0]));
    assert_int_equal(json_integer_value(pin_json_member(source.root, "good")->first->next->first->value), 2);
    assert_int_equal(json_integer_value(pin_json_member(source.root, "colon")->value), 4);
    assert_int_equal(json_integer_value(pin_json_member(source.root, "last")->value), 7);
    static const char *const faulty[] = {"word", "list", "open", "bare", "twice"};
    for (size_t i = 0; i < sizeof(faulty) / sizeof(faulty[0]); i++)
        assert_null(pin_json_member(source.root, faulty[i])->value);
    pin_json_free(&source);
}

/* Each text ends with a "last" key whose value can be told, although a bracket before it is missing. */
static void what_follows_a_bracket_that_is_missing_is_read_where_it_belongs(void **state) {
    (void)state;
    static const struct {
        const char *text;
        const char *pointers[3];
    } rows[] = {
        {"{\"a\": [1, 2,\n \"last\": 7}",                              {"f.json:2:2 /a"}                   },
        {"{\"a\": [1, 2\n \"last\": 7}",                               {"f.json:2:2 /a"}                   },
        {"{\"a\": [{\"b\": 1}, {\"c\": 2}, \"last\": 7}",              {"f.json:1:28 /a"}                  },
        {"{\"a\": [{\"b\": 1, {\"c\": 2}], \"last\": 7}",              {"f.json:1:17 /a/0"}                },
        {"{\n  \"a\": {\"b\": 1,\n  \"last\": 7\n}",                   {"f.json:3:3 /a"}                   },
        {"{\n  \"a\": {\n    \"b\": [1, {\"c\": 2,\n  \"last\": 7\n}",
         {"f.json:4:3 /a/b/1", "f.json:4:3 /a/b", "f.json:4:3 /a"}                                         },
        {"{\n  \"a\": {\"b\": [1, 2,\n  \"last\": 7\n}",               {"f.json:3:3 /a/b", "f.json:3:3 /a"}},
        {"{\"a\": [1], \"last\": 7",                                   {"f.json:1:21"}                     },
        {"{\"last\": 7, \"a\": [1, 2",                                 {"f.json:1:23 /a"}                  },
        {"{\"last\": 7, \"a\": {\"b\": \"x",                           {"f.json:1:24 /a/b"}                },
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct pin_json_source source;
        static struct pin_findings found;
        bool read = read_text(&source, rows[i].text, strlen(rows[i].text), &found);
        size_t count = 0;
        for (; count < 3 && rows[i].pointers[count] != NULL; count++)
            if (count >= found.count || strcmp(found.list[count].pointer, rows[i].pointers[count]) != 0)
                fail_msg("row %zu: %s: %s", i, found.list[count].pointer, found.list[count].message);
        const struct pin_json *last = read ? pin_json_member(source.root, "last") : NULL;
        if (found.count != count || last == NULL || json_integer_value(last->value) != 7)
            fail_msg("row %zu: %zu: %s", i, found.count, found.list[count].message);
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
        assert_true(read_text(&source, text, 2 * depth, &found));
        assert_int_equal(found.count, depth == 34); /* 33 lists around level 33 */
        if (depth == 34)
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
        cmocka_unit_test(what_stands_beside_faults_is_read_and_the_next_ones_are_found),
        cmocka_unit_test(what_follows_a_bracket_that_is_missing_is_read_where_it_belongs),
        cmocka_unit_test(every_value_has_its_place),
        cmocka_unit_test(all_duplicate_keys_are_found_even_when_written_differently),
        cmocka_unit_test(nesting_is_bounded),
        cmocka_unit_test(the_front_of_a_long_file_name_is_cut_never_the_place),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
