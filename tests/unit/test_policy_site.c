#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "policy/policy_order.h"
#include "policy/policy_write.h"
#include "policy/site.h"
#include "policy_fixture.h"
#include "policy_random.h"

static char path[] = "/tmp/pinfold-site-XXXXXX";

static struct pin_policy *site_of(const char *text, struct pin_findings *found) {
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    (void)fputs(text, file);
    assert_int_equal(fclose(file), 0);
    assert_int_equal(chmod(path, 0600), 0);
    memset(found, 0, sizeof(*found));
    return pin_site_load(path, found);
}

static struct pin_policy *site(const char *text) {
    static struct pin_findings found;
    struct pin_policy *policy = site_of(text, &found);
    if (policy == NULL)
        print_findings(&found);
    assert_non_null(policy);
    return policy;
}

static bool apply(struct pin_policy *policy, const struct pin_policy *ceiling, struct pin_findings *found) {
    memset(found, 0, sizeof(*found));
    return pin_site_apply(policy, ceiling, found);
}

static void a_site_that_says_nothing_limits_nothing(void **state) {
    (void)state;
    struct pin_policy *all = site("{\"pinfold\": 1}");
    static struct pin_findings found;
    for (uint64_t seed = 1; seed <= 100; seed++) {
        struct random random = {seed * 31337};
        struct pin_policy *policy = random_policy(&random, 70), *before = pin_policy_copy(policy);
        if (!apply(policy, all, &found)) {
            print_findings(&found);
            fail_msg("seed %llu", (unsigned long long)seed);
        }
        assert_memory_equal(policy->digest, before->digest, PIN_SHA256_SIZE);
        pin_policy_free(policy);
        pin_policy_free(before);
    }
    struct pin_policy *policy = pin_policy_load("oci", &found);
    assert_true(apply(policy, all, &found));
    pin_policy_free(policy);
    pin_policy_free(all);
}

static void what_the_site_limits_is_a_ceiling(void **state) {
    (void)state;
    struct pin_policy *ceiling =
        site("{\"pinfold\": 1, \"name\": \"site\",\n \"privileged\": false,\n"
             " \"resources\": {\"memory\": \"4GiB\", \"pids\": \"unlimited\", \"frame\": \"unlimited\"},\n"
             " \"network\": {\"egress\": [{\"host\": \"*\", \"ports\": [443]}]},\n"
             " \"secrets\": [\"TENANT_*\", \"*\"], \"filesystem\": {\"mounts\": [{\"source\": \"/srv\", "
             "\"target\": "
             "\"/\"}]}}");
    static const struct {
        const char *body, *pointer;
    } rows[] = {
        {"\"resources\": {\"memory\": \"4GiB\"}",                                                NULL               },
        {"\"resources\": {\"memory\": \"5GiB\"}",                                                "/resources/memory"},
        {"\"privileged\": true",                                                                 "/privileged"      },
        {"\"secrets\": [\"ANY\"]",                                                               NULL               },
        {"\"network\": {\"egress\": [{\"host\": \"a.b\", \"ports\": [443]}]}",                   NULL               },
        {"\"network\": {\"egress\": [{\"host\": \"host.pinfold.internal\", \"ports\": [443]}]}",
         "/network/egress/0"                                                                                        },
        {"\"network\": {\"egress\": [{\"host\": \"*.a.b\", \"ports\": [443, 80]}]}",             "/network/egress/0"},
        {"\"network\": {\"egress\": [{\"cidr\": \"10.0.0.0/8\", \"ports\": [443]}]}",            "/network/egress/0"},
        {"\"filesystem\": {\"mounts\": [{\"source\": \"/srv/a\", \"target\": \"/a\"}]}",         NULL               },
        {"\"filesystem\": {\"mounts\": [{\"source\": \"/etc\", \"target\": \"/a\"}]}",
         "/filesystem/mounts/0"                                                                                     },
        {"\"syscalls\": {\"allow\": [\"@inotify\"]}",                                            NULL               },
    };
    static struct pin_findings found;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct pin_policy *policy = body(rows[i].body);
        bool granted = apply(policy, ceiling, &found);
        if (granted != (rows[i].pointer == NULL) ||
            (!granted && (found.count != 1 || finding_at(&found, rows[i].pointer) == NULL))) {
            print_findings(&found);
            fail_msg("%s", rows[i].body);
        }
        pin_policy_free(policy);
    }
    pin_policy_free(ceiling);
}

