#include <time.h>

#include "base/names.h"
#include "policy/egress_rule.h"
#include "policy/host_name.h"
#include "policy/policy_order.h"
#include "policy_fixture.h"
#include "policy_random.h"

static bool narrower(const struct pin_policy *inner, const struct pin_policy *outer,
                     struct pin_findings *found) {
    memset(found, 0, sizeof(*found));
    bool result = pin_policy_narrower(inner, outer, found);
    assert_int_equal(result, !pin_found_any(found));
    return result;
}

static bool at_most(const struct pin_policy *inner, const struct pin_policy *outer) {
    static struct pin_findings found;
    return narrower(inner, outer, &found);
}

static bool same_digest(const struct pin_policy *a, const struct pin_policy *b) {
    return memcmp(a->digest, b->digest, PIN_SHA256_SIZE) == 0;
}

/* The first is narrower than the second, and not the other way round. */
static void each_field_has_its_direction(void **state) {
    (void)state;
    static const char *const rows[][3] = {
        {"\"images\": [\"py*\"]",                                                                     "\"images\": [\"*\"]",                                              "/images/0"                   },
        {"\"images\": [{\"pattern\": \"a\", \"require_signature\": true, \"keys\": [\"/k\"]}]",
         "\"images\": [\"a\"]",                                                                                                                                           "/images/0"                   },
        {"\"images\": [{\"pattern\": \"a\", \"require_signature\": true, \"keys\": [\"/k\"]}]",
         "\"images\": [{\"pattern\": \"a*\", \"require_signature\": true, \"keys\": [\"/q\", \"/k\"]}]",                                                                  "/images/0"                   },
        {"\"network\": {\"limits\": {\"bytes_out\": 1}}",                                             "\"network\": {}",                                                  "/network/limits/bytes_out"   },
        {"\"network\": {\"limits\": {\"connections\": 1}}",                                           "\"network\": {}",                                                  "/network/limits/connections" },
        {"\"network\": {\"limits\": {\"idle\": \"1m\"}}",
         "\"network\": {\"limits\": {\"idle\": \"unlimited\"}}",                                                                                                          "/network/limits/idle"        },
        {"\"network\": {\"publish\": [\"80=127.0.0.1:81\"]}",
         "\"network\": {\"publish\": [\"80=127.0.0.1:0\", \"80=unix:web\"]}",                                                                                             "/network/publish/0"          },
        {"\"network\": {\"publish\": [\"80=unix:web\"]}",
         "\"network\": {\"publish\": [\"80=unix:web\", \"81=unix:web\"]}",                                                                                                "/network/publish/1"          },
        {"\"network\": {\"unknown_names\": \"refused\"}",                                             "\"network\": {}",                                                  "/network/unknown_names"      },
        {"\"network\": {\"egress\": [{\"host\": \"a.b\", \"ports\": [443]}]}",
         "\"network\": {\"egress\": [{\"host\": \"a.b\", \"ports\": [443], \"inspect\": \"none\"}]}",                                                                     "/network/egress/0"           },
        {"\"network\": {\"egress\": [{\"host\": \"a.b\", \"ports\": [443]}]}",
         "\"network\": {\"egress\": [{\"host\": \"a.b\", \"ports\": [443], \"accept\": [\"no-name\"]}]}",                                                                 "/network/egress/0"           },
        {"\"network\": {\"egress\": [{\"host\": \"a.b\", \"ports\": [8443], \"inspect\": \"tls\"}]}",
         "\"network\": {\"egress\": [{\"host\": \"a.b\", \"ports\": [8443]}]}",                                                                                           "/network/egress/0"           },
        {"\"network\": {\"budgets\": [{\"name\": \"b\", \"rate\": 2048}], \"egress\": [{\"host\": \"a.b\", "
         "\"ports\": [1], \"budget\": \"b\"}]}",                                             "\"network\": {\"egress\": [{\"host\": \"a.b\", \"ports\": [1]}]}", "/network/egress/0"           },
        {"\"network\": {\"budgets\": [{\"name\": \"b\", \"rate\": 2048}], \"egress\": [{\"host\": \"a.b\", "
         "\"ports\": [1], \"budget\": \"b\"}]}",                                             "\"network\": {\"budgets\": [{\"name\": \"b\", \"rate\": 4096}], \"egress\": [{\"host\": \"*.b.c\", "
         "\"ports\": [1]}, {\"host\": \"a.b\", \"ports\": [1], \"budget\": \"b\"}]}",                            "/network/egress/0"           },
        {"\"filesystem\": {\"root\": \"read-only\"}",                                                 "\"filesystem\": {\"root\": \"overlay\"}",
         "/filesystem/root"                                                                                                                                                                             },
        {"\"filesystem\": {\"root_storage\": \"memory\"}",                                            "\"filesystem\": {\"root_storage\": \"disk\"}",
         "/filesystem/root_storage"                                                                                                                                                                     },
        {"\"filesystem\": {\"root_size\": 1}",                                                        "\"filesystem\": {\"root_size\": 2}",                               "/filesystem/root_size"       },
        {"\"filesystem\": {\"workspace\": {\"access\": \"copy-on-write\"}}",
         "\"filesystem\": {\"workspace\": {\"access\": \"read-write\"}}",                                                                                                 "/filesystem/workspace/access"},
        {"\"filesystem\": {\"workspace\": {\"size\": 1}}",
         "\"filesystem\": {\"workspace\": {\"size\": \"unlimited\"}}",                                                                                                    "/filesystem/workspace/size"  },
        {"\"filesystem\": {\"write\": [\"/tmp/x\"]}",                                                 "\"filesystem\": {\"write\": [\"/tmp\"]}",
         "/filesystem/write/0"                                                                                                                                                                          },
        {"\"filesystem\": {\"tmp\": 1}",                                                              "\"filesystem\": {\"tmp\": 2}",                                     "/filesystem/tmp"             },
        {"\"filesystem\": {\"mounts\": [{\"source\": \"/a/b\", \"target\": \"/m\"}]}",
         "\"filesystem\": {\"mounts\": [{\"source\": \"/a\", \"target\": \"/m\", \"access\": "
         "\"read-write\"}]}",                                                                                                                                             "/filesystem/mounts/0"        },
        {"\"resources\": {\"memory\": \"1GiB\"}",                                                     "\"resources\": {\"memory\": \"unlimited\"}",
         "/resources/memory"                                                                                                                                                                            },
        {"\"resources\": {\"swap\": 0}",                                                              "\"resources\": {\"swap\": 1}",                                     "/resources/swap"             },
        {"\"resources\": {\"cpus\": 64}",                                                             "\"resources\": {\"cpus\": \"unlimited\"}",                         "/resources/cpus"             },
        {"\"resources\": {\"pids\": 1}",                                                              "\"resources\": {\"pids\": 2}",                                     "/resources/pids"             },
        {"\"resources\": {\"files\": 8}",                                                             "\"resources\": {\"files\": 9}",                                    "/resources/files"            },
        {"\"resources\": {\"core\": 0}",                                                              "\"resources\": {\"core\": 1}",                                     "/resources/core"             },
        {"\"resources\": {\"wall_time\": \"1s\"}",                                                    "\"resources\": {\"wall_time\": \"1m\"}",
         "/resources/wall_time"                                                                                                                                                                         },
        {"\"resources\": {\"cpu_time\": \"1s\"}",                                                     "\"resources\": {}",                                                "/resources/cpu_time"         },
        {"\"resources\": {\"grace\": \"1s\"}",                                                        "\"resources\": {}",                                                "/resources/grace"            },
        {"\"resources\": {\"stdout\": 1}",                                                            "\"resources\": {}",                                                "/resources/stdout"           },
        {"\"resources\": {\"stderr\": 1}",                                                            "\"resources\": {}",                                                "/resources/stderr"           },
        {"\"resources\": {\"frame\": 1}",                                                             "\"resources\": {}",                                                "/resources/frame"            },
        {"\"resources\": {\"on_output_cap\": \"kill\"}",                                              "\"resources\": {}",                                                "/resources/on_output_cap"    },
        {"\"network\": {}",                                                                           "\"network\": {\"egress\": [{\"host\": \"a.b\", \"ports\": [1]}]}",
         "/network/egress/0"                                                                                                                                                                            },
        {"\"network\": {\"egress\": [{\"host\": \"x.a.b\", \"ports\": [5, \"7-9\"]}]}",
         "\"network\": {\"egress\": [{\"host\": \"x.a.b\", \"ports\": [\"1-6\"]}, {\"host\": \"*.a.b\", "
         "\"ports\": "
         "[\"7-9\"]}]}",                                                                                                                                                  "/network/egress/0"           },
        {"\"network\": {\"egress\": [{\"cidr\": \"10.1.2.3\", \"ports\": [5]}]}",
         "\"network\": {\"egress\": [{\"cidr\": \"10.0.0.0/8\", \"ports\": [5]}]}",                                                                                       "/network/egress/0"           },
        {"\"network\": {\"deny\": [{\"cidr\": \"10.0.0.0/8\"}]}",                                     "\"network\": {}",                                                  "/network/deny"               },
        {"\"syscalls\": {\"baseline\": \"strict\"}",                                                  "\"syscalls\": {}",                                                 "/syscalls"                   },
        {"\"syscalls\": {}",                                                                          "\"syscalls\": {\"baseline\": \"build\"}",                          "/syscalls"                   },
        {"\"syscalls\": {\"deny\": [\"socket\"]}",                                                    "\"syscalls\": {}",                                                 "/syscalls"                   },
        {"\"syscalls\": {\"on_deny\": \"kill\"}",                                                     "\"syscalls\": {}",                                                 "/syscalls/on_deny"           },
        {"\"capabilities\": [\"CAP_KILL\"]",                                                          "\"capabilities\": [\"CAP_CHOWN\", \"CAP_KILL\"]",
         "/capabilities"                                                                                                                                                                                },
        {"\"identity\": {\"user\": 7}",                                                               "\"identity\": {\"user\": 0}",                                      "/identity/user"              },
        {"\"identity\": {\"group\": 7}",                                                              "\"identity\": {\"group\": 0}",                                     "/identity/group"             },
        {"\"identity\": {\"ids\": 1}",                                                                "\"identity\": {\"ids\": 9}",                                       "/identity/ids"               },
        {"\"environment\": {\"pass\": []}",                                                           "\"environment\": {}",                                              "/environment/pass/0"         },
        {"\"environment\": {\"refuse\": [\"*\"]}",                                                    "\"environment\": {}",                                              "/environment/refuse"         },
        {"\"tty\": false",                                                                            "\"secrets\": [\"A\"]",                                             "/secrets/0"                  },
        {"\"privileged\": false",                                                                     "\"privileged\": true",                                             "/privileged"                 },
        {"\"tty\": false",                                                                            "\"tty\": true",                                                    "/tty"                        },
        {"\"frames\": [\"fd\"]",                                                                      "\"frames\": [\"fd\", \"stdout\"]",                                 "/frames"                     },
        {"\"audit\": {\"record\": [\"egress\"]}",                                                     "\"audit\": {}",                                                    "/audit/record"               },
        {"\"audit\": {\"sync\": true}",                                                               "\"audit\": {}",                                                    "/audit/sync"                 },
        {"\"audit\": {}",                                                                             "\"audit\": {\"on_failure\": \"count\"}",                           "/audit/on_failure"           },
        {"\"audit\": {\"require_labels\": [\"tenant\"]}",                                             "\"audit\": {}",                                                    "/audit/require_labels"       },
        {"\"optional\": []",                                                                          "\"optional\": [\"swap\"]",                                         "/optional"                   },
    };
    static struct pin_findings found;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct pin_policy *low = body(rows[i][0]), *high = body(rows[i][1]);
        if (!narrower(low, high, &found) || narrower(high, low, &found) ||
            finding_at(&found, rows[i][2]) == NULL) {
            print_findings(&found);
            fail_msg("%s is not narrower than %s at %s", rows[i][0], rows[i][1], rows[i][2]);
        }
        pin_policy_free(low);
        pin_policy_free(high);
    }
}

