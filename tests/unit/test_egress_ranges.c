/* Ranges of addresses: what allow rules open, what deny rules close, and their order. */
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

static struct pin_port_range https[] = {
    {443, 443}
};

/* clang-format off */
static const struct {
    const char *range, *address;
    bool opened;
} openings[] = {
    {"0.0.0.0/0", "93.184.216.34", true},
    {"0.0.0.0/0", "127.0.0.1", false},
    {"0.0.0.0/0", "10.0.0.1", false},
    {"0.0.0.0/0", "169.254.169.254", false},
    {"0.0.0.0/0", "169.254.0.1", false},
    {"0.0.0.0/0", "100.64.0.1", false},
    {"0.0.0.0/0", "224.0.0.251", false},
    {"0.0.0.0/0", "255.255.255.255", false},
    {"0.0.0.0/0", "0.0.0.0", false},
    {"0.0.0.0/0", "198.18.0.1", false},
    {"0.0.0.0/0", "168.63.129.16", false},
    {"0.0.0.0/1", "127.0.0.1", false},
    {"8.0.0.0/5", "10.0.0.1", false},
    {"8.0.0.0/5", "9.9.9.9", true},
    {"10.0.0.0/7", "10.0.0.1", false},
    {"10.0.0.0/7", "11.0.0.1", true},
    {"10.0.0.0/8", "10.0.0.1", true},
    {"10.1.2.0/24", "10.1.2.3", true},
    {"127.0.0.0/8", "127.0.0.1", true},
    {"126.0.0.0/7", "127.0.0.1", false},
    {"0.0.0.0/8", "0.1.2.3", true},
    {"0.0.0.0/8", "0.0.0.0", false},
    {"0.0.0.0", "0.0.0.0", true},
    {"172.16.0.0/12", "172.31.255.255", true},
    {"172.0.0.0/8", "172.16.0.1", false},
    {"192.168.0.0/16", "192.168.1.1", true},
    {"192.0.0.0/8", "192.168.1.1", false},
    {"100.64.0.0/10", "100.100.0.1", true},
    {"100.64.0.0/10", "100.100.100.200", false},
    {"100.100.100.200", "100.100.100.200", true},
    {"169.254.0.0/16", "169.254.1.1", true},
    {"169.254.0.0/16", "169.254.169.254", false},
    {"169.254.169.254/31", "169.254.169.254", false},
    {"169.254.169.254/31", "169.254.169.255", true},
    {"169.254.169.254/32", "169.254.169.254", true},
    {"168.0.0.0/8", "168.63.129.16", false},
    {"168.63.129.16", "168.63.129.16", true},
    {"224.0.0.0/4", "224.0.0.251", true},
    {"224.0.0.0/3", "224.0.0.251", false},
    {"224.0.0.0/3", "240.0.0.1", false},
    {"240.0.0.0/4", "255.255.255.255", false},
    {"::/0", "2600::1", true},
    {"::/0", "2001:db8::1", true},
    {"::/0", "::1", false},
    {"::/0", "fd00::1", false},
    {"::/0", "fe80::1", false},
    {"::/0", "ff02::fb", false},
    {"::/0", "64:ff9b::808:808", false},
    {"::/0", "2002:808:808::1", false},
    {"::/0", "2001:0:4136:e378:8000:63bf:3fff:fdd2", false},
    {"::/0", "::8.8.8.8", false},
    {"::/0", "4000::1", false},
    {"::/0", "93.184.216.34", false},
    {"::/1", "64:ff9b::808:808", false},
    {"2000::/3", "2600::1", true},
    {"2000::/3", "2002:808:808::1", false},
    {"2000::/3", "2001:10::1", false},
    {"2002::/16", "2002:808:808::1", true},
    {"2001::/16", "2001::1", false},
    {"2001::/23", "2001::1", false},
    {"2001::/23", "2001:10::1", true},
    {"2001::/32", "2001::1", true},
    {"64:ff9b::/96", "64:ff9b::808:808", true},
    {"64:ff9b::/64", "64:ff9b::808:808", false},
    {"64:ff9b:1::/48", "64:ff9b:1::1", true},
    {"fd00::/8", "fd12::1", true},
    {"fd00::/8", "fd00:ec2::254", false},
    {"fd00::/8", "fd00:a9fe:a9fe::1", false},
    {"fc00::/7", "fd12::1", true},
    {"f800::/5", "fd12::1", false},
    {"fe80::/10", "fe80::1", true},
    {"fe80::/9", "fe80::1", false},
    {"::/96", "::8.8.8.8", true},
    {"::/96", "::1", false},
    {"::/96", "::", false},
    {"::1", "::1", true},
    {"::/127", "::1", false},
    {"2600::/64", "2600::5efe:10.0.0.1", false},
    {"2600::5efe:0:0/96", "2600::5efe:10.0.0.1", true},
    {"fe80::/10", "fe80::5efe:10.0.0.1", false},
    {"4000::/2", "4000::1", true},
    {"c000::/2", "fd12::1", false},
};
/* clang-format on */

