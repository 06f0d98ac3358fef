/* The judge of destinations: rows of rules and verdicts; the classes of addresses. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/names.h"
#include "policy/egress_judge.h"
#include "policy/egress_rule.h"

#define V4(a, b, c, d)                                                                                       \
    { 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, a, b, c, d }

/* clang-format off */
static struct pin_port_range https[] = {{443, 443}}, many[] = {{80, 80}, {8000, 8999}}, dns[] = {{53, 53}},
                             postgres[] = {{5432, 5432}}, first_half[] = {{8000, 8499}},
                             second_half[] = {{8500, 8999}, {80, 80}};

static const struct pin_egress_rule allow[] = {
    {.host = "api.example.com", .ports = https, .port_count = 1},
    {.host = "*.example.org", .ports = many, .port_count = 2},
    {.host = "dns.example.net", .ports = dns, .port_count = 1, .protocol = PIN_PROTOCOL_UDP},
    {.address = V4(10, 1, 2, 0), .prefix = 96 + 24, .ports = postgres, .port_count = 1},
    {.address = {0xfd, 0x12}, .prefix = 16, .ports = https, .port_count = 1},
    {.host = "no-ports.example.com"},
    {.host = PIN_HOST_INTERNAL, .ports = https, .port_count = 1},
    {.host = "*.pinfold.internal", .ports = many, .port_count = 2},
};
static const struct pin_egress_rule deny[] = {
    {.host = "bad.example.org"},
    {.host = "half.example.org", .ports = first_half, .port_count = 1},
    {.host = "whole.example.org", .ports = first_half, .port_count = 1},
    {.host = "whole.example.org", .ports = second_half, .port_count = 2},
    {.address = V4(10, 1, 2, 128), .prefix = 96 + 25},
    {.address = V4(203, 0, 113, 66), .prefix = 128},
};
/* clang-format on */
static const struct pin_egress_rules rules = {
    .allow = allow, .allow_count = PIN_COUNT(allow), .deny = deny, .deny_count = PIN_COUNT(deny)};

static void names_and_ports_are_judged_together(void **state) {
    (void)state;
    /* clang-format off */
    static const struct {
        const char *host;
        uint16_t port;
        enum pin_protocol protocol;
        enum pin_egress_reason reason;
    } rows[] = {
        {"api.example.com", 443, PIN_PROTOCOL_TCP, PIN_EGRESS_ALLOWED},
        {"api.example.com", 80, PIN_PROTOCOL_TCP, PIN_EGRESS_PORT},
        {"api.example.com", 0, PIN_PROTOCOL_TCP, PIN_EGRESS_PORT},
        {"api.example.com", 443, PIN_PROTOCOL_UDP, PIN_EGRESS_PROTOCOL},
        {"example.com", 443, PIN_PROTOCOL_TCP, PIN_EGRESS_NOT_LISTED},
        {"a.api.example.com", 443, PIN_PROTOCOL_TCP, PIN_EGRESS_NOT_LISTED},
        {"a.example.org", 80, PIN_PROTOCOL_TCP, PIN_EGRESS_ALLOWED},
        {"a.b.example.org", 8999, PIN_PROTOCOL_TCP, PIN_EGRESS_ALLOWED},
        {"a.example.org", 9000, PIN_PROTOCOL_TCP, PIN_EGRESS_PORT},
        {"a.example.org", 7999, PIN_PROTOCOL_TCP, PIN_EGRESS_PORT},
        {"example.org", 80, PIN_PROTOCOL_TCP, PIN_EGRESS_NOT_LISTED},
        {"evilexample.org", 80, PIN_PROTOCOL_TCP, PIN_EGRESS_NOT_LISTED},
        {"bad.example.org", 80, PIN_PROTOCOL_TCP, PIN_EGRESS_DENY_RULE},
        {"half.example.org", 8001, PIN_PROTOCOL_TCP, PIN_EGRESS_DENY_RULE},
        {"half.example.org", 8501, PIN_PROTOCOL_TCP, PIN_EGRESS_ALLOWED},
        {"dns.example.net", 53, PIN_PROTOCOL_UDP, PIN_EGRESS_ALLOWED},
        {"dns.example.net", 53, PIN_PROTOCOL_TCP, PIN_EGRESS_PROTOCOL},
        {"no-ports.example.com", 443, PIN_PROTOCOL_TCP, PIN_EGRESS_PORT},
        {PIN_HOST_INTERNAL, 443, PIN_PROTOCOL_TCP, PIN_EGRESS_ALLOWED},
        {PIN_HOST_INTERNAL, 80, PIN_PROTOCOL_TCP, PIN_EGRESS_PORT},
    };
    /* clang-format on */
    for (size_t i = 0; i < PIN_COUNT(rows); i++) {
        struct pin_destination to = {
            .host = rows[i].host, .port = rows[i].port, .protocol = rows[i].protocol};
        struct pin_verdict verdict = pin_egress_judge(&rules, &to);
        if (verdict.reason != rows[i].reason)
            fail_msg("%s:%u: %s", rows[i].host, rows[i].port, pin_egress_reason_name(verdict.reason));
        assert_int_equal(verdict.allowed, verdict.reason == PIN_EGRESS_ALLOWED);
    }
}