static void a_finding_names_both_values_and_the_line_of_the_ceiling(void **state) {
    (void)state;
    static struct pin_findings found;
    struct pin_policy *low = good("{\"pinfold\": 1,\n \"resources\": {\"memory\": \"1GiB\"}}");
    struct pin_policy *high = body("\"name\": \"big\", \"resources\": {\"memory\": \"2GiB\"}");
    assert_false(narrower(high, low, &found));
    assert_int_equal(found.count, 1);
    assert_int_equal(found.list[0].kind, PIN_ERROR_REFUSED);
    assert_string_equal(found.list[0].pointer, "/resources/memory");
    assert_string_equal(found.list[0].message, "asks for \"2GiB\", and 'test' grants \"1GiB\"");
    assert_string_equal(found.list[0].hint, "the ceiling is at test.json:2:26");
    pin_policy_free(low);
    pin_policy_free(high);
}

static void the_profiles_lie_in_one_another(void **state) {
    (void)state;
    static struct pin_findings found;
    struct pin_policy *strict = pin_policy_load("strict", &found), *tool = pin_policy_load("tool", &found);
    struct pin_policy *build = pin_policy_load("build", &found);
    assert_true(narrower(strict, tool, &found));
    assert_true(narrower(tool, build, &found));
    assert_true(narrower(strict, build, &found));
    assert_false(narrower(build, tool, &found));
    pin_policy_free(strict);
    pin_policy_free(tool);
    pin_policy_free(build);
}

