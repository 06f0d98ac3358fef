#include "policy/checks.h"
#include "policy/egress_rule.h"
#include "policy/fields.h"
#include "policy/host_name.h"
#include "policy/words.h"
#include "policy_fixture.h"

static void hosts_have_one_form(void **state) {
    (void)state;
    static const char *const rows[][2] = {
        {"example.com",      "example.com"     },
        {"EXAMPLE.Com.",     "example.com"     },
        {"*.Example.com",    "*.example.com"   },
        {"xn--bcher-kva.de", "xn--bcher-kva.de"},
        {"_srv.a-b.c1",      "_srv.a-b.c1"     },
        {"localhost",        "localhost"       },
        {"1a.2b",            "1a.2b"           },
        {"",                 NULL              },
        {".",                NULL              },
        {"a..b",             NULL              },
        {".a",               NULL              },
        {"a.b..",            NULL              },
        {"-a.b",             NULL              },
        {"a-.b",             NULL              },
        {"*",                NULL              },
        {"*.",               NULL              },
        {"a.*.b",            NULL              },
        {"a*.b",             NULL              },
        {"*.*.b",            NULL              },
        {"1.2.3.4",          NULL              },
        {"127.1",            NULL              },
        {"0x7f000001",       NULL              },
        {"a.0X10",           NULL              },
        {"2130706433",       NULL              },
        {"*.1",              NULL              },
        {"::1",              NULL              },
        {"[::1]",            NULL              },
        {"a.b:443",          NULL              },
        {"http://a.b",       NULL              },
        {"a b",              NULL              },
        {"a.b%2e",           NULL              },
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        char to[PIN_HOST_MAX + 2] = "";
        struct pin_error err = {0};
        bool accepted = pin_host_pattern(rows[i][0], to, &err);
        if (accepted != (rows[i][1] != NULL) || accepted == pin_is_set(&err))
            fail_msg("'%s': %s", rows[i][0], err.message);
        if (accepted)
            assert_string_equal(to, rows[i][1]);
    }
}

#define U_UMLAUT "\xC3\xBC"
#define IDEOGRAPHIC_DOT "\xE3\x80\x82"

/* As browsers read them; what is refused is what they refuse, and what two versions of Unicode read apart. */
static void what_a_person_writes_in_unicode_has_one_form(void **state) {
    (void)state;
    static const char *const rows[][2] = {
        {"b" U_UMLAUT "cher.example",                                     "xn--bcher-kva.example"              },
        {"B\xC3\x9C"
         "CHER.Example.",                                        "xn--bcher-kva.example"              },
        {"bu\xCC\x88"
         "cher.example",                                         "xn--bcher-kva.example"              },
        {"*.b" U_UMLAUT "cher.example",                                   "*.xn--bcher-kva.example"            },
        {"b" U_UMLAUT "cher" IDEOGRAPHIC_DOT "example",                   "xn--bcher-kva.example"              },
        {"xn--bcher-kva.b" U_UMLAUT "cher.example",                       "xn--bcher-kva.xn--bcher-kva.example"},
        {"_dmarc.b" U_UMLAUT "cher.example",                              "_dmarc.xn--bcher-kva.example"       },
        {"stra\xC3\x9F"
         "e.example",                                            "xn--strae-oqa.example"              },
        {"\xEF\xBD\x81\xEF\xBD\x90\xEF\xBD\x89.example",                  "api.example"                        },
        {"api.exam\xC2\xADple",                                           "api.example"                        },
        {"\xE4\xBE\x8B\xE3\x81\x88.\xE3\x83\x86\xE3\x82\xB9\xE3\x83\x88", "xn--r8jz45g.xn--zckzah"             },
        {"\xD0\xB0pple.example",                                          "xn--pple-43d.example"               },
        {"*\xE3\x80\x82" U_UMLAUT,                                        NULL                                 },
        {"\xEF\xBC\x8A." U_UMLAUT ".example",                             NULL                                 },
        {"\xE1\xBA\x9E.example",                                          NULL                                 },
        {"\xE2\x98\x95.example",                                          NULL                                 },
        {"\xE2\x84\x80.example",                                          NULL                                 },
        {"a\xE2\x80\xA4"
         "b.example",                                            NULL                                 },
        {"a\xE2\x80\x8D.example",                                         NULL                                 },
        {"\xC2\xAD.example",                                              NULL                                 },
        {"\xEF\xBC\x91\xEF\xBC\x92\xEF\xBC\x97.0.0.1",                    NULL                                 },
        {U_UMLAUT "\xEF\xBC\x9A"
                  "443",                                         NULL                                 },
        {U_UMLAUT "..example",                                            NULL                                 },
        {U_UMLAUT ".example/",                                            NULL                                 },
        {"xn--b" U_UMLAUT "cher-kva.example",                             NULL                                 },
        {"xn--api." U_UMLAUT ".example",                                  NULL                                 },
        {"b\xFC"
         "cher.example",                                         NULL                                 },
        {"b\xC3",                                                         NULL                                 },
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        char to[PIN_HOST_MAX + 2] = "";
        struct pin_error err = {0};
        bool accepted = pin_host_pattern(rows[i][0], to, &err);
        if (accepted != (rows[i][1] != NULL) || accepted == pin_is_set(&err))
            fail_msg("'%s': '%s' %s", rows[i][0], to, err.message);
        if (accepted)
            assert_string_equal(to, rows[i][1]);
    }
}

