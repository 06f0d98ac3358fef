#include "audit_fixture.h"

#include "base/names.h"
#include "policy/audit/denial.h"
#include "policy/egress_judge.h"
#include "policy/policy_load.h"
#include "policy/policy_read.h"
#include "policy/site.h"
#include "runtime/watch/watch_command.h"

static const char web[] =
    "\"network\": {\"egress\": [{\"host\": \"api.example.com\", \"ports\": [443]}]}, \"secrets\": [\"KEY\"], "
    "\"extends\": [\"tool\"]";

static void check(json_t *why, const char *question, const char *verdict, bool has_edit) {
    assert_non_null(why);
    assert_string_equal(json_string_value(json_object_get(why, "question")), question);
    assert_string_equal(json_string_value(json_object_get(why, "verdict")), verdict);
    assert_true(strlen(json_string_value(json_object_get(why, "reason"))) > 0);
    assert_int_equal(json_is_object(json_object_get(why, "edit")), has_edit);
    assert_int_equal(json_object_size(why), 9); /* one form for every answer */
    json_decref(why);
}

static void a_call_is_asked_about_with_the_arguments_that_rules_look_at(void **state) {
    (void)state;
    const uint64_t args[PIN_FILTER_ARGS_MAX] = {17, 3, 99};
    struct pin_policy *policy = policy_of(web);
    check(pin_denial_of_call(policy, "socket", args, 7), "syscall socket 0x11 0x3 0x63", "errno", true);
    check(pin_denial_of_call(policy, "socket", args, 5), "syscall socket 0x11 0x0 0x63", "errno", true);
    check(pin_denial_of_call(policy, "unshare", args, 0), "syscall unshare", "errno", false);
    assert_null(pin_denial_of_call(policy, "no_such_call", args, 0));
    pin_policy_free(policy);
}

static void a_connection_is_asked_about_by_name_address_and_port(void **state) {
    (void)state;
    static const struct {
        struct pin_denied_connection what;
        const char *question;
        bool has_edit;
    } rows[] = {
        {{"api.example.com", NULL, 80, false, "port"},                 "connect api.example.com:80",   true },
        {{"other.example", NULL, 0, false, "not-listed"},              "connect other.example:443",    true },
        {{"other.example", NULL, 53, true, "not-listed"},              "connect other.example:53/udp", true },
        {{NULL, "10.0.0.1", 22, false, "not-listed"},                  "connect 10.0.0.1:22",          true },
        {{NULL, "2001:db8::1", 22, false, "not-listed"},               "connect [2001:db8::1]:22",     true },
        {{"api.example.com", "10.0.0.1", 443, false, "address-class"},
         "connect api.example.com:443 10.0.0.1",                                                       true },
        {{"api.example.com", NULL, 443, false, "budget"},              "connect api.example.com:443",  false},
        {{"api.example.com", "93.184.216.34", 443, false, "tls-name"},
         "connect api.example.com:443 93.184.216.34",                                                  false},
    };
    struct pin_policy *policy = policy_of(web);
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
        check(pin_denial_of_connection(policy, &rows[i].what), rows[i].question, "deny", rows[i].has_edit);
    const struct pin_denied_connection nothing = {.port = 443}, bad = {.host = "a b", .port = 443};
    check(pin_denial_of_connection(policy, &nothing), "connect", "deny", false);
    check(pin_denial_of_connection(policy, &bad), "connect a b:443", "deny", false);
    pin_policy_free(policy);
}

/* Whatever the broker may say, the answer is a sentence and no word of a program. */
static void every_reason_of_the_broker_has_words(void **state) {
    (void)state;
    struct pin_policy *policy = policy_of(web);
    for (int i = PIN_EGRESS_ADDRESS_CLASS; i < PIN_EGRESS_REASON_COUNT; i++) {
        const struct pin_denied_connection what = {.host = "api.example.com",
                                                   .port = 443,
                                                   .reason =
                                                       pin_egress_reason_name((enum pin_egress_reason)i)};
        json_t *why = pin_denial_of_connection(policy, &what);
        const char *reason = json_string_value(json_object_get(why, "reason"));
        assert_non_null(strchr(reason, ' '));
        assert_null(strstr(reason, "the broker refused it"));
        json_decref(why);
    }
    pin_policy_free(policy);
}