/* The call that is allowed once more keeps the lists from deciding: the filters are compared. */
static void the_baselines_lie_in_one_another(void **state) {
    (void)state;
    static const char *const names[] = {"strict", "tool", "build", "oci"};
    for (size_t low = 0; low < 4; low++) {
        for (size_t high = 0; high < 4; high++) {
            char inner[128], outer[128];
            (void)snprintf(inner, sizeof(inner),
                           "\"syscalls\": {\"baseline\": \"%s\", \"allow\": [\"read\"]}", names[low]);
            (void)snprintf(outer, sizeof(outer), "\"syscalls\": {\"baseline\": \"%s\"}", names[high]);
            struct pin_policy *a = body(inner), *b = body(outer);
            assert_int_equal(at_most(a, b), low <= high);
            pin_policy_free(a);
            pin_policy_free(b);
        }
    }
}

#define RULES(rules)                                                                                         \
    "\"network\": {\"budgets\": [{\"name\": \"t\", \"bytes_out\": 9}], \"egress\": [" rules "]}"
#define TO(target, terms) "{" target ", \"ports\": [8080]" terms "}"
#define NAME "\"host\": \"h.x.com\""
#define FILES(mounts, rest) "\"filesystem\": {\"mounts\": [" mounts "]" rest "}"
#define MOUNT(source, target, access)                                                                        \
    "{\"source\": \"" source "\", \"target\": \"" target "\", \"access\": \"read-" access "\"}"
