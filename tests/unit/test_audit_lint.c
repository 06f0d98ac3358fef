#include "audit_fixture.h"

#include <time.h>

#include "policy/audit/lint.h"

static void lint_of(struct pin_lint *lint, const struct pin_policy *policy) {
    PIN_REACH struct pin_reach reach;
    reach_of(&reach, policy);
    memset(lint, 0, sizeof(*lint));
    pin_lint_check(lint, &reach);
}

static const struct pin_lint_fault *find(const struct pin_lint *lint, const char *id) {
    for (size_t i = 0; i < lint->count; i++)
        if (strcmp(lint->faults[i].rule->id, id) == 0)
            return &lint->faults[i];
    return NULL;
}

#define EGRESS(rules) "\"network\": {\"egress\": [" rules "]}"

/* A policy with the fault, the same without it, and where it is said to be. */
/* clang-format off: version 14 crashes on this table */
static const struct {
    const char *id, *bad, *good, *pointer;
} rows[] = {
    {"PF001",
     EGRESS("{\"host\": \"a.example.com\", \"ports\": [443]}, {\"host\": \"b.example.com\", \"ports\": "
            "[443]}") ", \"secrets\": [\"KEY\"]",
     EGRESS("{\"host\": \"a.example.com\", \"ports\": [443]}") ", \"secrets\": [\"KEY\"]",                                                                                               "/secrets/0"                  },
    {"PF003", "\"filesystem\": {\"root\": \"overlay\", \"write\": [\"/\"]}",
     "\"filesystem\": {\"root\": \"overlay\", \"write\": [\"/workspace\", \"/var\"]}",                                                                                                   "/filesystem/write/0"         },
    {"PF004", "\"syscalls\": {\"baseline\": \"oci\"}",                                                   "\"syscalls\": {\"baseline\": \"build\"}",
     "/syscalls/baseline"                                                                                                                                                                                              },
    {"PF005",
     EGRESS("{\"host\": \"*.x.org\", \"ports\": [443, 80]}, {\"host\": \"a.x.org\", \"ports\": [443]}"),
     EGRESS("{\"host\": \"*.x.org\", \"ports\": [443]}, {\"host\": \"a.x.org\", \"ports\": [444]}"),
     "/network/egress/1"                                                                                                                                                                                               },
    {"PF006",
     "\"network\": {\"egress\": [{\"host\": \"a.x.org\", \"ports\": [443]}], \"deny\": [{\"host\": "
     "\"*.x.org\"}]}",                                                                                   "\"network\": {\"egress\": [{\"host\": \"a.x.org\", \"ports\": [443]}], \"deny\": [{\"host\": "
     "\"b.x.org\"}]}",                                                                                                                                             "/network/egress/0"           },
    {"PF007", "\"resources\": {\"pids\": \"unlimited\"}",                                                "\"resources\": {\"pids\": 9}",                                                 "/resources/pids"             },
    {"PF008", EGRESS("{\"cidr\": \"0.0.0.0/0\", \"ports\": [443]}"),
     EGRESS("{\"cidr\": \"10.1.0.0/16\", \"ports\": [443]}"),                                                                                                                            "/network/egress/0"           },
    {"PF008", EGRESS("{\"cidr\": \"2000::/3\", \"ports\": [443]}"),
     EGRESS("{\"cidr\": \"2001:db8::/32\", \"ports\": [443]}"),                                                                                                                          "/network/egress/0"           },
    {"PF009", EGRESS("{\"cidr\": \"169.254.169.254\", \"ports\": [80]}"),
     EGRESS("{\"cidr\": \"10.0.0.1\", \"ports\": [80]}"),                                                                                                                                "/network/egress/0"           },
    {"PF010", EGRESS("{\"host\": \"a.x.org\", \"ports\": [\"1-100\"]}"),
     EGRESS("{\"host\": \"a.x.org\", \"ports\": [\"8000-8010\"]}"),                                                                                                                      "/network/egress/0"           },
    {"PF011", "\"capabilities\": [\"CAP_KILL\", \"CAP_SYS_ADMIN\"]",                                     "\"capabilities\": [\"CAP_KILL\"]",
     "/capabilities/1"                                                                                                                                                                                                 },
    {"PF012", "\"privileged\": true",                                                                    "\"privileged\": false",                                                        "/privileged"                 },
    {"PF013", "\"environment\": {\"pass\": [\"GITHUB_TOKEN\"]}",                                         "\"environment\": {\"pass\": [\"LANG\"]}",
     "/environment/pass/0"                                                                                                                                                                                             },
    {"PF014", "\"environment\": {\"set\": {\"DB_PASSWORD\": \"x\"}}",
     "\"environment\": {\"set\": {\"TZ\": \"UTC\"}}",                                                                                                                                    "/environment/set/DB_PASSWORD"},
    {"PF015", "\"environment\": {\"refuse\": []}",                                                       "\"environment\": {\"refuse\": [\"LD_*\"]}",
     "/environment/refuse"                                                                                                                                                                                             },
    {"PF016", "\"optional\": [\"memory\"]",                                                              "\"optional\": []",                                                             "/optional"                   },
    {"PF017", "\"images\": [\"*\"]",                                                                     "\"images\": [\"host\"]",                                                       "/images/0"                   },
    {"PF018", "\"filesystem\": {\"mounts\": [{\"source\": \"/run/docker.sock\", \"target\": \"/d\"}]}",
     "\"filesystem\": {\"mounts\": [{\"source\": \"/srv/d\", \"target\": \"/d\"}]}",                                                                                                     "/filesystem/mounts/0"        },
    {"PF018", "\"filesystem\": {\"mounts\": [{\"source\": \"/srv/me/.ssh/id\", \"target\": \"/d\"}]}",
     "\"filesystem\": {\"mounts\": [{\"source\": \"/srv/me/ssh\", \"target\": \"/d\"}]}",                                                                                                "/filesystem/mounts/0"        },
    {"PF019",
     "\"filesystem\": {\"write\": [\"/d\"], \"mounts\": [{\"source\": \"/srv/d\", \"target\": \"/d\", "
     "\"access\": \"read-write\"}]}",                                                                    "\"filesystem\": {\"mounts\": [{\"source\": \"/srv/d\", \"target\": \"/d\"}]}", "/filesystem/mounts/0"        },
    {"PF020", EGRESS("{\"host\": \"a.x.org\", \"ports\": [23]}"),
     EGRESS("{\"host\": \"a.x.org\", \"ports\": [22]}"),                                                                                                                                 "/network/egress/0"           },
    {"PF021", "\"identity\": {\"user\": 0}",                                                             "\"identity\": {\"user\": 5}",                                                  "/identity/user"              },
    {"PF022", EGRESS("{\"host\": \"a.x.org\", \"ports\": [443]}"),
     EGRESS("{\"host\": \"a.x.org\", \"ports\": [443]}") ", \"audit\": {\"record\": [\"egress\"]}",
     "/audit/record"                                                                                                                                                                                                   },
    {"PF023", "\"syscalls\": {\"allow\": [\"read\"]}",                                                   "\"syscalls\": {\"allow\": [\"inotify_init\"]}",
     "/syscalls/allow/0"                                                                                                                                                                                               },
    {"PF023", "\"syscalls\": {\"deny\": [\"mount\"]}",                                                   "\"syscalls\": {\"deny\": [\"socket\"]}",
     "/syscalls/deny/0"                                                                                                                                                                                                },
    {"PF024", EGRESS("{\"host\": \"host.pinfold.internal\", \"ports\": [11434]}"),
     EGRESS("{\"host\": \"a.x.org\", \"ports\": [11434]}"),                                                                                                                              "/network/egress/0"           },
    {"PF025", "\"resources\": {\"core\": \"1MiB\"}, \"secrets\": [\"KEY\"]",
     "\"resources\": {\"core\": \"1MiB\"}",                                                                                                                                              "/resources/core"             },
    {"PF027", "\"network\": {\"publish\": [\"80=127.0.0.1:0\"]}",
     "\"network\": {\"publish\": [\"80=unix:web\"]}",                                                                                                                                    "/network/publish/0"          },
    {"PF026",
     "\"filesystem\": {\"mounts\": [{\"source\": \"/srv/d\", \"target\": \"/d\", \"access\": "
     "\"read-write\"}]}",                                                                                "\"filesystem\": {\"write\": [\"/d\"], \"mounts\": [{\"source\": \"/srv/d\", \"target\": \"/d\", "
     "\"access\": \"read-write\"}]}",                                                                                                                           "/filesystem/mounts/0"        },
};
/* clang-format on */

