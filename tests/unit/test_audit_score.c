#include "audit_fixture.h"

#include <math.h>

#include "policy/audit/score.h"

static double score_of(const struct pin_policy *policy, const struct pin_weights *weights) {
    PIN_REACH struct pin_reach reach;
    PIN_SCORE struct pin_score score = {0};
    reach_of(&reach, policy);
    pin_score_make(&score, &reach, weights);
    return score.total;
}

static void builtin(struct pin_weights *weights) {
    struct pin_findings found = {0};
    memset(weights, 0, sizeof(*weights));
    if (!pin_weights_builtin(weights, &found))
        fail_msg("%s: %s", found.list[0].pointer, found.list[0].message);
}

static double score_named(const char *name, const struct pin_weights *weights) {
    struct pin_policy *policy = policy_named(name);
    double score = score_of(policy, weights);
    pin_policy_free(policy);
    return score;
}

static void profiles_are_in_their_order(void **state) {
    (void)state;
    PIN_WEIGHTS struct pin_weights weights;
    builtin(&weights);
    double strict = score_named("strict", &weights), tool = score_named("tool", &weights);
    double build = score_named("build", &weights), oci = score_named("oci", &weights);
    print_message("strict %.2f, tool %.2f, build %.2f, oci %.2f\n", strict, tool, build, oci);
    assert_true(strict < tool && tool < build && build < oci && oci < 10);
    assert_true(tool <= 2.0);
}

static void each_grant_weighs(void **state) {
    (void)state;
    static const char *const rows[] = {
        "\"filesystem\": {\"write\": {\"add\": [\"/data\"]}}",
        "\"filesystem\": {\"mounts\": [{\"source\": \"/a\", \"target\": \"/m\"}]}",
        "\"filesystem\": {\"root\": \"overlay\"}",
        "\"network\": {\"egress\": [{\"host\": \"a.b.org\", \"ports\": [443]}]}",
        "\"syscalls\": {\"allow\": [\"inotify_init1\"]}",
        "\"syscalls\": {\"baseline\": \"oci\"}",
        "\"capabilities\": [\"CAP_KILL\"]",
        "\"secrets\": [\"KEY\"]",
        "\"identity\": {\"user\": 0}",
        "\"privileged\": true",
        "\"resources\": {\"memory\": \"unlimited\"}",
        "\"optional\": [\"memory\"]",
    };
    PIN_WEIGHTS struct pin_weights weights;
    builtin(&weights);
    double base = score_named("tool", &weights);
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct pin_policy *policy = policy_of(rows[i]);
        if (score_of(policy, &weights) <= base)
            fail_msg("'%s' weighs nothing", rows[i]);
        pin_policy_free(policy);
    }
}

static void the_parts_add_up_and_stay_below_their_most(void **state) {
    (void)state;
    static const char all[] =
        "\"extends\": [\"oci\"], \"privileged\": true, \"secrets\": [\"A\", \"B\", \"C\", \"D\", \"E\", "
        "\"F\", \"G\"], "
        "\"network\": {\"egress\": [{\"cidr\": \"0.0.0.0/0\", \"ports\": [\"1-65535\"]}]}, "
        "\"optional\": [\"memory\", \"swap\", \"cpus\", \"pids\", \"landlock\"]";
    PIN_WEIGHTS struct pin_weights weights;
    PIN_REACH struct pin_reach reach;
    PIN_SCORE struct pin_score score = {0};
    struct pin_policy *policy = policy_of(all);
    builtin(&weights);
    reach_of(&reach, policy);
    pin_score_make(&score, &reach, &weights);
    double sum = 0, most = 0;
    for (size_t i = 0; i < PIN_SCORE_PART_COUNT; i++) {
        assert_true(score.parts[i].points <= score.parts[i].most);
        sum += score.parts[i].points;
        most += score.parts[i].most;
    }
    assert_true(fabs(sum - score.total) < 1e-9 && fabs(most - 10) < 1e-9);
    pin_policy_free(policy);
}

/* What an improvement promises is what the edited policy scores. */
static void improvements_keep_their_word(void **state) {
    (void)state;
    static const char *const bases[] = {"tool", "build", "oci"};
    PIN_WEIGHTS struct pin_weights weights;
    builtin(&weights);
    for (size_t i = 0; i < 3; i++) {
        PIN_REACH struct pin_reach reach;
        PIN_SCORE struct pin_score score = {0};
        struct pin_policy *policy = policy_named(bases[i]);
        reach_of(&reach, policy);
        pin_score_make(&score, &reach, &weights);
        pin_score_advise(&score, &reach, &weights);
        assert_int_equal(score.advice_count, PIN_SCORE_ADVICE_MAX);
        for (size_t j = 0; j < score.advice_count; j++) {
            struct pin_policy *edited = policy_edited(bases[i], score.advice[j].edit);
            double now = score_of(edited, &weights);
            if (fabs(score.total - now - score.advice[j].gain) > 1e-6)
                fail_msg("%s: '%s' gains %f, not %f", bases[i], score.advice[j].edit, score.total - now,
                         score.advice[j].gain);
            pin_policy_free(edited);
        }
        pin_policy_free(policy);
    }
}

static bool read_weights(struct pin_weights *weights, const char *text) {
    struct pin_findings found = {0};
    return pin_weights_read(weights, "w.json", text, strlen(text), &found);
}

static void own_weights_lie_over_the_builtin_ones(void **state) {
    (void)state;
    PIN_WEIGHTS struct pin_weights weights;
    builtin(&weights);
    double before = score_named("tool", &weights);
    assert_true(
        read_weights(&weights, "{\"calls\": {\"read\": 1000}, \"grants\": {\"tty\": {\"weight\": 0}}}"));
    assert_true(score_named("tool", &weights) > before);
    assert_true(read_weights(&weights, "{\"calls\": {\"*\": 0, \"bpf\": 1}}"));
    assert_true(score_named("tool", &weights) < before);
}

static void bad_weights_are_refused(void **state) {
    (void)state;
    static const char *const rows[] = {
        "",
        "[]",
        "{\"calls\": {\"nosuchcall\": 1}}",
        "{\"calls\": {\"read\": -1}}",
        "{\"calls\": {\"read\": 1001}}",
        "{\"calls\": {\"read\": \"1\"}}",
        "{\"calls\": {\"read\": {\"weigth\": 1}}}",
        "{\"call\": {}}",
        "{\"parts\": {\"calls\": 11}}",
        "{\"parts\": {\"nothing\": 1}}",
        "{\"partial\": 2}",
        "{\"calls\": {\"read\": 1, \"read\": 2}}",
        "{\"calls\": [1]}",
        "{\"calls\": 5}",
        "{\"parts\": [1]}",
        "{\"grants\": null}",
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        PIN_WEIGHTS struct pin_weights weights;
        builtin(&weights);
        if (read_weights(&weights, rows[i]))
            fail_msg("'%s' was read", rows[i]);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(profiles_are_in_their_order),
        cmocka_unit_test(each_grant_weighs),
        cmocka_unit_test(the_parts_add_up_and_stay_below_their_most),
        cmocka_unit_test(improvements_keep_their_word),
        cmocka_unit_test(own_weights_lie_over_the_builtin_ones),
        cmocka_unit_test(bad_weights_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
