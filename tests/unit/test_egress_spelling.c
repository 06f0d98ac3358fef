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

static const char *const wrong_names[] = {
    "api.example.com..",
    "..api.example.com",
    ".api.example.com",
    "api..example.com",
    "api.example.com.evil.test",
    "api.example.com.evil",
    "evil-api.example.com",
    "evilapi.example.com",
    "api.example.comm",
    "api.example.co",
    "api.example",
    "example.com",
    "www.example.com",
    "apiexample.com",
    "api-example.com",
    "api.example-com",
    "api.exarnple.com",
    "api.examp1e.com",
    "a\321\200i.example.com",
    "api.\320\265xample.com",
    "\357\275\201\357\275\220\357\275\211.example.com",
    "api\343\200\202example\343\200\202com",
    "api\357\274\216example\357\274\216com",
    "api\357\275\241example\357\275\241com",
    "\342\223\220pi.example.com",
    "api.example.\357\275\203\357\275\217\357\275\215",
    "api.exam\342\200\213ple.com",
    "api.example\342\200\215.com",
    "api.example.com\342\200\213",
    "\357\273\277api.example.com",
    "api.example.com\342\201\240",
    "api.example.com\302\255",
    "a\314\200pi.example.com",
    "api.example.com\342\200\256",
    "api.ex\303\244mple.com",
    "API.EXAMPL\304\260.COM",
    "api.example.com\343\200\200",
    "api\342\200\244example.com",
    "api%2eexample%2ecom",
    "%61pi.example.com",
    "api.example.com%00",
    "api.example.com%2e",
    "api.example.com%20",
    "api.example.com%0a",
    "api.example.com%0d%0aHost:evil.test",
    "api.example.com%252e",
    "api.example.com:443",
    "api.example.com:80",
    "api.example.com/",
    "api.example.com/path",
    "api.example.com#evil.test",
    "api.example.com\077x",
    "api.example.com@evil.test",
    "evil.test@api.example.com",
    "user:pass@api.example.com",
    "http://api.example.com",
    "https://api.example.com/",
    "//api.example.com",
    "api.example.com\134",
    "api.example.com\134.evil.test",
    "evil.test\134.api.example.com",
    "[api.example.com]",
    "\042api.example.com\042",
    "'api.example.com'",
    "(api.example.com)",
    "api.example.com,evil.test",
    "api.example.com;evil.test",
    "api.example.com evil.test",
    "evil.test api.example.com",
    "{api.example.com}",
    "*",
    "*.",
    "*.com",
    "*.example.com",
    "*api.example.com",
    "api.*.com",
    "api.example.*",
    "*.api.example.com",
    "a*i.example.com",
    "\077pi.example.com",
    "xn--api.example.com",
    "xn--pi-7kb.example.com",
    "xn--api-.example.com",
    "XN--API.example.com",
    "xn--.example.com",
    "api.xn--example-.com",
    "api.example.xn--com",
    "xn--80ak6aa92e.com",
    "-api.example.com",
    "api-.example.com",
    "api.-example.com",
    "api.example-.com",
    "api.example.com-",
    "api.example.-com",
    "-",
    "--",
    "_",
    "_.example.com",
    "_api.example.com",
    "api_.example.com",
    "api._example.com",
    "a_pi.example.com",
    "api.example_com",
    "_https._tcp.api.example.com",
    "localhost",
    "localhost.",
    "LOCALHOST",
    "localhost.localdomain",
    "ip6-localhost",
    "a.localhost",
    "host.docker.internal",
    "metadata.google.internal",
    "instance-data",
    "metadata",
    "127.0.0.1.nip.io",
    "169-254-169-254.sslip.io",
    "api.example.com.127.0.0.1.nip.io",
    "api.example.com.nip.io",
    "1.1.1.1.xip.io",
    "com",
    "com.",
    ".",
    "..",
    "...",
    "files.example.org",
    "files.example.org.",
    "xfiles.example.org",
    "evilfiles.example.org",
    "files.example.org.evil.test",
    ".files.example.org",
    "a..files.example.org",
    "a.files.example.orgg",
    "-a.files.example.org",
    "a-.files.example.org",
    "a.files.example",
    "files.example.org.a",
    "a.files.example.org:443",
    "*.files.example.org",
    "a,files.example.org",
    "a.files-example.org",
    "a files.example.org",
    "a\011b.files.example.org",
    "a.files.example.org/",
    "a%2efiles.example.org",
    "blocked.files.example.org",
    "BLOCKED.files.example.org.",
    "x.secret.files.example.org",
    "a.b.secret.files.example.org",
    "x.SECRET.files.example.org.",
};