/* A range of a site's is as one of a policy's: it grants what it opens. Only "*" is every address. */
static void a_range_of_the_site_grants_its_public_addresses(void **state) {
    (void)state;
    static const struct {
        const char *site, *policy;
        bool granted;
    } rows[] = {
        {"0.0.0.0/0",      "93.184.216.0/24", true },
        {"0.0.0.0/0",      "8.0.0.0/5",       true },
        {"0.0.0.0/0",      "10.0.0.0/8",      false},
        {"0.0.0.0/0",      "127.0.0.1",       false},
        {"0.0.0.0/0",      "169.254.169.254", false},
        {"10.0.0.0/8",     "10.1.2.0/24",     true },
        {"169.254.0.0/16", "169.254.1.0/24",  true },
        {"169.254.0.0/16", "169.254.169.254", false},
        {"::/0",           "2600::/16",       true },
        {"::/0",           "fd00::/8",        false},
        {"*",              "127.0.0.1",       true },
        {"*",              "0.0.0.0/0",       true },
        {"*",              "::/0",            true },
        {"*",              "fd00::/8",        true },
        {"*",              "169.254.169.254", true },
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        PIN_ARENA struct pin_arena arena = {0};
        static struct pin_findings found;
        struct pin_policy *ceiling = site(pin_arena_printf(
            &arena, "{\"pinfold\": 1, \"network\": {\"egress\": [{\"cidr\": \"%s\", \"ports\": [443]}]}}",
            rows[i].site));
        struct pin_policy *policy = body(pin_arena_printf(
            &arena, "\"network\": {\"egress\": [{\"cidr\": \"%s\", \"ports\": [443]}]}", rows[i].policy));
        if (apply(policy, ceiling, &found) != rows[i].granted)
            fail_msg("%s of %s", rows[i].policy, rows[i].site);
        pin_policy_free(policy);
        pin_policy_free(ceiling);
    }
}

static void only_a_site_grants_any_address(void **state) {
    (void)state;
    static const char list[] = "\"network\": {\"egress\": [{\"cidr\": \"*\", \"ports\": [443]}]}";
    static const char deny[] = "{\"pinfold\": 1, \"network\": {\"deny\": [{\"cidr\": \"*\"}]}}";
    static struct pin_findings found;
    char text[256];
    (void)snprintf(text, sizeof(text), "{\"pinfold\": 1, %s}", list);
    memset(&found, 0, sizeof(found));
    assert_null(pin_policy_parse("test.json", text, strlen(text), &found));
    assert_non_null(finding_at(&found, "/network/egress/0/cidr"));
    assert_null(site_of(deny, &found));
    pin_policy_free(site(text));
}

static void what_the_site_refuses_or_demands_is_added(void **state) {
    (void)state;
    static struct pin_findings found;
    struct pin_policy *floor =
        site("{\"pinfold\": 1, \"network\": {\"deny\": [{\"cidr\": \"169.254.0.0/16\"}]},"
             "\"syscalls\": {\"deny\": [\"ptrace\"]}, \"environment\": {\"refuse\": [\"AWS_*\"]},"
             "\"audit\": {\"record\": [\"lifecycle\"], \"require_labels\": [\"tenant\"]}}");
    struct pin_policy *policy =
        body("\"network\": {\"deny\": [{\"host\": \"a.b\"}]}, \"audit\": {\"require_labels\": [\"tenant\"]}");
    struct pin_policy *before = pin_policy_copy(policy);
    assert_true(apply(policy, floor, &found));
    assert_int_equal(policy->network.deny_count, 2);
    assert_int_equal(policy->network.deny[1].prefix, 112);
    assert_string_equal(policy->syscalls.deny[0].name, "ptrace");
    assert_int_equal(policy->environment.refuse.count, 2);
    assert_string_equal(policy->audit.record.items[0].text, "lifecycle");
    assert_int_equal(policy->audit.require_labels.count, 1);
    assert_string_equal(policy->syscalls.deny[0].place.file, path);
    assert_memory_not_equal(policy->digest, before->digest, PIN_SHA256_SIZE);
    pin_policy_free(floor); /* nothing of it is needed any more */
    assert_string_equal(policy->environment.refuse.items[1].text, "AWS_*");
    pin_policy_free(before);
    pin_policy_free(policy);
}

static void the_site_can_demand_labels_for_what_a_run_asks_for(void **state) {
    (void)state;
    static struct pin_findings found;
    struct pin_policy *floor =
        site("{\"pinfold\": 1, \"audit\": {\"require_labels_for\": {\"secrets\": [\"tenant\"], \"egress\": "
             "[\"ticket\"], \"privileged\": [\"owner\"]}}}");
    struct pin_policy *policy = body("\"secrets\": [\"KEY\"]"), *bare = pin_policy_copy(policy);
    assert_false(pin_policy_narrower(bare, floor, &found)); /* it demands nothing */
    assert_string_equal(found.list[0].pointer, "/audit/require_labels_for/secrets");
    memset(&found, 0, sizeof(found));
    assert_true(apply(policy, floor, &found));
    assert_string_equal(policy->audit.labels_secrets.items[0].text, "tenant");
    assert_string_equal(policy->audit.labels_egress.items[0].text, "ticket");
    assert_string_equal(policy->audit.labels_privileged.items[0].text, "owner");
    assert_int_equal(policy->audit.require_labels.count, 0);
    assert_true(pin_policy_narrower(policy, bare, &found));
    pin_policy_free(floor);
    pin_policy_free(bare);
    pin_policy_free(policy);
}