static enum pin_egress_reason judge_literal(const struct pin_egress_rules *set, const char *address,
                                            uint16_t port) {
    struct pin_destination to = {.port = port};
    assert_true(pin_address_parse(to.address, address));
    return pin_egress_judge(set, &to).reason;
}

/* The verdict on a literal address and on a name that leads there are the same, but for the public ones. */
static void a_range_opens_what_is_special_only_within_its_block(void **state) {
    (void)state;
    for (size_t i = 0; i < PIN_COUNT(openings); i++) {
        struct pin_egress_rule set[] = {
            {.host = "api.example.com", .ports = https, .port_count = 1},
            {.ports = https,                         .port_count = 1                         }
        };
        struct pin_egress_rules one = {.allow = set, .allow_count = 2};
        struct pin_error err = {0};
        assert_true(pin_cidr_parse(openings[i].range, set[1].address, &set[1].prefix, &err));
        for (unsigned protocol = 0; protocol < PIN_PROTOCOL_COUNT; protocol++) {
            struct pin_destination to = {.port = 443, .protocol = (enum pin_protocol)protocol};
            assert_true(pin_address_parse(to.address, openings[i].address));
            set[0].protocol = set[1].protocol = (enum pin_protocol)protocol;
            struct pin_verdict literal = pin_egress_judge(&one, &to);
            to.host = "api.example.com";
            struct pin_verdict name = pin_egress_judge_resolved(&one, &to);
            bool is_public = pin_address_classify(to.address) == PIN_ADDRESS_PUBLIC;
            if (literal.allowed != openings[i].opened || name.allowed != (openings[i].opened || is_public))
                fail_msg("%s %s: %s, by name %s", openings[i].range, openings[i].address,
                         pin_egress_reason_name(literal.reason), pin_egress_reason_name(name.reason));
            bool is_within = pin_cidr_contains(set[1].address, set[1].prefix, to.address);
            if (!literal.allowed && is_within)
                assert_int_equal(literal.reason, PIN_EGRESS_ADDRESS_CLASS);
        }
    }
}

/* What a deny rule's range has it denies, special or not. */
static void a_range_denies_all_that_is_in_it(void **state) {
    (void)state;
    static const char *const special[] = {"127.0.0.1", "10.0.0.1", "169.254.169.254", "224.0.0.1", "9.9.9.9"};
    struct pin_egress_rule no = {.address = V4(0, 0, 0, 0), .prefix = 96};
    for (size_t i = 0; i < PIN_COUNT(special); i++) {
        struct pin_egress_rule yes = {.prefix = 128, .ports = https, .port_count = 1};
        struct pin_egress_rules set = {.allow = &yes, .allow_count = 1, .deny = &no, .deny_count = 1};
        assert_true(pin_address_parse(yes.address, special[i]));
        assert_int_equal(judge_literal(&set, special[i], 443), PIN_EGRESS_DENY_RULE);
        set.deny_count = 0;
        assert_int_equal(judge_literal(&set, special[i], 443), PIN_EGRESS_ALLOWED);
    }
}

