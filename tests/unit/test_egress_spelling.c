/* No spelling of a name or an address reaches what the rules don't name, and every right one reaches what
 * they do. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/names.h"
#include "policy/egress_judge.h"
#include "runtime/egress/wire_name.h"
#include "tests/unit/egress_spellings.h"

static struct pin_port_range https[] = {
    {443, 443}
};
static const struct pin_egress_rule allow[] = {
    {.host = "api.example.com",       .ports = https, .port_count = 1},
    {.host = "*.files.example.org",   .ports = https, .port_count = 1},
    {.host = "xn--bcher-kva.example", .ports = https, .port_count = 1},
    {.host = "single",                .ports = https, .port_count = 1},
    {.host = "1e100.net",             .ports = https, .port_count = 1},
    {.host = "9news.com.au",          .ports = https, .port_count = 1},
    {.host = "3com.com",              .ports = https, .port_count = 1},
    {.host = "4chan.org",             .ports = https, .port_count = 1},
    {.host = PIN_HOST_INTERNAL,       .ports = https, .port_count = 1},
};
static const struct pin_egress_rule deny[] = {
    {.host = "blocked.files.example.org"},
    {.host = "*.secret.files.example.org"},
};
static const struct pin_egress_rules rules = {
    .allow = allow, .allow_count = PIN_COUNT(allow), .deny = deny, .deny_count = PIN_COUNT(deny)};

static bool is_allowed(const char *text, size_t size) {
    char name[PIN_HOST_MAX];
    if (!pin_wire_name(name, text, size))
        return false;
    struct pin_destination to = {.host = name, .port = 443};
    bool connect = pin_egress_judge(&rules, &to).allowed;
    assert_int_equal(connect, pin_egress_judge_name(&rules, name).allowed);
    return connect;
}

static void no_wrong_spelling_of_a_name_is_allowed(void **state) {
    (void)state;
    assert_true(PIN_COUNT(wrong_names) >= 400);
    for (size_t i = 0; i < PIN_COUNT(wrong_names); i++)
        if (is_allowed(wrong_names[i], strlen(wrong_names[i])))
            fail_msg("allowed: '%s'", wrong_names[i]);
}

static void every_right_spelling_of_a_name_is_allowed(void **state) {
    (void)state;
    assert_true(PIN_COUNT(right_names) >= 40);
    for (size_t i = 0; i < PIN_COUNT(right_names); i++)
        if (!is_allowed(right_names[i], strlen(right_names[i])))
            fail_msg("refused: '%s'", right_names[i]);
}

/* 256 bytes at each of 16 places; only a dot at the very end leaves the name what it was. */
static void no_byte_anywhere_in_a_name_goes_unnoticed(void **state) {
    (void)state;
    static const char name[] = "api.example.com";
    size_t length = sizeof(name) - 1;
    for (size_t at = 0; at <= length; at++)
        for (int byte = 0; byte < 256; byte++) {
            char text[sizeof(name) + 1];
            memcpy(text, name, at);
            text[at] = (char)byte;
            memcpy(text + at + 1, name + at, length - at);
            bool harmless = at == length && byte == '.';
            if (is_allowed(text, length + 1) != harmless)
                fail_msg("byte %02x at %zu: %s", (unsigned)byte, at, harmless ? "refused" : "allowed");
        }
}

static void a_byte_replaced_is_noticed_unless_it_is_the_other_case(void **state) {
    (void)state;
    static const char name[] = "api.example.com";
    for (size_t at = 0; at < sizeof(name) - 1; at++)
        for (int byte = 0; byte < 256; byte++) {
            char text[sizeof(name)];
            memcpy(text, name, sizeof(name));
            text[at] = (char)byte;
            bool same = (char)byte == name[at] || (name[at] != '.' && (char)byte == name[at] - ('a' - 'A'));
            if (is_allowed(text, sizeof(name) - 1) != same)
                fail_msg("byte %02x at %zu", (unsigned)byte, at);
        }
}

static void no_spelling_of_an_address_is_a_name(void **state) {
    (void)state;
    char name[PIN_HOST_MAX];
    assert_true(PIN_COUNT(addresses) >= 80);
    for (size_t i = 0; i < PIN_COUNT(addresses); i++)
        if (pin_wire_name(name, addresses[i], strlen(addresses[i])))
            fail_msg("a name: '%s'", addresses[i]);
}

static void lengths_end_where_the_dns_ends_them(void **state) {
    (void)state;
    char text[300], name[PIN_HOST_MAX];
    memset(text, 'a', sizeof(text));
    assert_true(pin_wire_name(name, text, 63));
    assert_false(pin_wire_name(name, text, 64));
    for (size_t i = 50; i < sizeof(text); i += 50)
        text[i] = '.';
    assert_true(pin_wire_name(name, text, 253));
    assert_int_equal(strlen(name), 253);
    assert_false(pin_wire_name(name, text, 254));
    text[253] = '.';
    assert_true(pin_wire_name(name, text, 254));
    assert_false(pin_wire_name(name, "", 0));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(no_wrong_spelling_of_a_name_is_allowed),
        cmocka_unit_test(every_right_spelling_of_a_name_is_allowed),
        cmocka_unit_test(no_byte_anywhere_in_a_name_goes_unnoticed),
        cmocka_unit_test(a_byte_replaced_is_noticed_unless_it_is_the_other_case),
        cmocka_unit_test(no_spelling_of_an_address_is_a_name),
        cmocka_unit_test(lengths_end_where_the_dns_ends_them),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