static void limits_and_requests_have_the_answer_too(void **state) {
    (void)state;
    struct pin_policy *policy = policy_of(web);
    check(pin_denial_of_limit(policy, "wall_time", "1m", "it was given less"), "limit wall_time 1m", "deny",
          true);
    check(pin_denial_of_limit(policy, "wall_time", "1s", "it was given less"), "limit wall_time 1s", "deny",
          false);
    check(pin_denial_of(policy, "secret OTHER"), "secret OTHER", "deny", true);
    assert_null(pin_denial_of(policy, "secret KEY"));
    assert_null(pin_denial_of(policy, "secret"));
    assert_null(pin_denial_of(policy, "connect *.example.com:443"));
    pin_policy_free(policy);
}

static struct pin_policy *site_of(char *text) {
    static char name[] = "site.json";
    struct pin_findings found = {0};
    const struct pin_policy_file file = {.name = name, .text = text, .size = strlen(text)};
    struct pin_policy *site = pin_policy_load_file(&file, true, &found);
    assert_non_null(site);
    return site;
}

static void below_a_site_no_edit_is_offered_that_it_would_refuse(void **state) {
    (void)state;
    static char text[] =
        "{\"pinfold\": 1, \"secrets\": [\"KEY\", \"API_*\"], "
        "\"network\": {\"egress\": [{\"host\": \"*.example.com\", \"ports\": [\"1-65535\"]}]}}";
    static const struct {
        const char *question;
        bool has_edit; /* without a site each has one */
    } rows[] = {
        {"secret OTHER",              false},
        {"secret API_2",              true },
        {"connect b.example.com:443", true },
        {"connect other.example:443", false},
        {"limit wall_time 1m",        true },
    };
    struct pin_findings found = {0};
    struct pin_policy *policy = policy_of(web), *site = site_of(text);
    struct pin_policy *held = pin_policy_copy(policy);
    assert_true(pin_site_apply(held, site, &found));
    pin_policy_free(site); /* what is held below it has a copy */
    struct pin_policy *again = pin_policy_copy(held);
    for (size_t i = 0; i < PIN_COUNT(rows); i++) {
        check(pin_denial_of(policy, rows[i].question), rows[i].question, "deny", true);
        check(pin_denial_of(held, rows[i].question), rows[i].question, "deny", rows[i].has_edit);
        check(pin_denial_of(again, rows[i].question), rows[i].question, "deny", rows[i].has_edit);
    }
    pin_policy_free(again);
    pin_policy_free(held);
    pin_policy_free(policy);
}

static void an_edit_of_nothing_leaves_each_profile_as_it_is(void **state) {
    (void)state;
    static const char *const names[] = {"strict", "tool", "build", "oci"};
    for (size_t i = 0; i < PIN_COUNT(names); i++) {
        struct pin_findings found = {0};
        struct pin_policy *policy = policy_named(names[i]);
        struct pin_policy *same = pin_policy_edit(policy, "{\"description\": \"the same\"}", &found);
        assert_non_null(same);
        assert_memory_equal(same->digest, policy->digest, sizeof(same->digest));
        pin_policy_free(same);
        pin_policy_free(policy);
    }
}

static void the_command_of_a_process_is_read_from_its_cgroup(void **state) {
    (void)state;
    static const struct {
        const char *text;
        uint32_t number;
    } rows[] = {
        {"0::/pinfold/7/exec-12\n",                                     12        },
        {"9:name=systemd:/\n8:pids:/pinfold/7/exec-3\n7:blkio:/\n0::/", 3         },
        {"0::/pinfold/7/exec-4294967295",                               UINT32_MAX},
        {"0::/pinfold/7/exec-4294967296\n",                             0         },
        {"0::/pinfold/7/exec-99999999999999999999999\n",                0         },
        {"0::/pinfold/7/exec-\n",                                       0         },
        {"0::/pinfold/7/exec--1\n",                                     0         },
        {"0::/pinfold/7/exec-5.scope\n",                                0         },
        {"0::/pinfold/7/myexec-5\n",                                    0         },
        {"0::/pinfold/7/call-5\n",                                      0         },
        {"",                                                            0         },
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
        assert_int_equal(pin_watch_command_of(rows[i].text), rows[i].number);
    assert_int_equal(pin_watch_command(0), 0); /* there is no such process */
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_call_is_asked_about_with_the_arguments_that_rules_look_at),
        cmocka_unit_test(a_connection_is_asked_about_by_name_address_and_port),
        cmocka_unit_test(every_reason_of_the_broker_has_words),
        cmocka_unit_test(limits_and_requests_have_the_answer_too),
        cmocka_unit_test(below_a_site_no_edit_is_offered_that_it_would_refuse),
        cmocka_unit_test(an_edit_of_nothing_leaves_each_profile_as_it_is),
        cmocka_unit_test(the_command_of_a_process_is_read_from_its_cgroup),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
