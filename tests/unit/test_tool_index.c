/* Where packages come from: URLs, the policy of an installation, and what its driver is told. */
#include "policy_fixture.h"

#include <stdlib.h>

#include "base/cleanup.h"
#include "base/names.h"
#include "tools/pinfold-tool/deps.h"

static void hosts_are_read_from_urls(void **state) {
    (void)state;
    static const struct {
        const char *url, *name;
        unsigned port;
        bool is_address, is_loopback;
    } rows[] = {
        {"https://index.example/simple/",               "index.example", 443,  false, false},
        {"http://index.example",                        "index.example", 80,   false, false},
        {"https://index.example:8443/a@b",              "index.example", 8443, false, false},
        {"https://user:pass@word@index.example/simple", "index.example", 443,  false, false},
        {"https://index.example?x=@evil.example",       "index.example", 443,  false, false},
        {"http://localhost:3141/root",                  "localhost",     3141, false, true },
        {"http://127.8.9.1:80/",                        "127.8.9.1",     80,   true,  true },
        {"http://[::1]:8080/simple",                    "::1",           8080, true,  true },
        {"https://192.0.2.7/simple",                    "192.0.2.7",     443,  true,  false},
        {"https://[2001:db8::1]/simple",                "2001:db8::1",   443,  true,  false},
    };
    for (size_t i = 0; i < PIN_COUNT(rows); i++) {
        struct pin_deps_host host;
        struct pin_error err = {0};
        if (!pin_deps_host_parse(rows[i].url, &host, &err))
            fail_msg("%s: %s", rows[i].url, err.message);
        assert_string_equal(host.name, rows[i].name);
        assert_int_equal(host.port, rows[i].port);
        assert_int_equal(host.is_address, rows[i].is_address);
        assert_int_equal(host.is_loopback, rows[i].is_loopback);
        assert_memory_equal(rows[i].url + host.name_at + (rows[i].url[host.name_at] == '['), rows[i].name,
                            strlen(rows[i].name));
    }
}

static void other_urls_are_refused_and_no_password_is_told(void **state) {
    (void)state;
    static const char *const urls[] = {
        "",           "file:///x",       "ftp://x/",         "https://",        "https:///x",
        "https://:1", "https://x:0/",    "https://x:65536/", "https://x:1x/",   "https://[::1/",
        "https://[]", "https://x:99999", "https://x:-1/",    "https://[::1]x/", "https://a:secret@/",
    };
    for (size_t i = 0; i < PIN_COUNT(urls); i++) {
        struct pin_deps_host host;
        struct pin_error err = {0};
        if (pin_deps_host_parse(urls[i], &host, &err))
            fail_msg("'%s' is taken", urls[i]);
        assert_null(strstr(err.message, "secret"));
    }
}

static struct pin_policy *policy_of(const struct pin_deps_index *index,
                                    const struct pin_tool_config *stored) {
    struct pin_error err = {0};
    struct pin_policy *call = body("\"name\": \"call\", \"optional\": [\"memory\"]");
    PIN_FREE char *text = pin_deps_policy(index, stored, "/srv/layer", "/opt/layer", call, &err);
    pin_policy_free(call);
    return text == NULL ? NULL : good(text);
}

static void an_installation_reaches_its_index_and_nothing_else(void **state) {
    (void)state;
    static const char *extra[] = {"https://more.example:444/simple"}, *hosts[] = {"files.example:443"};
    const struct pin_deps_index index = {
        .url = "https://index.example/simple", .extra = extra, .extra_count = 1};
    const struct pin_tool_config stored = {.index_hosts = hosts, .index_host_count = 1};
    static const struct {
        const char *host;
        uint16_t port;
    } wanted[] = {
        {"index.example", 443},
        {"more.example",  444},
        {"files.example", 443}
    };
    struct pin_policy *policy = policy_of(&index, &stored);
    assert_int_equal(policy->network.egress_count, PIN_COUNT(wanted));
    for (size_t i = 0; i < PIN_COUNT(wanted); i++) {
        assert_string_equal(policy->network.egress[i].host, wanted[i].host);
        assert_int_equal(policy->network.egress[i].ports[0].first, wanted[i].port);
        assert_int_equal(policy->network.egress[i].ports[0].last, wanted[i].port);
    }
    assert_int_equal(policy->environment.pass.count, 0);
    assert_int_equal(policy->optional, 1u << PIN_PROTECT_MEMORY);
    assert_int_equal(policy->filesystem.mount_count, 1);
    assert_string_equal(policy->filesystem.mounts[0].target, "/opt/layer");
    pin_policy_free(policy);
}

static void addresses_and_the_loopback_have_rules_of_their_own(void **state) {
    (void)state;
    const struct pin_tool_config none = {0};
    const struct pin_deps_index address = {.url = "https://192.0.2.7/simple"};
    const struct pin_deps_index loopback = {.url = "http://127.0.0.1:3141/simple"};
    struct pin_policy *policy = policy_of(&address, &none);
    assert_null(policy->network.egress[0].host);
    assert_int_equal(policy->network.egress[0].prefix, 128);
    pin_policy_free(policy);
    policy = policy_of(&loopback, &none);
    assert_string_equal(policy->network.egress[0].host, "host.pinfold.internal");
    assert_int_equal(policy->network.egress[0].ports[0].first, 3141);
    pin_policy_free(policy);
}

static void a_host_that_is_more_than_a_host_is_refused(void **state) {
    (void)state;
    static const char *const bad[] = {"a.example/x:443", "u@a.example:443", "", ":443", "a.example:0"};
    const struct pin_deps_index index = {.url = "https://index.example/simple"};
    for (size_t i = 0; i < PIN_COUNT(bad); i++) {
        const char *hosts[] = {bad[i]};
        const struct pin_tool_config stored = {.index_hosts = hosts, .index_host_count = 1};
        assert_null(policy_of(&index, &stored));
    }
}

static void the_driver_sees_the_loopback_by_its_name_inside(void **state) {
    (void)state;
    struct pin_error err = {0};
    struct pin_requirement one = {"x", "x==1"};
    const struct pin_requirements list = {&one, 1};
    const struct pin_deps_index index = {.url = "http://u@localhost:3141/simple"};
    PIN_FREE char *packet = pin_deps_packet(&index, &list, "/opt/layer", &err);
    assert_string_equal(packet, "{\"target\":\"/opt/layer\",\"requirements\":[\"x==1\"],"
                                "\"index\":\"http://u@host.pinfold.internal:3141/simple\",\"extra\":[],"
                                "\"trusted\":[\"host.pinfold.internal:3141\"],\"certificates\":null}");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(hosts_are_read_from_urls),
        cmocka_unit_test(other_urls_are_refused_and_no_password_is_told),
        cmocka_unit_test(an_installation_reaches_its_index_and_nothing_else),
        cmocka_unit_test(addresses_and_the_loopback_have_rules_of_their_own),
        cmocka_unit_test(a_host_that_is_more_than_a_host_is_refused),
        cmocka_unit_test(the_driver_sees_the_loopback_by_its_name_inside),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