static void a_name_may_be_asked_for_while_any_port_of_it_is_left(void **state) {
    (void)state;
    /* clang-format off */
    static const struct {
        const char *host;
        enum pin_egress_reason reason;
    } rows[] = {
        {"api.example.com", PIN_EGRESS_ALLOWED},
        {"half.example.org", PIN_EGRESS_ALLOWED},
        {"whole.example.org", PIN_EGRESS_DENY_RULE},
        {"bad.example.org", PIN_EGRESS_DENY_RULE},
        {"other.example.com", PIN_EGRESS_NOT_LISTED},
        {"dns.example.net", PIN_EGRESS_ALLOWED},
        {"no-ports.example.com", PIN_EGRESS_DENY_RULE},
        {"example.org", PIN_EGRESS_NOT_LISTED},
    };
    /* clang-format on */
    for (size_t i = 0; i < PIN_COUNT(rows); i++) {
        struct pin_verdict verdict = pin_egress_judge_name(&rules, rows[i].host);
        bool denied = verdict.rule >= rules.deny && verdict.rule < rules.deny + rules.deny_count;
        bool names_it =
            verdict.rule == NULL || verdict.rule->port_count > 0; /* else nothing took its ports */
        if (verdict.reason != rows[i].reason ||
            (names_it && denied != (rows[i].reason == PIN_EGRESS_DENY_RULE)))
            fail_msg("%s", rows[i].host);
    }
}

static void a_wildcard_refuses_the_hosts_loopback_and_never_grants_it(void **state) {
    (void)state;
    const struct pin_egress_rule wild = {.host = "*.pinfold.internal", .ports = https, .port_count = 1};
    const struct pin_egress_rule named = {.host = PIN_HOST_INTERNAL, .ports = https, .port_count = 1};
    const struct pin_destination to = {.host = PIN_HOST_INTERNAL, .port = 443};
    struct pin_egress_rules list = {.allow = &wild, .allow_count = 1};
    assert_int_equal(pin_egress_judge(&list, &to).reason, PIN_EGRESS_NOT_LISTED);
    list.allow = &named;
    assert_int_equal(pin_egress_judge(&list, &to).reason, PIN_EGRESS_ALLOWED);
    list.deny = &wild;
    list.deny_count = 1;
    assert_int_equal(pin_egress_judge(&list, &to).reason, PIN_EGRESS_DENY_RULE);
    assert_false(pin_egress_judge_name(&list, PIN_HOST_INTERNAL).allowed);
}

static void an_empty_list_denies_everything(void **state) {
    (void)state;
    struct pin_egress_rules none = {.allow = NULL};
    struct pin_destination name = {.host = "api.example.com", .port = 443};
    struct pin_destination literal = {.address = V4(203, 0, 113, 1), .port = 443};
    assert_int_equal(pin_egress_judge(&none, &name).reason, PIN_EGRESS_NO_RULES);
    assert_int_equal(pin_egress_judge(&none, &literal).reason, PIN_EGRESS_NO_RULES);
    assert_int_equal(pin_egress_judge_name(&none, "api.example.com").reason, PIN_EGRESS_NO_RULES);
}