/* Whatever stands on the wire in Unicode is no name: programs send A-labels. */
static void unicode_on_the_wire_is_no_name(void **state) {
    (void)state;
    static const char name[] = "b" U_UMLAUT "cher.example";
    char to[PIN_HOST_MAX];
    struct pin_error err = {0};
    assert_false(pin_host_name(name, sizeof(name) - 1, to, &err));
    pin_error_clear(&err);
    assert_true(pin_host_written(name, sizeof(name) - 1, to, &err));
    pin_error_clear(&err);
    assert_false(pin_host_written("b" U_UMLAUT "\0cher", 8, to, &err));
}

static void long_hosts_are_refused(void **state) {
    (void)state;
    char name[300], to[PIN_HOST_MAX];
    struct pin_error err = {0};
    memset(name, 'a', 63);
    name[63] = '.';
    memcpy(name + 64, name, 64);
    memcpy(name + 128, name, 128);
    assert_true(pin_host_name(name, 253, to, &err)); /* 3 * 64 + 61 */
    assert_false(pin_host_name(name, 254, to, &err));
    pin_error_clear(&err);
    name[63] = 'a';
    assert_false(pin_host_name(name, 64, to, &err));
    char text[PIN_HOST_WRITTEN_MAX + 2];
    for (size_t size = 2; size < sizeof(text); size += 2) { /* the A-label of 57 has 63 characters */
        memcpy(text + size - 2, U_UMLAUT, 2);
        pin_error_clear(&err);
        assert_int_equal(pin_host_written(text, size, to, &err), size / 2 <= 57);
    }
}

static void a_star_is_one_or_more_labels_and_never_the_name(void **state) {
    (void)state;
    assert_true(pin_host_match("*.x.com", "a.x.com"));
    assert_true(pin_host_match("*.x.com", "b.a.x.com"));
    assert_false(pin_host_match("*.x.com", "x.com"));
    assert_false(pin_host_match("*.x.com", "ax.com"));
    assert_false(pin_host_match("*.x.com", "a.x.com.evil"));
    assert_false(pin_host_match("x.com", "a.x.com"));
    assert_true(pin_host_covers("*.x.com", "*.a.x.com"));
    assert_true(pin_host_covers("*.x.com", "*.x.com"));
    assert_false(pin_host_covers("*.a.x.com", "*.x.com"));
    assert_false(pin_host_covers("*.x.com", "*"));
    assert_true(pin_host_covers("*", "*.x.com"));
}