#define IMAGE(key, value) "\"images\": [{\"" key "\": \"" value "\"}]"
#define DIGEST "sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"
#define M_IS_WRITTEN ", \"write\": [\"/m\"]"

/* Each item of the first policy is granted by one of the second, another one of which takes it away. */
static void what_an_item_takes_from_another_is_no_longer_granted(void **state) {
    (void)state;
    /* clang-format off */
    static const char *const rows[][3] = {
        {RULES(TO(NAME, ", \"inspect\": \"http\"")),
         RULES(TO(NAME, ", \"inspect\": \"http\"") ", " TO("\"host\": \"*.x.com\"", ", \"inspect\": \"tls\"")),
         "/network/egress/0"},
        {RULES(TO(NAME, "")),
         RULES(TO(NAME, "") ", " TO("\"cidr\": \"93.0.0.0/8\"", ", \"budget\": \"t\"")), "/network/egress/0"},
        {RULES(TO(NAME, ", \"inspect\": \"tls\"")),
         RULES(TO(NAME, ", \"inspect\": \"tls\"") ", " TO(NAME, ", \"budget\": \"t\"")), "/network/egress/0"},
        {RULES(TO("\"host\": \"*.x.com\"", ", \"inspect\": \"tls\"")),
         RULES(TO("\"host\": \"*.x.com\"", ", \"inspect\": \"tls\"") ", " TO(NAME, ", \"budget\": \"t\"")),
         "/network/egress/0"},
        {RULES(TO("\"host\": \"host.pinfold.internal\"", "")),
         RULES(TO("\"host\": \"*.pinfold.internal\"", "")), "/network/egress/0"},
        {FILES(MOUNT("/srv", "/m", "only"), ""),
         FILES(MOUNT("/srv", "/m", "only") ", " MOUNT("/empty", "/m/a", "only"), ""), "/filesystem/mounts"},
        {FILES(MOUNT("/srv", "/m", "write"), M_IS_WRITTEN),
         FILES(MOUNT("/srv", "/m", "write") ", " MOUNT("/srv/a", "/m/a", "only"), M_IS_WRITTEN), "/filesystem/mounts"},
        {FILES(MOUNT("/srv/a", "/m/a", "only"), ""),
         FILES(MOUNT("/srv/a", "/m/a", "only") ", " MOUNT("/empty", "/m", "only"), ""), "/filesystem/mounts"},
        {FILES(MOUNT("/srv/a", "/n/logs", "write"), ", \"write\": [\"/n/logs\"]"),
         FILES(MOUNT("/srv", "/n", "write"), ", \"write\": [\"/n/logs\"]"), "/filesystem/mounts"},
        {"\"tty\": true", FILES(MOUNT("/empty", "/workspace/.git", "only"), ""), "/filesystem/mounts"},
        {IMAGE("digest", DIGEST), IMAGE("pattern", "sha2*"), "/images/0"},
    };
    /* clang-format on */
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        static struct pin_findings found;
        struct pin_policy *inner = body(rows[i][0]), *outer = body(rows[i][1]);
        memset(&found, 0, sizeof(found));
        if (narrower(inner, outer, &found) || found.count != 1 || finding_at(&found, rows[i][2]) == NULL) {
            print_findings(&found);
            fail_msg("%s\n%s", rows[i][0], rows[i][1]);
        }
        assert_true(at_most(outer, outer));
        pin_policy_free(inner);
        pin_policy_free(outer);
    }
}