static void each_rule_finds_its_fault_and_nothing_else(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        PIN_LINT struct pin_lint with, without;
        struct pin_policy *bad = policy_of(rows[i].bad), *good = policy_of(rows[i].good);
        lint_of(&with, bad);
        lint_of(&without, good);
        const struct pin_lint_fault *fault = find(&with, rows[i].id);
        if (fault == NULL)
            fail_msg("%s doesn't find '%s'", rows[i].id, rows[i].bad);
        assert_string_equal(fault->pointer, rows[i].pointer);
        if (find(&without, rows[i].id) != NULL)
            fail_msg("%s finds '%s'", rows[i].id, rows[i].good);
        pin_policy_free(bad);
        pin_policy_free(good);
    }
}

static void every_rule_has_a_row_above(void **state) {
    (void)state;
    for (size_t i = 0; i < pin_lint_rules_count; i++) {
        size_t found = 0;
        for (size_t j = 0; j < sizeof(rows) / sizeof(rows[0]); j++)
            found += strcmp(rows[j].id, pin_lint_rules[i].id) == 0;
        if (found == 0)
            fail_msg("%s has no row", pin_lint_rules[i].id);
    }
}

static void the_default_profiles_have_no_errors(void **state) {
    (void)state;
    static const char *const names[] = {"strict", "tool", "build"};
    for (size_t i = 0; i < 3; i++) {
        PIN_LINT struct pin_lint lint;
        struct pin_policy *policy = policy_named(names[i]);
        lint_of(&lint, policy);
        assert_int_equal(pin_lint_count(&lint, PIN_LINT_WARNING), 0);
        pin_policy_free(policy);
    }
}