static enum pin_egress_reason judge_literal(const struct pin_egress_rules *set, const char *address,
                                            uint16_t port) {
    struct pin_destination to = {.port = port};
    assert_true(pin_address_parse(to.address, address));
    return pin_egress_judge(set, &to).reason;
}

static void an_address_is_matched_by_cidr_rules_only(void **state) {
    (void)state;
    assert_int_equal(judge_literal(&rules, "10.1.2.3", 5432), PIN_EGRESS_ALLOWED);
    assert_int_equal(judge_literal(&rules, "10.1.2.3", 5433), PIN_EGRESS_PORT);
    assert_int_equal(judge_literal(&rules, "10.1.3.3", 5432), PIN_EGRESS_NOT_LISTED);
    assert_int_equal(judge_literal(&rules, "10.1.2.200", 5432), PIN_EGRESS_DENY_RULE);
    assert_int_equal(judge_literal(&rules, "fd12::1", 443), PIN_EGRESS_ALLOWED);
    assert_int_equal(judge_literal(&rules, "fd13::1", 443), PIN_EGRESS_NOT_LISTED);
    assert_int_equal(judge_literal(&rules, "93.184.216.34", 443), PIN_EGRESS_NOT_LISTED);
}

static void every_ipv6_address_is_not_every_ipv4_address(void **state) {
    (void)state;
    struct pin_egress_rule six = {.prefix = 0, .ports = https, .port_count = 1};
    struct pin_egress_rule four = {.address = V4(0, 0, 0, 0), .prefix = 96, .ports = https, .port_count = 1};
    struct pin_egress_rules all_six = {.allow = &six, .allow_count = 1};
    struct pin_egress_rules all_four = {.allow = &four, .allow_count = 1};
    assert_int_equal(judge_literal(&all_six, "2600::1", 443), PIN_EGRESS_ALLOWED);
    assert_int_equal(judge_literal(&all_six, "9.0.0.1", 443), PIN_EGRESS_NOT_LISTED);
    assert_int_equal(judge_literal(&all_four, "9.0.0.1", 443), PIN_EGRESS_ALLOWED);
    assert_int_equal(judge_literal(&all_four, "2600::1", 443), PIN_EGRESS_NOT_LISTED);
}

static void an_allowed_name_leads_to_public_addresses_only(void **state) {
    (void)state;
    /* clang-format off */
    static const struct {
        const char *host, *address;
        uint16_t port;
        enum pin_egress_reason reason;
    } rows[] = {
        {"api.example.com", "93.184.216.34", 443, PIN_EGRESS_ALLOWED},
        {"api.example.com", "2600::1", 443, PIN_EGRESS_ALLOWED},
        {"api.example.com", "127.0.0.1", 443, PIN_EGRESS_ADDRESS_CLASS},
        {"api.example.com", "169.254.169.254", 443, PIN_EGRESS_ADDRESS_CLASS},
        {"api.example.com", "10.1.2.3", 443, PIN_EGRESS_ADDRESS_CLASS}, /* the cidr rule has another port */
        {"api.example.com", "fd12::7", 443, PIN_EGRESS_ALLOWED},        /* opened by a cidr rule */
        {"api.example.com", "fd13::7", 443, PIN_EGRESS_ADDRESS_CLASS},
        {"api.example.com", "203.0.113.66", 443, PIN_EGRESS_DENY_RULE},
        {"api.example.com", "93.184.216.34", 80, PIN_EGRESS_PORT},
        {PIN_HOST_INTERNAL, "127.0.0.1", 443, PIN_EGRESS_ALLOWED},
        {PIN_HOST_INTERNAL, "::1", 443, PIN_EGRESS_ALLOWED},
        {PIN_HOST_INTERNAL, "10.0.0.1", 443, PIN_EGRESS_ADDRESS_CLASS},
    };
    /* clang-format on */
    for (size_t i = 0; i < PIN_COUNT(rows); i++) {
        struct pin_destination to = {.host = rows[i].host, .port = rows[i].port};
        assert_true(pin_address_parse(to.address, rows[i].address));
        enum pin_egress_reason reason = pin_egress_judge_resolved(&rules, &to).reason;
        if (reason != rows[i].reason)
            fail_msg("%s %s: %s", rows[i].host, rows[i].address, pin_egress_reason_name(reason));
    }
}