/* What lies over another takes nothing away that the other policy doesn't take, too. */
static void what_is_taken_from_both_is_no_difference(void **state) {
    (void)state;
    /* clang-format off */
    static const char *const rows[][2] = {
        {FILES(MOUNT("/srv", "/m", "only") ", " MOUNT("/empty", "/m/a", "only"), M_IS_WRITTEN),
         FILES(MOUNT("/srv", "/m", "write") ", " MOUNT("/empty", "/m/a", "only"), M_IS_WRITTEN)},
        {FILES(MOUNT("/srv", "/m", "only"), M_IS_WRITTEN),
         FILES(MOUNT("/srv", "/m", "only") ", " MOUNT("/srv/a", "/m/a", "write"), M_IS_WRITTEN)},
        {FILES(MOUNT("/srv/a", "/n", "only"), ""),
         FILES(MOUNT("/srv", "/m", "only") ", " MOUNT("/srv", "/n", "only") ", " MOUNT("/empty", "/m/a", "only"), "")},
        {"\"filesystem\": {\"workspace\": {\"access\": \"none\"}}",
         FILES(MOUNT("/empty", "/workspace/.git", "only"), "")},
        {RULES(TO(NAME, ", \"inspect\": \"tls\"")),
         RULES(TO(NAME, ", \"inspect\": \"tls\"") ", " TO(NAME, "") ", " TO(NAME, ", \"budget\": \"t\""))},
        {RULES(TO(NAME, "")), RULES(TO(NAME, "") ", " TO("\"cidr\": \"10.0.0.0/8\"", ", \"budget\": \"t\""))},
    };
    /* clang-format on */
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct pin_policy *inner = body(rows[i][0]), *outer = body(rows[i][1]);
        if (!at_most(inner, outer))
            fail_msg("%s\n%s", rows[i][0], rows[i][1]);
        pin_policy_free(inner);
        pin_policy_free(outer);
    }
}