static const char *const right_names[] = {
    "api.example.com",
    "API.EXAMPLE.COM",
    "Api.Example.Com",
    "aPI.eXAMPLE.cOM",
    "api.example.com.",
    "API.EXAMPLE.COM.",
    "api.EXAMPLE.com",
    "api.example.COM",
    "a.files.example.org",
    "A.FILES.EXAMPLE.ORG",
    "a.files.example.org.",
    "a.b.files.example.org",
    "a.b.c.d.e.f.files.example.org",
    "1.files.example.org",
    "1.2.3.4.files.example.org",
    "a-b.files.example.org",
    "a--b.files.example.org",
    "r3---sn-h5q7.files.example.org",
    "_acme-challenge.files.example.org",
    "my_bucket.files.example.org",
    "xn--bcher-kva.files.example.org",
    "XN--BCHER-KVA.files.example.org",
    "0.files.example.org",
    "0x1.files.example.org",
    "xn--bcher-kva.example",
    "XN--Bcher-KVA.EXAMPLE",
    "xn--bcher-kva.example.",
    "deep.sub.files.example.org",
    "x.files.example.org",
    "files.files.example.org",
    "api.example.com.files.example.org",
    "com.files.example.org",
    "host.pinfold.internal",
    "HOST.pinfold.internal.",
    "single",
    "SINGLE",
    "single.",
    "1e100.net",
    "1E100.NET.",
    "9news.com.au",
    "3com.com",
    "4chan.org.",
    "secret-not.files.example.org",
    "blocked2.files.example.org",
    "xblocked.files.example.org",
};

/* As names: none of these is one. */
static const char *const addresses[] = {
    "0",
    "1",
    "127",
    "127.1",
    "127.0.1",
    "127.0.0.1",
    "127.0.0.1.",
    "0127.0.0.1",
    "127.0.0.01",
    "0x7f.0.0.1",
    "0x7f000001",
    "0X7F000001",
    "2130706433",
    "017700000001",
    "0177.0.0.1",
    "0x7f.1",
    "127.0x1",
    "127.0.0.0x1",
    "0x",
    "0x.",
    "0x7f.",
    "169.254.169.254",
    "169.254.169.254.",
    "0xa9fea9fe",
    "2852039166",
    "0251.0376.0251.0376",
    "0xa9.0xfe.0xa9.0xfe",
    "169.254.43518",
    "169.16689662",
    "0xA9FEA9FE",
    "169.254.0xa9fe",
    "425.510.425.510",
    "1.2.3.4",
    "1.2.3.4.5",
    "1.2.3",
    "256.256.256.256",
    "999999999999",
    "4294967296",
    "api.example.com.1",
    "api.example.com.0x1",
    "api.1",
    "example.0x",
    "00000000000000000000000000000001",
    "1.2.3.0x",
    "a.0",
    "10",
    "192.168.1",
    "0.0.0.0",
    "0.0",
    "255.255.255.255",
    "8.8.8.8",
    "93.184.216.34",
    "010.010.010.010",
    "0x0a.0.0.1",
    "::",
    "::1",
    "[::1]",
    "0:0:0:0:0:0:0:1",
    "::ffff:127.0.0.1",
    "::ffff:7f00:1",
    "[::ffff:169.254.169.254]",
    "::127.0.0.1",
    "64:ff9b::a9fe:a9fe",
    "64:ff9b::169.254.169.254",
    "2002:7f00:1::",
    "2001:0:4136:e378:8000:63bf:3fff:fdd2",
    "fe80::1",
    "fe80::1%eth0",
    "fe80::1%25eth0",
    "fd00:ec2::254",
    "[fd00:ec2::254]:80",
    "ff02::1",
    "::ffff:0:127.0.0.1",
    "2001:db8::1",
    "::1%lo",
    "0000::1",
    "1::",
    "1:2:3:4:5:6:7:8",
    "::ffff:a9fe:a9fe",
    "[v1.fe80]",
    "127.0.0.1:443",
    "http://2130706433",
    "1%2e1",
    "\342\221\240.1.1.1",
    "127\343\200\2020\343\200\2020\343\200\2021",
    "127\357\274\2160\357\274\2160\357\274\2161",
    "\357\274\221\357\274\222\357\274\227.0.0.1",
    "0x7f,1",
    "127..1",
    "+127.0.0.1",
    "-1",
    "0b1.2",

    "0o177.0.0.1",
};

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
    for (size_t i = 0; i < PIN_COUNT(wrong_names); i++)
        if (is_allowed(wrong_names[i], strlen(wrong_names[i])))
            fail_msg("allowed: '%s'", wrong_names[i]);
}

static void every_right_spelling_of_a_name_is_allowed(void **state) {
    (void)state;
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