static void addresses_have_their_class(void **state) {
    (void)state;
    /* clang-format off */
    static const struct {
        const char *address;
        enum pin_address_class class;
    } rows[] = {
        {"1.1.1.1", PIN_ADDRESS_PUBLIC},
        {"93.184.216.34", PIN_ADDRESS_PUBLIC},
        {"11.0.0.0", PIN_ADDRESS_PUBLIC},
        {"9.255.255.255", PIN_ADDRESS_PUBLIC},
        {"172.15.255.255", PIN_ADDRESS_PUBLIC},
        {"172.32.0.0", PIN_ADDRESS_PUBLIC},
        {"192.167.255.255", PIN_ADDRESS_PUBLIC},
        {"192.169.0.0", PIN_ADDRESS_PUBLIC},
        {"100.63.255.255", PIN_ADDRESS_PUBLIC},
        {"100.128.0.0", PIN_ADDRESS_PUBLIC},
        {"198.17.255.255", PIN_ADDRESS_PUBLIC},
        {"198.20.0.0", PIN_ADDRESS_PUBLIC},
        {"223.255.255.255", PIN_ADDRESS_PUBLIC},
        {"192.0.2.1", PIN_ADDRESS_PUBLIC},
        {"203.0.113.1", PIN_ADDRESS_PUBLIC},
        {"2606:4700::1111", PIN_ADDRESS_PUBLIC},
        {"2001:4860:4860::8888", PIN_ADDRESS_PUBLIC},
        {"3fff::1", PIN_ADDRESS_PUBLIC},
        {"2001:db8::1", PIN_ADDRESS_PUBLIC},
        {"0.0.0.0", PIN_ADDRESS_UNSPECIFIED},
        {"0.1.2.3", PIN_ADDRESS_UNSPECIFIED},
        {"::", PIN_ADDRESS_UNSPECIFIED},
        {"127.0.0.1", PIN_ADDRESS_LOOPBACK},
        {"127.255.255.255", PIN_ADDRESS_LOOPBACK},
        {"::1", PIN_ADDRESS_LOOPBACK},
        {"10.0.0.0", PIN_ADDRESS_PRIVATE},
        {"10.255.255.255", PIN_ADDRESS_PRIVATE},
        {"172.16.0.1", PIN_ADDRESS_PRIVATE},
        {"172.31.255.255", PIN_ADDRESS_PRIVATE},
        {"192.168.255.255", PIN_ADDRESS_PRIVATE},
        {"fc00::1", PIN_ADDRESS_PRIVATE},
        {"fdff::1", PIN_ADDRESS_PRIVATE},
        {"fec0::1", PIN_ADDRESS_PRIVATE},
        {"100.64.0.0", PIN_ADDRESS_SHARED},
        {"100.127.255.255", PIN_ADDRESS_SHARED},
        {"169.254.0.1", PIN_ADDRESS_LINK_LOCAL},
        {"fe80::1", PIN_ADDRESS_LINK_LOCAL},
        {"febf::1", PIN_ADDRESS_LINK_LOCAL},
        {"169.254.169.254", PIN_ADDRESS_METADATA},
        {"169.254.170.2", PIN_ADDRESS_METADATA},
        {"100.100.100.200", PIN_ADDRESS_METADATA},
        {"192.0.0.192", PIN_ADDRESS_METADATA},
        {"168.63.129.16", PIN_ADDRESS_METADATA},
        {"fd00:ec2::254", PIN_ADDRESS_METADATA},
        {"fd20:ce::254", PIN_ADDRESS_METADATA},
        {"169.254.170.23", PIN_ADDRESS_METADATA},
        {"fd00:ec2::23", PIN_ADDRESS_METADATA},
        {"169.254.42.42", PIN_ADDRESS_METADATA},
        {"fd00:42::42", PIN_ADDRESS_METADATA},
        {"169.254.0.23", PIN_ADDRESS_METADATA},
        {"fd00:a9fe:a9fe::1", PIN_ADDRESS_METADATA},
        {"fe80::a9fe:a9fe", PIN_ADDRESS_METADATA},
        {"224.0.0.251", PIN_ADDRESS_MULTICAST},
        {"239.255.255.250", PIN_ADDRESS_MULTICAST},
        {"ff02::fb", PIN_ADDRESS_MULTICAST},
        {"255.255.255.255", PIN_ADDRESS_BROADCAST},
        {"240.0.0.1", PIN_ADDRESS_RESERVED},
        {"192.0.0.1", PIN_ADDRESS_RESERVED},
        {"198.18.0.1", PIN_ADDRESS_BENCHMARK},
        {"198.19.255.255", PIN_ADDRESS_BENCHMARK},
        {"64:ff9b::a9fe:a9fe", PIN_ADDRESS_NAT64},
        {"64:ff9b::8.8.8.8", PIN_ADDRESS_NAT64},
        {"64:ff9b:1::1", PIN_ADDRESS_NAT64},
        {"2002:7f00:1::", PIN_ADDRESS_6TO4},
        {"2002:808:808::1", PIN_ADDRESS_6TO4},
        {"192.88.99.1", PIN_ADDRESS_6TO4},
        {"2001::1", PIN_ADDRESS_TEREDO},
        {"2001:0:4136:e378:8000:63bf:3fff:fdd2", PIN_ADDRESS_TEREDO},
        {"::127.0.0.1", PIN_ADDRESS_EMBEDDED},
        {"::8.8.8.8", PIN_ADDRESS_EMBEDDED},
        {"::ffff:0:127.0.0.1", PIN_ADDRESS_EMBEDDED},
        {"2600::5efe:10.0.0.1", PIN_ADDRESS_EMBEDDED},
        {"2600::200:5efe:a00:1", PIN_ADDRESS_EMBEDDED},
        {"2001:10::1", PIN_ADDRESS_RESERVED},
        {"100::1", PIN_ADDRESS_RESERVED},
        {"4000::1", PIN_ADDRESS_RESERVED},
        {"::ffff:10.0.0.1", PIN_ADDRESS_PRIVATE},
        {"::ffff:169.254.169.254", PIN_ADDRESS_METADATA},
        {"::ffff:127.0.0.1", PIN_ADDRESS_LOOPBACK},
        {"::ffff:1.1.1.1", PIN_ADDRESS_PUBLIC},
        {"5f00::1", PIN_ADDRESS_RESERVED},
    };
    /* clang-format on */
    for (size_t i = 0; i < PIN_COUNT(rows); i++) {
        uint8_t address[PIN_ADDRESS_SIZE];
        assert_true(pin_address_parse(address, rows[i].address));
        enum pin_address_class class = pin_address_classify(address);
        if (class != rows[i].class)
            fail_msg("%s is %s", rows[i].address, pin_address_class_name(class));
    }
}