static void a_policy_is_narrower_than_itself_and_than_its_copy(void **state) {
    (void)state;
    for (uint64_t seed = 1; seed <= 200; seed++) {
        struct random random = {seed * 7919};
        struct pin_policy *policy = random_policy(&random, 60), *copy = pin_policy_copy(policy);
        if (!at_most(policy, policy) || !at_most(copy, policy) || !at_most(policy, copy))
            fail_msg("seed %llu", (unsigned long long)seed);
        pin_policy_free(policy);
        pin_policy_free(copy);
    }
}

#define MANY 32

/* Policies that differ in few fields, so that many pairs can be compared. */
static void the_order_is_antisymmetric_and_transitive(void **state) {
    (void)state;
    unsigned pairs = 0, triples = 0;
    for (uint64_t seed = 1; seed <= 8; seed++) {
        struct random random = {seed * 104729};
        static struct pin_policy *policies[MANY];
        static bool below[MANY][MANY];
        for (size_t i = 0; i < MANY; i++)
            policies[i] = random_policy(&random, 2 + (unsigned)seed / 3);
        for (size_t i = 0; i < MANY; i++)
            for (size_t j = 0; j < MANY; j++)
                below[i][j] = at_most(policies[i], policies[j]);
        for (size_t i = 0; i < MANY; i++) {
            for (size_t j = 0; j < MANY; j++) {
                bool calls = policies[i]->syscalls.allow_count + policies[i]->syscalls.deny_count +
                                 policies[j]->syscalls.allow_count + policies[j]->syscalls.deny_count >
                             0;
                pairs += i != j && below[i][j];
                if (below[i][j] && below[j][i] && !calls && !same_digest(policies[i], policies[j]))
                    fail_msg("seed %llu: %zu and %zu", (unsigned long long)seed, i, j);
                for (size_t k = 0; below[i][j] && k < MANY; k++) {
                    triples += i != j && j != k && below[j][k];
                    if (below[j][k] && !below[i][k])
                        fail_msg("seed %llu: %zu <= %zu <= %zu", (unsigned long long)seed, i, j, k);
                }
            }
        }
        for (size_t i = 0; i < MANY; i++)
            pin_policy_free(policies[i]);
    }
    assert_true(pairs > 500);
    assert_true(triples > 500);
}

/* --- the order of destinations against an oracle that asks for each of them --- */

static bool reaches(const struct pin_egress_rule *rules, size_t count, const char *host,
                    const uint8_t *address, uint16_t port) {
    for (size_t i = 0; i < count; i++) {
        const struct pin_egress_rule *rule = &rules[i];
        bool names = host != NULL ? rule->host != NULL && pin_host_match(rule->host, host)
                                  : pin_egress_opens(rule, address);
        if (names && rule->protocol == PIN_PROTOCOL_TCP && pin_ports_include(rule, port))
            return true;
    }
    return false;
}

/* Whether one of the probes is reached by `inner` and not by `outer`. The names hold one that only each
 * pattern matches, so that for rules by name this is the whole truth. */