/* Whoever opens a translator's block doesn't open what is denied behind it. */
static void a_denied_address_is_denied_in_each_of_its_forms(void **state) {
    (void)state;
    static const struct {
        const char *address;
        bool denied;
    } rows[] = {
        {"64:ff9b::a9fe:a9fe",                   true },
        {"64:ff9b::808:808",                     false},
        {"2002:a9fe:a9fe::1",                    true },
        {"2002:808:808::a9fe:a9fe",              false},
        {"2001:0:4136:e378:8000:63bf:5601:5601", true },
        {"2001:0:a9fe:a9fe:8000:63bf:3fff:fdd2", false},
        {"::a9fe:a9fe",                          true },
        {"::ffff:0:a9fe:a9fe",                   true },
        {"2600::5efe:a9fe:a9fe",                 true },
        {"2600::a9fe:a9fe",                      false},
        {"64:ff9b:1::a9fe:a9fe",                 false},
    };
    struct pin_egress_rule no = {.address = V4(169, 254, 0, 0), .prefix = 96 + 16};
    for (size_t i = 0; i < PIN_COUNT(rows); i++) {
        struct pin_egress_rule yes = {.prefix = 128, .ports = https, .port_count = 1};
        struct pin_egress_rules set = {.allow = &yes, .allow_count = 1, .deny = &no, .deny_count = 1};
        assert_true(pin_address_parse(yes.address, rows[i].address));
        enum pin_egress_reason reason = judge_literal(&set, rows[i].address, 443);
        if (reason != (rows[i].denied ? PIN_EGRESS_DENY_RULE : PIN_EGRESS_ALLOWED))
            fail_msg("%s: %s", rows[i].address, pin_egress_reason_name(reason));
    }
}

static void an_address_of_the_host_is_opened_by_a_rule_for_it_alone(void **state) {
    (void)state;
    /* clang-format off */
    static const struct {
        const char *range, *address;
        enum pin_egress_reason reason;
    } rows[] = {
        {"0.0.0.0/0", "203.0.113.5", PIN_EGRESS_HOST_ADDRESS},
        {"203.0.113.0/24", "203.0.113.5", PIN_EGRESS_HOST_ADDRESS},
        {"203.0.113.4/31", "203.0.113.5", PIN_EGRESS_HOST_ADDRESS},
        {"203.0.113.5", "203.0.113.5", PIN_EGRESS_ALLOWED},
        {"10.0.0.0/8", "10.0.0.5", PIN_EGRESS_HOST_ADDRESS},
        {"0.0.0.0/0", "10.0.0.5", PIN_EGRESS_ADDRESS_CLASS},
        {"10.0.0.5", "10.0.0.5", PIN_EGRESS_ALLOWED},
        {"127.0.0.0/8", "127.0.0.1", PIN_EGRESS_ALLOWED},
        {"0.0.0.0/0", "127.0.0.1", PIN_EGRESS_ADDRESS_CLASS},
        {"2600::/64", "2600::5", PIN_EGRESS_HOST_ADDRESS},
        {"2600::5", "2600::5", PIN_EGRESS_ALLOWED},
    };
    /* clang-format on */
    for (size_t i = 0; i < PIN_COUNT(rows); i++) {
        struct pin_egress_rule set[] = {
            {.host = "api.example.com", .ports = https, .port_count = 1},
            {.ports = https,                         .port_count = 1                         }
        };
        struct pin_egress_rules one = {.allow = set, .allow_count = 2};
        struct pin_destination to = {.port = 443, .is_own = true};
        struct pin_error err = {0};
        assert_true(pin_cidr_parse(rows[i].range, set[1].address, &set[1].prefix, &err));
        assert_true(pin_address_parse(to.address, rows[i].address));
        enum pin_egress_reason literal = pin_egress_judge(&one, &to).reason;
        to.host = "api.example.com";
        enum pin_egress_reason name = pin_egress_judge_resolved(&one, &to).reason;
        if (literal != rows[i].reason || name != rows[i].reason)
            fail_msg("%s %s: %s, by name %s", rows[i].range, rows[i].address, pin_egress_reason_name(literal),
                     pin_egress_reason_name(name));
    }
}

/* --- the judge and the order agree --- */

static uint64_t next_random(uint64_t *seed) {
    *seed ^= *seed << 13;
    *seed ^= *seed >> 7;
    *seed ^= *seed << 17;
    return *seed;
}