static void ranges_of_addresses_have_one_form(void **state) {
    (void)state;
    static const char *const rows[][2] = {
        {"10.0.0.0/8",          "10.0.0.0/8"     },
        {"10.1.2.3",            "10.1.2.3/32"    },
        {"0.0.0.0/0",           "0.0.0.0/0"      },
        {"::/0",                "::/0"           },
        {"2001:DB8::/32",       "2001:db8::/32"  },
        {"2001:db8::1",         "2001:db8::1/128"},
        {"fe80::/10",           "fe80::/10"      },
        {"10.0.0.1/8",          NULL             },
        {"2001:db8::1/64",      NULL             },
        {"10.0.0.0/33",         NULL             },
        {"10.0.0.0/08",         NULL             },
        {"10.0.0.0/",           NULL             },
        {"10.0.0.0/-1",         NULL             },
        {"10.0.0/8",            NULL             },
        {"010.0.0.0/8",         NULL             },
        {"::ffff:10.0.0.0/104", NULL             },
        {"fe80::1%eth0",        NULL             },
        {"::/129",              NULL             },
        {"example.com",         NULL             },
        {"",                    NULL             },
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        uint8_t address[16], prefix;
        char text[PIN_CIDR_TEXT];
        struct pin_error err = {0};
        bool accepted = pin_cidr_parse(rows[i][0], address, &prefix, &err);
        if (accepted != (rows[i][1] != NULL))
            fail_msg("'%s': %s", rows[i][0], err.message);
        if (accepted)
            assert_string_equal(pin_cidr_print(text, address, prefix), rows[i][1]);
    }
}

static void a_range_of_ipv6_never_covers_an_ipv4_address(void **state) {
    (void)state;
    uint8_t all[16], ten[16], prefix, host;
    struct pin_error err = {0};
    assert_true(pin_cidr_parse("::/0", all, &prefix, &err));
    assert_true(pin_cidr_parse("10.0.0.1", ten, &host, &err));
    assert_false(pin_cidr_contains(all, prefix, ten));
    assert_true(pin_cidr_parse("0.0.0.0/0", all, &prefix, &err));
    assert_true(pin_cidr_contains(all, prefix, ten));
}

static void a_rule_reads_as_it_prints(void **state) {
    (void)state;
    static const char *const rows[][2] = {
        {"API.example.com:443",      "api.example.com:443"    },
        {"b" U_UMLAUT "cher.de:443", "xn--bcher-kva.de:443"   },
        {"*.x.com:8000-8100/udp",    "*.x.com:8000-8100/udp"  },
        {"10.0.0.0/8:22",            "10.0.0.0/8:22"          },
        {"10.1.2.3:22",              "10.1.2.3/32:22"         },
        {"[2001:db8::/32]:1-65535",  "[2001:db8::/32]:1-65535"},
        {"example.com",              NULL                     },
        {"example.com:",             NULL                     },
        {"example.com:0",            NULL                     },
        {"example.com:65536",        NULL                     },
        {"example.com:443/sctp",     NULL                     },
        {":443",                     NULL                     },
        {"2001:db8::1:443",          NULL                     },
        {"*:443",                    NULL                     },
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        PIN_ARENA struct pin_arena arena = {0};
        struct pin_egress_rule rule = {0};
        struct pin_error err = {0};
        char text[128];
        bool accepted = pin_egress_parse(rows[i][0], &arena, &rule, &err);
        if (accepted != (rows[i][1] != NULL))
            fail_msg("'%s': %s", rows[i][0], err.message);
        if (accepted)
            assert_string_equal(pin_egress_print(text, sizeof(text), &rule), rows[i][1]);
    }
}