static bool some_probe_escapes(const struct pin_policy *inner, const struct pin_policy *outer,
                               bool *by_name) {
    static const char *const names[] = {"a.x.com", "b.a.x.com", "q.a.x.com", "q.x.com",
                                        "x.com",   "b.org",     "q.b.org"};
    static const char *const addresses[] = {"10.1.2.3",    "10.1.9.9",    "10.9.9.9",        "9.9.9.9",
                                            "20.0.0.1",    "169.254.1.1", "169.254.169.254", "127.0.0.1",
                                            "2001:db8::1", "2600::1"};
    static const uint16_t probe_ports[] = {1, 49, 50, 80, 100, 101, 442, 443, 444, 500, 501, 65535};
    for (size_t i = 0; i < PIN_COUNT(addresses); i++) {
        uint8_t address[16], prefix;
        struct pin_error err = {0};
        assert_true(pin_cidr_parse(addresses[i], address, &prefix, &err));
        for (size_t p = 0; p < sizeof(probe_ports) / sizeof(probe_ports[0]); p++) {
            uint16_t port = probe_ports[p];
            for (int named = 0; named < 2; named++) {
                if (named && i >= PIN_COUNT(names))
                    continue;
                const char *host = named ? names[i] : NULL;
                if (reaches(inner->network.egress, inner->network.egress_count, host, address, port) &&
                    !reaches(outer->network.egress, outer->network.egress_count, host, address, port)) {
                    *by_name = named;
                    return true;
                }
            }
        }
    }
    return false;
}

static struct pin_policy *random_egress(struct random *random) {
    char text[1024] = "\"network\": {\"egress\": [", rule[RANDOM_DESTINATION_TEXT];
    for (uint32_t left = 1 + random_below(random, 4); left > 0; left--) {
        struct random before = *random;
        (void)random_destination(random, rule);
        while (strstr(rule, "udp") != NULL || (before.state % 2 == 0 && strstr(rule, "cidr") != NULL))
            (void)random_destination(random, rule);
        (void)snprintf(text + strlen(text), sizeof(text) - strlen(text), "%s%s", rule, left > 1 ? "," : "]}");
    }
    return body(text);
}

static bool only_names(const struct pin_policy *policy) {
    for (size_t i = 0; i < policy->network.egress_count; i++)
        if (policy->network.egress[i].host == NULL)
            return false;
    return true;
}

static void the_order_of_destinations_agrees_with_asking_for_each(void **state) {
    (void)state;
    unsigned narrower_pairs = 0, wider_pairs = 0;
    for (uint64_t seed = 1; seed <= 4000; seed++) {
        struct random random = {seed * 15485863};
        struct pin_policy *a = random_egress(&random), *b = random_egress(&random);
        bool by_name = false, escapes = some_probe_escapes(a, b, &by_name), below = at_most(a, b);
        if (below && escapes)
            fail_msg("seed %llu: narrower, and a probe escapes", (unsigned long long)seed);
        if (!below && !escapes && only_names(a) && only_names(b))
            fail_msg("seed %llu: wider, and no probe shows it", (unsigned long long)seed);
        narrower_pairs += below;
        wider_pairs += !below;
        pin_policy_free(a);
        pin_policy_free(b);
    }
    assert_true(narrower_pairs > 100);
    assert_true(wider_pairs > 100);
}

static void calls_with_arguments_are_compared_by_their_filters(void **state) {
    (void)state;
    struct pin_policy *tight =
        body("\"syscalls\": {\"allow\": [{\"name\": \"mlock2\", \"args\": [{\"index\": 2,"
             " \"op\": \"eq\", \"value\": 0}]}]}");
    struct pin_policy *loose =
        body("\"syscalls\": {\"allow\": [{\"name\": \"mlock2\", \"args\": [{\"index\": 2,"
             " \"op\": \"le\", \"value\": 7}]}]}");
    assert_true(at_most(tight, loose));
    assert_false(at_most(loose, tight));
    pin_policy_free(tight);
    pin_policy_free(loose);
}