/* Keeps the first bits of the range, and takes the others at random: all zeros and all ones among them. */
static void random_within(uint64_t *seed, const struct pin_egress_rule *range, uint8_t to[16]) {
    uint64_t kind = next_random(seed) % 4;
    for (unsigned bit = 0; bit < 128; bit++) {
        uint8_t mask = (uint8_t)(0x80 >> bit % 8);
        bool set = kind == 0 ? false : kind == 1 ? true : next_random(seed) % 2 == 0;
        bool is_kept = bit < range->prefix;
        uint8_t from = is_kept ? range->address[bit / 8] & mask : (uint8_t)(set ? mask : 0);
        to[bit / 8] = (uint8_t)((to[bit / 8] & ~mask) | from);
    }
}

/* A range around a place where classes meet. */
static void random_range(uint64_t *seed, struct pin_egress_rule *rule) {
    static const char *const places[] = {
        "0.0.0.0",
        "126.255.255.255",
        "127.0.0.1",
        "10.0.0.0",
        "11.0.0.1",
        "169.254.169.254",
        "169.254.0.1",
        "100.100.100.200",
        "192.0.0.192",
        "192.168.0.1",
        "224.0.0.1",
        "255.255.255.255",
        "198.18.0.1",
        "203.0.113.5",
        "168.63.129.16",
        "::",
        "::1",
        "::808:808",
        "64:ff9b::a00:1",
        "64:ff9b:1::1",
        "2002:a00:1::",
        "2001::1",
        "2001:10::",
        "2001:db8::1",
        "2600::5efe:a00:1",
        "fd00:ec2::254",
        "fd12::1",
        "fe80::a9fe:a9fe",
        "fec0::1",
        "ff02::1",
        "4000::1",
        "2600::1",
    };
    uint8_t place[16];
    assert_true(pin_address_parse(place, places[next_random(seed) % PIN_COUNT(places)]));
    unsigned least = pin_address_is_ipv4(place) ? 96 : 0;
    struct pin_egress_rule whole = {.prefix = (uint8_t)(least + next_random(seed) % (129 - least))};
    memcpy(whole.address, place, sizeof(place));
    *rule = (struct pin_egress_rule){.prefix = whole.prefix, .ports = https, .port_count = 1};
    for (unsigned bit = 0; bit < whole.prefix; bit++)
        rule->address[bit / 8] |= (uint8_t)(place[bit / 8] & 0x80 >> bit % 8);
}

static bool opens(const struct pin_egress_rule *rule, const uint8_t address[16]) {
    struct pin_egress_rules alone = {.allow = rule, .allow_count = 1};
    struct pin_destination to = {.port = 443};
    memcpy(to.address, address, sizeof(to.address));
    return pin_egress_judge(&alone, &to).allowed;
}

/* One range grants what another does exactly when no address tells them apart. */
static void ranges_are_ordered_as_their_addresses_are_judged(void **state) {
    (void)state;
    uint64_t seed = 0x9E3779B97F4A7C15u;
    size_t granted = 0, told_apart = 0;
    for (int i = 0; i < 20000; i++) {
        struct pin_egress_rule outer, inner;
        random_range(&seed, &outer);
        random_range(&seed, &inner);
        if (!pin_egress_covers_target(&outer, &inner))
            continue;
        bool grants = pin_egress_grants_target(&outer, &inner), escapes = false, opens_any = false;
        for (int j = 0; j < 24; j++) {
            uint8_t address[16] = {0};
            random_within(&seed, &inner, address);
            opens_any = opens_any || opens(&inner, address);
            escapes = escapes || (opens(&inner, address) && !opens(&outer, address));
        }
        char wide[PIN_CIDR_TEXT], narrow[PIN_CIDR_TEXT];
        if (grants == escapes && opens_any)
            fail_msg("%s and %s: %d", pin_cidr_print(wide, outer.address, outer.prefix),
                     pin_cidr_print(narrow, inner.address, inner.prefix), grants);
        granted += grants;
        told_apart += escapes;
    }
    assert_true(granted > 100 && told_apart > 100);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_range_opens_what_is_special_only_within_its_block),
        cmocka_unit_test(a_range_denies_all_that_is_in_it),
        cmocka_unit_test(a_denied_address_is_denied_in_each_of_its_forms),
        cmocka_unit_test(an_address_of_the_host_is_opened_by_a_rule_for_it_alone),
        cmocka_unit_test(ranges_are_ordered_as_their_addresses_are_judged),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