static void addresses_have_one_text(void **state) {
    (void)state;
    static const char *const not_addresses[] = {
        "",           "127.1",      "0127.0.0.1", "0x7f.0.0.1", "2130706433", "[::1]",
        "fe80::1%lo", "127.0.0.1 ", " ::1",       "1.2.3.4.5",  "1.2.3.256",  "1.2.3.4:80",
        "::1/128",    "12345::",    "1.2.3.-4",   "01.2.3.4",   "1.2.3",      "::ffff:1.2.3"};
    uint8_t address[PIN_ADDRESS_SIZE];
    char text[PIN_ADDRESS_TEXT];
    for (size_t i = 0; i < PIN_COUNT(not_addresses); i++)
        assert_false(pin_address_parse(address, not_addresses[i]));
    assert_true(pin_address_parse(address, "::FFFF:10.1.2.3"));
    assert_string_equal(pin_address_print(text, address), "10.1.2.3");
    assert_true(pin_address_parse(address, "2001:DB8:0:0::1"));
    assert_string_equal(pin_address_print(text, address), "2001:db8::1");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(names_and_ports_are_judged_together),
        cmocka_unit_test(a_name_may_be_asked_for_while_any_port_of_it_is_left),
        cmocka_unit_test(a_wildcard_refuses_the_hosts_loopback_and_never_grants_it),
        cmocka_unit_test(an_empty_list_denies_everything),
        cmocka_unit_test(an_address_is_matched_by_cidr_rules_only),
        cmocka_unit_test(every_ipv6_address_is_not_every_ipv4_address),
        cmocka_unit_test(an_allowed_name_leads_to_public_addresses_only),
        cmocka_unit_test(addresses_have_their_class),
        cmocka_unit_test(addresses_have_one_text),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