/* One that every policy may make, and that keeps the lists from deciding. */
static struct pin_policy *with_one_more_call(const struct pin_policy *policy) {
    struct pin_policy *copy = pin_policy_copy(policy);
    struct pin_syscall_entry *allow =
        pin_arena_array(&copy->arena, policy->syscalls.allow_count + 1, sizeof(*allow));
    for (size_t i = 0; i < policy->syscalls.allow_count; i++)
        allow[i + 1] = copy->syscalls.allow[i];
    allow[0].name = "write";
    copy->syscalls.allow = allow;
    copy->syscalls.allow_count++;
    return copy;
}

static void what_the_lists_decide_the_filters_confirm(void **state) {
    (void)state;
    unsigned pairs = 0;
    for (uint64_t seed = 1; seed <= 20; seed++) {
        struct random random = {seed * 6700417};
        struct pin_policy *policies[8];
        for (size_t i = 0; i < 8; i++) {
            policies[i] = random_policy(&random, 0);
            struct pin_policy *calls = random_policy(&random, 50);
            struct pin_policy *copy = pin_policy_copy(calls); /* only the calls of it */
            pin_policy_free(calls);
            policies[i]->syscalls = copy->syscalls;
            struct pin_policy *kept = pin_policy_copy(policies[i]);
            pin_policy_free(policies[i]);
            pin_policy_free(copy);
            policies[i] = kept;
        }
        for (size_t i = 0; i < 8; i++) {
            struct pin_policy *more = with_one_more_call(policies[i]);
            for (size_t j = 0; j < 8; j++) {
                bool below = at_most(policies[i], policies[j]);
                pairs += below && i != j;
                if (below != at_most(more, policies[j]))
                    fail_msg("seed %llu: %zu and %zu", (unsigned long long)seed, i, j);
            }
            pin_policy_free(more);
        }
        for (size_t i = 0; i < 8; i++)
            pin_policy_free(policies[i]);
    }
    assert_true(pairs > 100);
}

static void a_thousand_rules_are_compared_in_time(void **state) {
    (void)state;
    static char text[100000];
    static struct pin_findings found;
    size_t used = (size_t)snprintf(text, sizeof(text), "{\"pinfold\": 1, \"network\": {\"egress\": [");
    for (unsigned i = 0; i < 1000; i++)
        used += (size_t)snprintf(text + used, sizeof(text) - used,
                                 "%s{\"host\": \"%sh%u.example.com\", \"ports\": [443, %u]}",
                                 i > 0 ? "," : "", i % 10 == 0 ? "*." : "", i, 1000 + i);
    (void)snprintf(text + used, sizeof(text) - used, "]}}");
    clock_t start = clock();
    struct pin_policy *a = parse(text, &found);
    assert_non_null(a);
    struct pin_policy *b = pin_policy_copy(a);
    assert_true(at_most(a, b));
    double seconds = (double)(clock() - start) / CLOCKS_PER_SEC;
    print_message("%.3f s of CPU time\n", seconds);
    assert_true(seconds <
                2); /* a tenth of it without sanitizers; a square of the square would take minutes */
    pin_policy_free(a);
    pin_policy_free(b);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_field_has_its_direction),
        cmocka_unit_test(a_finding_names_both_values_and_the_line_of_the_ceiling),
        cmocka_unit_test(the_profiles_lie_in_one_another),
        cmocka_unit_test(the_baselines_lie_in_one_another),
        cmocka_unit_test(what_an_item_takes_from_another_is_no_longer_granted),
        cmocka_unit_test(what_is_taken_from_both_is_no_difference),
        cmocka_unit_test(a_policy_is_narrower_than_itself_and_than_its_copy),
        cmocka_unit_test(the_order_is_antisymmetric_and_transitive),
        cmocka_unit_test(the_order_of_destinations_agrees_with_asking_for_each),
        cmocka_unit_test(calls_with_arguments_are_compared_by_their_filters),
        cmocka_unit_test(what_the_lists_decide_the_filters_confirm),
        cmocka_unit_test(a_thousand_rules_are_compared_in_time),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