static void places_are_lines_of_the_file(void **state) {
    (void)state;
    static const char text[] = "{\"pinfold\": 1,\n \"network\": {\"egress\": [\n"
                               "  {\"cidr\": \"0.0.0.0/0\", \"ports\": [443]}]}}";
    struct pin_findings found = {0};
    PIN_LINT struct pin_lint lint;
    struct pin_policy *policy = pin_policy_parse("p.json", text, sizeof(text) - 1, &found);
    lint_of(&lint, policy);
    const struct pin_lint_fault *fault = find(&lint, "PF008");
    assert_non_null(fault);
    assert_string_equal(fault->place.file, "p.json");
    assert_int_equal(fault->place.line, 3);
    json_t *sarif = pin_lint_sarif(&lint);
    json_t *run = json_array_get(json_object_get(sarif, "runs"), 0);
    json_t *result = json_array_get(json_object_get(run, "results"), 0);
    assert_string_equal(json_string_value(json_object_get(result, "ruleId")), "PF008");
    assert_string_equal(json_string_value(json_object_get(result, "level")), "error");
    json_decref(sarif);
    pin_policy_free(policy);
}

static void rules_can_be_left_out_by_id_or_name(void **state) {
    (void)state;
    static const char *const ids[] = {"PF021", "any-image"}, *const wrong[] = {"PF999"};
    PIN_LINT struct pin_lint lint;
    struct pin_error err = {0};
    struct pin_policy *policy = policy_of("\"identity\": {\"user\": 0}, \"images\": [\"*\"]");
    lint_of(&lint, policy);
    assert_true(pin_lint_ignore(&lint, ids, 2, &err));
    assert_int_equal(lint.count, 0);
    assert_false(pin_lint_ignore(&lint, wrong, 1, &err));
    pin_policy_free(policy);
}

static void secrets_in_the_policy_are_not_printed(void **state) {
    (void)state;
    PIN_LINT struct pin_lint lint;
    PIN_BUFFER struct pin_buffer text = {0};
    struct pin_policy *policy = policy_of("\"environment\": {\"set\": {\"API_TOKEN\": \"hunter2hunter2\"}}");
    lint_of(&lint, policy);
    pin_lint_print(&text, &lint);
    assert_non_null(strstr(text.data, "API_TOKEN"));
    assert_null(strstr(text.data, "hunter2"));
    pin_policy_free(policy);
}

static void a_thousand_rules_take_a_moment(void **state) {
    (void)state;
    PIN_BUFFER struct pin_buffer rules = {0};
    PIN_LINT struct pin_lint lint;
    pin_buffer_add(&rules, "\"network\": {\"egress\": [");
    for (int i = 0; i < 1000; i++)
        pin_buffer_printf(&rules, "%s{\"host\": \"%sh%d.example.com\", \"ports\": [443]}", i > 0 ? ", " : "",
                          i % 3 == 0 ? "*." : "", i);
    pin_buffer_add(&rules, "]}");
    struct pin_policy *policy = policy_of(rules.data);
    struct timespec start, end;
    (void)clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &start);
    lint_of(&lint, policy);
    (void)clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &end);
    double seconds = (double)(end.tv_sec - start.tv_sec) + (double)(end.tv_nsec - start.tv_nsec) / 1e9;
    print_message("1000 rules: %.3f s\n", seconds);
    assert_true(seconds < 2.0); /* ten times the promise: sanitizers and slow machines */
    pin_policy_free(policy);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_rule_finds_its_fault_and_nothing_else),
        cmocka_unit_test(every_rule_has_a_row_above),
        cmocka_unit_test(the_default_profiles_have_no_errors),
        cmocka_unit_test(places_are_lines_of_the_file),
        cmocka_unit_test(rules_can_be_left_out_by_id_or_name),
        cmocka_unit_test(secrets_in_the_policy_are_not_printed),
        cmocka_unit_test(a_thousand_rules_take_a_moment),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