static void a_rule_that_is_too_long_to_print_is_cut(void **state) {
    (void)state;
    PIN_ARENA struct pin_arena arena = {0};
    struct pin_egress_rule rule = {0};
    struct pin_error err = {0};
    char text[16];
    assert_true(pin_egress_parse("a-long-name.example.com:443", &arena, &rule, &err));
    assert_string_equal(pin_egress_print(text, sizeof(text), &rule), "a-long-name....");
}

static void plain_paths_only(void **state) {
    (void)state;
    static const char *const good_paths[] = {"/", "/a", "/a/b.c", "/..a", "/a/...", "/\xC3\xBC"};
    static const char *const bad_paths[] = {"",   "a",     "//",    "/a/", "/a//b",
                                            "/.", "/a/..", "/../a", "./a", "/a/./b"};
    for (size_t i = 0; i < sizeof(good_paths) / sizeof(good_paths[0]); i++)
        assert_true(pin_is_plain_path(good_paths[i]));
    for (size_t i = 0; i < sizeof(bad_paths) / sizeof(bad_paths[0]); i++)
        assert_false(pin_is_plain_path(bad_paths[i]));
    assert_true(pin_path_beneath("/a/b", "/a"));
    assert_true(pin_path_beneath("/a", "/"));
    assert_false(pin_path_beneath("/ab", "/a"));
    assert_false(pin_path_beneath("/a", "/a/b"));
}

static void every_field_has_a_row_and_a_pointer(void **state) {
    (void)state;
    for (unsigned i = 0; i < PIN_FIELD_COUNT; i++) {
        const struct pin_field_row *row = pin_field_row((enum pin_field)i);
        assert_non_null(row);
        const char *pointer = pin_field_pointer((enum pin_field)i), *last = strrchr(pointer, '/');
        assert_string_equal(last + 1, row->key);
        for (unsigned j = 0; j < i; j++)
            assert_string_not_equal(pointer, pin_field_pointer((enum pin_field)j));
    }
}

static void words_are_found_by_their_whole_name(void **state) {
    (void)state;
    for (unsigned i = 0; i < PIN_CAPABILITY_COUNT; i++)
        assert_int_equal(pin_capability_find(pin_capability_name(i)), i);
    assert_int_equal(pin_capability_find("CAP_SYS_ADMI"), -1);
    assert_null(pin_capability_name(PIN_CAPABILITY_COUNT));
    assert_string_equal(pin_access_name(PIN_ACCESS_COW), "copy-on-write");
    assert_string_equal(pin_root_mode_name(PIN_ROOT_OVERLAY), "overlay");
    assert_string_equal(pin_root_storage_name(PIN_ROOT_ON_DISK), "disk");
    assert_string_equal(pin_on_cap_name(PIN_ON_CAP_KILL), "kill");
    assert_int_equal(pin_protocol_find("udp"), PIN_PROTOCOL_UDP);
}

static void a_zero_byte_never_ends_a_name_early(void **state) {
    (void)state;
    static const char bytes[] = "good.example\0.evil.example";
    char to[PIN_HOST_MAX];
    struct pin_error err = {0};
    assert_false(pin_host_name(bytes, sizeof(bytes) - 1, to, &err));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_zero_byte_never_ends_a_name_early),
        cmocka_unit_test(hosts_have_one_form),
        cmocka_unit_test(what_a_person_writes_in_unicode_has_one_form),
        cmocka_unit_test(unicode_on_the_wire_is_no_name),
        cmocka_unit_test(long_hosts_are_refused),
        cmocka_unit_test(a_star_is_one_or_more_labels_and_never_the_name),
        cmocka_unit_test(ranges_of_addresses_have_one_form),
        cmocka_unit_test(a_range_of_ipv6_never_covers_an_ipv4_address),
        cmocka_unit_test(a_rule_reads_as_it_prints),
        cmocka_unit_test(a_rule_that_is_too_long_to_print_is_cut),
        cmocka_unit_test(plain_paths_only),
        cmocka_unit_test(every_field_has_a_row_and_a_pointer),
        cmocka_unit_test(words_are_found_by_their_whole_name),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