static void composing_never_widens(void **state) {
    (void)state;
    unsigned granted = 0, refused = 0;
    static struct pin_findings found;
    for (uint64_t seed = 1; seed <= 3000; seed++) {
        struct random random = {seed * 2654435761};
        char text[RANDOM_POLICY_TEXT];
        struct pin_policy *policy = random_policy(&random, 4), *before = pin_policy_copy(policy);
        struct pin_policy *ceiling = site_of(random_policy_text(&random, 3, text), &found);
        assert_non_null(ceiling);
        bool result = apply(policy, ceiling, &found);
        granted += result;
        refused += !result;
        memset(&found, 0, sizeof(found));
        if (!pin_policy_narrower(policy, before, &found) ||
            (result && !pin_policy_narrower(policy, ceiling, &found))) {
            print_findings(&found);
            fail_msg("seed %llu", (unsigned long long)seed);
        }
        pin_policy_free(policy);
        pin_policy_free(before);
        pin_policy_free(ceiling);
    }
    assert_true(granted > 100);
    assert_true(refused > 100);
}

static void a_request_below_a_policy_below_the_site_is_below_the_site(void **state) {
    (void)state;
    unsigned chains = 0;
    static struct pin_findings found;
    for (uint64_t seed = 1; seed <= 1500; seed++) {
        struct random random = {seed * 40503};
        char text[RANDOM_POLICY_TEXT];
        struct pin_policy *policy = random_policy(&random, 2), *request = random_policy(&random, 2);
        struct pin_policy *ceiling = site_of(random_policy_text(&random, 2, text), &found);
        if (apply(policy, ceiling, &found) && pin_policy_narrower(request, policy, &found)) {
            chains++;
            memset(&found, 0, sizeof(found));
            assert_true(pin_policy_narrower(request, ceiling, &found));
        }
        pin_policy_free(policy);
        pin_policy_free(request);
        pin_policy_free(ceiling);
    }
    assert_true(chains > 20);
}

static void a_site_extends_nothing(void **state) {
    (void)state;
    static struct pin_findings found;
    assert_null(site_of("{\"pinfold\": 1, \"extends\": [\"tool\"]}", &found));
    assert_non_null(finding_at(&found, "/extends"));
}

static void a_missing_site_is_none_and_a_named_one_must_be_there(void **state) {
    (void)state;
    static struct pin_findings found;
    memset(&found, 0, sizeof(found));
    assert_null(pin_site_load("/nonexistent/site.json", &found));
    assert_int_equal(found.count, 1);
    if (access(PIN_SITE_FILE, F_OK) == 0)
        return; /* this machine has one */
    memset(&found, 0, sizeof(found));
    assert_null(pin_site_load(NULL, &found));
    assert_false(pin_found_any(&found));
    struct pin_policy *policy = good("{\"pinfold\": 1}");
    assert_true(pin_site_apply(policy, NULL, &found));
    pin_policy_free(policy);
}

static void a_site_reads_back_as_it_is_written(void **state) {
    (void)state;
    PIN_BUFFER struct pin_buffer text = {0};
    struct pin_policy *first = site("{\"pinfold\": 1, \"resources\": {\"memory\": \"1GiB\"}}");
    pin_policy_write(first, &text);
    struct pin_policy *second = site(text.data);
    assert_memory_equal(first->digest, second->digest, PIN_SHA256_SIZE);
    pin_policy_free(first);
    pin_policy_free(second);
}

static int make_file(void **state) {
    (void)state;
    int fd = mkstemp(path);
    return fd < 0 ? -1 : close(fd);
}

static int remove_file(void **state) {
    (void)state;
    return unlink(path);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_site_that_says_nothing_limits_nothing),
        cmocka_unit_test(what_the_site_limits_is_a_ceiling),
        cmocka_unit_test(a_range_of_the_site_grants_its_public_addresses),
        cmocka_unit_test(only_a_site_grants_any_address),
        cmocka_unit_test(what_the_site_refuses_or_demands_is_added),
        cmocka_unit_test(the_site_can_demand_labels_for_what_a_run_asks_for),
        cmocka_unit_test(composing_never_widens),
        cmocka_unit_test(a_request_below_a_policy_below_the_site_is_below_the_site),
        cmocka_unit_test(a_site_extends_nothing),
        cmocka_unit_test(a_missing_site_is_none_and_a_named_one_must_be_there),
        cmocka_unit_test(a_site_reads_back_as_it_is_written),
    };
    return cmocka_run_group_tests(tests, make_file, remove_file);
}
