#include "tests/unit/test.h"

#include <string.h>

#include "base/cursor.h"
#include "base/names.h"
#include "base/text.h"
#include "base/utf8.h"

struct escape_row {
    const char *in, *out;
};

static const struct escape_row escapes[] = {
    {"plain",        "plain"         },
    {"two\nlines\t", "two\\nlines\\t"},
    {"\x1b[2J",      "\\x1b[2J"      },
    {"\x7f",         "\\x7f"         },
    {"\xc2\x9b",     "\\u{9b}"       }, /* C1: CSI in one character */
    {"\xe2\x80\xae"
     "evil",    "\\u{202e}evil" }, /* right-to-left override */
    {"\xff\xfe",     "\\xff\\xfe"    },
    {"caf\xc3\xa9",  "caf\xc3\xa9"   },
    {"back\\slash",  "back\\\\slash" },
};

static void what_is_escaped_already_stays_as_it_is(void **state) {
    (void)state;
    char once[64], twice[64];
    (void)pin_escape(once, sizeof(once), "a\\b\x1b[2J\n", 9);
    assert_string_equal(pin_show(twice, sizeof(twice), once), once);
    assert_string_equal(pin_show(twice, sizeof(twice), "\x1b[2J\n"), "\\x1b[2J\\n");
}

static void what_could_steer_a_terminal_is_escaped(void **state) {
    (void)state;
    char to[128];
    for (size_t i = 0; i < PIN_COUNT(escapes); i++)
        assert_string_equal(pin_escape(to, sizeof(to), escapes[i].in, strlen(escapes[i].in)), escapes[i].out);
}

static void text_without_room_is_cut_with_a_mark(void **state) {
    (void)state;
    for (size_t room = 1; room < 24; room++) {
        char to[32];
        memset(to, 'x', sizeof(to));
        (void)pin_escape(to, room,
                         "aaaa\x1b\x1b\x1b\x1b"
                         "aaaa",
                         12);
        assert_true(strlen(to) < room);
        assert_int_equal(to[room], 'x'); /* and never past its end */
    }
    char small[8];
    assert_string_equal(pin_escape(small, sizeof(small), "abcdefghij", 10), "abcd...");
}

static void names_follow_one_pattern(void **state) {
    (void)state;
    static const char *const good[] = {"a", "web-tools", "A1_b.c", "0"};
    static const char *const bad[] = {"",    ".",   "..",  "a..b",     "-a",
                                      "a/b", "a b", "a\n", "\xc3\xa9", ".hidden"};
    for (size_t i = 0; i < PIN_COUNT(good); i++)
        assert_true(pin_is_name(good[i]));
    for (size_t i = 0; i < PIN_COUNT(bad); i++)
        assert_false(pin_is_name(bad[i]));
    char longest[65];
    memset(longest, 'a', sizeof(longest));
    longest[63] = '\0';
    assert_true(pin_is_name(longest));
    longest[63] = 'a';
    longest[64] = '\0';
    assert_false(pin_is_name(longest));
}

struct glob_row {
    const char *pattern, *text;
    bool match;
};

static const struct glob_row globs[] = {
    {"*",        "",            true },
    {"*",        "any/thing",   true },
    {"python-*", "python-3.11", true },
    {"python-*", "python",      false},
    {"LD_*",     "LD_PRELOAD",  true },
    {"LD_*",     "XLD_PRELOAD", false},
    {"*a*b*c",   "xxaybbzc",    true },
    {"*a*b*c",   "xxaybbz",     false},
    {"a?c",      "abc",         false}, /* only `*` is special */
    {"a?c",      "a?c",         true },
    {"",         "",            true },
    {"",         "a",           false},
};

static void a_star_is_any_run_of_characters(void **state) {
    (void)state;
    for (size_t i = 0; i < PIN_COUNT(globs); i++)
        assert_int_equal(pin_glob_match(globs[i].pattern, globs[i].text), globs[i].match);
}

static void invalid_utf8_is_found_where_it_begins(void **state) {
    (void)state;
    static const char overlong[] = "\xc0\xaf", surrogate[] = "\xed\xa0\x80", beyond[] = "\xf4\x90\x80\x80";
    assert_int_equal(pin_utf8_prefix((const uint8_t *)"0123456789abcdef\xff", 17), 16);
    assert_true(pin_utf8_valid((const uint8_t *)"gr\xc3\xbc\xc3\x9f"
                                                "e \xf0\x9f\x90\x91",
                               12));
    assert_false(pin_utf8_valid((const uint8_t *)overlong, 2));
    assert_false(pin_utf8_valid((const uint8_t *)surrogate, 3));
    assert_false(pin_utf8_valid((const uint8_t *)beyond, 4));
    assert_false(pin_utf8_valid((const uint8_t *)"\xe2\x82", 2)); /* cut */
}

static void a_near_name_is_suggested_and_a_far_one_is_not(void **state) {
    (void)state;
    static const char *const table[] = {"memory", NULL, "network", "secrets"};
    assert_string_equal(pin_name_suggest(table, PIN_COUNT(table), "memroy"), "memory");
    assert_string_equal(pin_name_suggest(table, PIN_COUNT(table), "secret"), "secrets");
    assert_null(pin_name_suggest(table, PIN_COUNT(table), "zzz"));
    assert_int_equal(pin_name_find(table, PIN_COUNT(table), "net"), -1); /* a prefix is not a name */
    assert_int_equal(pin_name_find(table, PIN_COUNT(table), "network"), 2);
}

static void a_cursor_that_runs_short_does_not_move(void **state) {
    (void)state;
    static const uint8_t bytes[] = {1, 2, 3};
    struct pin_cursor in = {bytes, bytes + sizeof(bytes)};
    uint32_t four;
    uint16_t two;
    assert_false(pin_take_u32be(&in, &four));
    assert_ptr_equal(in.at, bytes);
    assert_true(pin_take_u16be(&in, &two) && two == 0x0102);
    assert_false(pin_take_u16be(&in, &two));
    assert_int_equal(pin_left(&in), 1);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_could_steer_a_terminal_is_escaped),
        cmocka_unit_test(what_is_escaped_already_stays_as_it_is),
        cmocka_unit_test(text_without_room_is_cut_with_a_mark),
        cmocka_unit_test(names_follow_one_pattern),
        cmocka_unit_test(a_star_is_any_run_of_characters),
        cmocka_unit_test(invalid_utf8_is_found_where_it_begins),
        cmocka_unit_test(a_near_name_is_suggested_and_a_far_one_is_not),
        cmocka_unit_test(a_cursor_that_runs_short_does_not_move),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
