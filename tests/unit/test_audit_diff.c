/* diff against probes: what B allows and A doesn't is wider, and what is said to be wider can be seen. */
#include "audit_fixture.h"

#include <time.h>

#include "policy/audit/diff.h"
#include "policy/policy_order.h"
#include "policy_random.h"

static bool has(const struct pin_diff *diff, enum pin_change_kind kind, const char *text) {
    for (size_t i = 0; i < diff->count; i++)
        if (diff->changes[i].kind == kind && strstr(diff->changes[i].text, text) != NULL)
            return true;
    return false;
}

struct pair {
    struct pin_policy *a, *b;
    struct pin_reach from, to;
    struct pin_diff diff;
};

static void compare(struct pair *pair) {
    reach_of(&pair->from, pair->a);
    reach_of(&pair->to, pair->b);
    memset(&pair->diff, 0, sizeof(pair->diff));
    pin_diff_make(&pair->diff, &pair->from, &pair->to);
}

static void release(struct pair *pair) {
    pin_diff_free(&pair->diff);
    pin_reach_free(&pair->from);
    pin_reach_free(&pair->to);
    pin_policy_free(pair->a);
    pin_policy_free(pair->b);
}

struct row {
    const char *a, *b;
    bool wider, narrower;
    const char *text; /* of a change of the first kind that holds */
};

static void each_kind_of_grant_is_named(void **state) {
    (void)state;
    static const struct row rows[] = {
        {"",                                                                             "",                                                                             false, false, NULL                      },
        {"",                                                                             "\"resources\": {\"memory\": \"1GiB\"}",                                        true,  false,
         "resources/memory: \"1GiB\", was \"512MiB\""                                                                                                                                                            },
        {"\"resources\": {\"cpus\": \"unlimited\"}",                                     "",                                                                             false, true,  "was \"unlimited\""       },
        {"",                                                                             "\"network\": {\"egress\": [{\"host\": \"a.example.com\", \"ports\": [443]}]}", true,  false,
         "connections to a.example.com:443"                                                                                                                                                                      },
        {"\"network\": {\"egress\": [{\"host\": \"*.x.com\", \"ports\": [\"1-100\"]}]}",
         "\"network\": {\"egress\": [{\"host\": \"a.x.com\", \"ports\": [\"50-200\"]}]}",                                                                                true,  true,
         "connections to a.x.com:101-200"                                                                                                                                                                        },
        {"\"network\": {\"deny\": [{\"host\": \"b.x.com\"}]}",                           "",                                                                             true,  false, "b.x.com"                 },
        {"",                                                                             "\"syscalls\": {\"allow\": [\"@inotify\"]}",                                    true,  false, "system call inotify_init"},
        {"",                                                                             "\"syscalls\": {\"deny\": [\"socket\"]}",                                       false, true,  "system call socket"      },
        {"",                                                                             "\"capabilities\": [\"CAP_KILL\"]",                                             true,  false, "CAP_KILL"                },
        {"",                                                                             "\"secrets\": [\"KEY\"]",                                                       true,  false, "the secret \"KEY\""      },
        {"",                                                                             "\"filesystem\": {\"write\": {\"add\": [\"/data\"]}}",                          true,  false, "writes below \"/data\""  },
        {"",                                                                             "\"filesystem\": {\"mounts\": [{\"source\": \"/a\", \"target\": \"/m\"}]}",     true,  false,
         "the mount"                                                                                                                                                                                             },
        {"",                                                                             "\"environment\": {\"refuse\": []}",                                            true,  false, "LD_*"                    },
        {"",                                                                             "\"audit\": {\"require_labels\": [\"tenant\"]}",                                false, true,  "tenant"                  },
        {"",                                                                             "\"environment\": {\"set\": {\"TZ\": \"UTC\"}}",                                false, false, "variable TZ is set"      },
        {"",                                                                             "\"tty\": false",                                                               false, true,  "tty"                     },
        {"",                                                                             "\"syscalls\": {\"on_deny\": \"kill\"}",                                        false, true,  "on_deny"                 },
        {"",                                                                             "\"images\": [\"host\"]",                                                       false, true,  "images \"*\""            },
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct pair pair = {.a = policy_of(rows[i].a), .b = policy_of(rows[i].b)};
        compare(&pair);
        if (pair.diff.wider != rows[i].wider || pair.diff.narrower != rows[i].narrower)
            fail_msg("'%s' to '%s': wider %d, narrower %d", rows[i].a, rows[i].b, pair.diff.wider,
                     pair.diff.narrower);
        enum pin_change_kind kind = rows[i].wider      ? PIN_CHANGE_WIDER
                                    : rows[i].narrower ? PIN_CHANGE_NARROWER
                                                       : PIN_CHANGE_OTHER;
        if (rows[i].text != NULL && !has(&pair.diff, kind, rows[i].text))
            fail_msg("'%s' to '%s': no change says '%s'", rows[i].a, rows[i].b, rows[i].text);
        release(&pair);
    }
}

static void another_way_to_say_the_same_is_no_difference(void **state) {
    (void)state;
    static const char *const rows[][2] = {
        {"\"name\": \"a\"",                                                            "\"name\": \"b\", \"description\": \"other\""      },
        {"",                                                                           "\"extends\": [\"tool\"]"                          },
        {"\"extends\": [\"build\"]",                                                   "\"extends\": [\"tool\", \"build\"], \"tty\": true"},
        {"\"secrets\": [\"A\", \"B\"]",                                                "\"secrets\": [\"B\", \"A\"]"                      },
        {"\"network\": {\"egress\": [{\"host\": \"a.x.com\", \"ports\": [80, 443]}]}",
         "\"network\": {\"egress\": [{\"host\": \"a.x.com\", \"ports\": [443]}, {\"host\": \"a.x.com\", "
         "\"ports\": [80]}]}"                                                                                                             },
        {"\"network\": {\"egress\": [{\"host\": \"*.x.com\", \"ports\": [443]}]}",
         "\"network\": {\"egress\": [{\"host\": \"*.x.com\", \"ports\": [443]}, {\"host\": \"a.x.com\", "
         "\"ports\": [443]}]}"                                                                                                            },
        {"\"syscalls\": {\"allow\": [\"@inotify\"]}",
         "\"syscalls\": {\"allow\": [\"inotify_add_watch\", \"inotify_init\", \"inotify_init1\", "
         "\"inotify_rm_watch\"]}"                                                                                                         },
        {"\"syscalls\": {\"allow\": [\"read\"]}",                                      ""                                                 },
        {"\"filesystem\": {\"write\": [\"/tmp\", \"/tmp/x\"]}",                        "\"filesystem\": {\"write\": [\"/tmp\"]}"          },
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct pair pair = {.a = policy_of(rows[i][0]), .b = policy_of(rows[i][1])};
        compare(&pair);
        for (size_t j = 0; j < pair.diff.count; j++)
            if (pair.diff.changes[j].kind != PIN_CHANGE_OTHER)
                fail_msg("'%s' to '%s': %s", rows[i][0], rows[i][1], pair.diff.changes[j].text);
        assert_false(pair.diff.wider || pair.diff.narrower);
        release(&pair);
    }
}

static bool has_kind(const struct pin_diff *diff, enum pin_change_kind kind) {
    return has(diff, kind, "");
}

static const char *const probes[] = {
    "connect a.x.com:443",
    "connect b.a.x.com:80",
    "connect x.com:50",
    "connect b.org:100",
    "connect a.x.com:443/udp",
    "connect 10.1.2.3:443",
    "connect 10.9.9.9:80",
    "connect 8.8.8.8:200",
    "connect 127.0.0.1:60",
    "connect [2001:db8::1]:80",
    "write /tmp/x/y",
    "write /tmp/z",
    "write /workspace/a",
    "write /var/lib/a",
    "write /m/a/b",
    "write /opt/data/b",
    "syscall read 3",
    "syscall read 4",
    "syscall socket AF_UNIX 1 0",
    "syscall inotify_init1 0",
    "syscall memfd_create 0 1",
    "syscall memfd_create 0 5",
    "syscall clone 17",
    "syscall personality 0",
    "syscall ptrace 0",
    "syscall splice 0",
    "secret KEY_A",
    "secret KEY_B",
    "secret TOKEN",
    "limit memory 64MiB",
    "limit memory 3GiB",
    "limit pids 64",
    "limit pids 1000",
    "limit wall_time 2h",
    "limit cpus 1",
    "limit cpus 8",
    "limit stdout 3GiB",
    "limit tmp 1GiB",
    "limit files 64",
    "limit ids 2",
};

/* Where a mount lies over an overlay that may be written everywhere, a probe sees less than the order does.
 */
static bool lists_root(const struct pin_policy *policy) {
    for (size_t i = 0; i < policy->filesystem.write.count; i++)
        if (strcmp(policy->filesystem.write.items[i].text, "/") == 0)
            return true;
    return false;
}

static void check_probes(const struct pair *pair, uint64_t seed) {
    bool roots = lists_root(pair->a) || lists_root(pair->b);
    for (size_t i = 0; i < sizeof(probes) / sizeof(probes[0]); i++) {
        if (roots && (strncmp(probes[i], "write /m", 8) == 0 || strncmp(probes[i], "write /opt", 10) == 0))
            continue;
        PIN_ARENA struct pin_arena arena = {0};
        struct pin_answer a = ask(&pair->from, &arena, probes[i]), b = ask(&pair->to, &arena, probes[i]);
        if (pin_answer_allows(&b) && !pin_answer_allows(&a) && !pair->diff.wider)
            fail_msg("seed %llu: '%s' becomes allowed and the diff is not wider", (unsigned long long)seed,
                     probes[i]);
        if (pin_answer_allows(&a) && !pin_answer_allows(&b) && !pair->diff.narrower)
            fail_msg("seed %llu: '%s' becomes denied and the diff is not narrower", (unsigned long long)seed,
                     probes[i]);
    }
}

static void random_pairs_agree_with_probes_and_the_order(void **state) {
    (void)state;
    size_t wider = 0, equal = 0;
    for (uint64_t seed = 1; seed <= 1200; seed++) {
        struct random random = {seed * 0x9E3779B97F4A7C15u};
        unsigned percent = 5 + random_below(&random, 40);
        struct pair pair = {.a = random_policy(&random, percent)};
        pair.b = random_below(&random, 4) == 0 ? pin_policy_copy(pair.a) : random_policy(&random, percent);
        struct pin_findings found = {0}, up = {0}, down = {0};
        if (pin_reach_make(&pair.from, pair.a, PIN_ARCH_X86_64, &found) &&
            pin_reach_make(&pair.to, pair.b, PIN_ARCH_X86_64, &found)) {
            pin_diff_make(&pair.diff, &pair.from, &pair.to);
            assert_int_equal(pair.diff.wider, !pin_policy_narrower(pair.b, pair.a, &up));
            assert_int_equal(pair.diff.narrower, !pin_policy_narrower(pair.a, pair.b, &down));
            assert_int_equal(pair.diff.wider, has_kind(&pair.diff, PIN_CHANGE_WIDER));
            assert_int_equal(pair.diff.narrower, has_kind(&pair.diff, PIN_CHANGE_NARROWER));
            check_probes(&pair, seed);
            wider += pair.diff.wider;
            equal += !pair.diff.wider && !pair.diff.narrower;
        }
        release(&pair);
    }
    assert_true(wider > 300 && equal > 100);
}

static const char *const hosts[] = {"a.x.com", "b.x.com", "a.a.x.com", "b.a.x.com",
                                    "x.com",   "b.org",   "a.b.org",   "org"};
static const char *const addresses[] = {"10.0.0.1", "10.1.0.1",  "10.1.2.3",    "9.9.9.9",
                                        "20.0.0.1", "127.0.0.1", "169.254.1.1", "169.254.169.254"};
static const char *const ports[] = {"443", "80", "1", "60", "90", "101", "442", "500", "501", "65535"};

static bool probe_differs(const struct pair *pair, const char *target) {
    PIN_ARENA struct pin_arena arena = {0};
    for (size_t i = 0; i < sizeof(ports) / sizeof(ports[0]); i++)
        for (int udp = 0; udp < 2; udp++) {
            const char *line =
                pin_arena_printf(&arena, "connect %s:%s%s", target, ports[i], udp != 0 ? "/udp" : "");
            struct pin_answer a = ask(&pair->from, &arena, line), b = ask(&pair->to, &arena, line);
            if (pin_answer_allows(&b) && !pin_answer_allows(&a))
                return true;
        }
    return false;
}

static bool some_probe_differs(const struct pair *pair) {
    for (size_t i = 0; i < sizeof(hosts) / sizeof(hosts[0]); i++)
        if (probe_differs(pair, hosts[i]))
            return true;
    for (size_t i = 0; i < sizeof(addresses) / sizeof(addresses[0]); i++)
        if (probe_differs(pair, addresses[i]))
            return true;
    return false;
}

static struct pin_policy *random_egress(struct random *random) {
    PIN_ARENA struct pin_arena arena = {0};
    const char *rules = "";
    for (uint32_t left = random_below(random, 4); left > 0; left--) {
        char rule[RANDOM_DESTINATION_TEXT];
        do
            (void)random_destination(random, rule);
        while (strstr(rule, "2001:") != NULL || strstr(rule, "::/0") != NULL);
        rules = pin_arena_printf(&arena, "%s%s%s", rules, *rules != '\0' ? ", " : "", rule);
    }
    return policy_of(pin_arena_printf(&arena, "\"network\": {\"egress\": [%s]}", rules));
}

/* Here the probes meet every corner that the rules can have: wider exactly when one of them says so. */
static void egress_is_wider_exactly_when_a_probe_is(void **state) {
    (void)state;
    size_t wider = 0;
    for (uint64_t seed = 1; seed <= 1000; seed++) {
        struct random random = {seed * 0xD1B54A32D192ED03u};
        struct pair pair = {.a = random_egress(&random), .b = random_egress(&random)};
        compare(&pair);
        if (pair.diff.wider != some_probe_differs(&pair))
            fail_msg("seed %llu: wider is %d", (unsigned long long)seed, pair.diff.wider);
        wider += pair.diff.wider;
        release(&pair);
    }
    assert_true(wider > 100 && wider < 990);
}

static void a_thousand_rules_take_a_moment(void **state) {
    (void)state;
    PIN_ARENA struct pin_arena arena = {0};
    PIN_BUFFER struct pin_buffer rules = {0}, more = {0};
    for (int i = 0; i < 1000; i++)
        pin_buffer_printf(&rules, "%s{\"host\": \"h%d.example.com\", \"ports\": [443]}", i > 0 ? ", " : "",
                          i);
    for (int i = 0; i < 1000; i++)
        pin_buffer_printf(&more, "%s{\"host\": \"h%d.example.org\", \"ports\": [443]}", i > 0 ? ", " : "", i);
    struct pair pair = {
        .a = policy_of(pin_arena_printf(&arena, "\"network\": {\"egress\": [%s]}", rules.data)),
        .b = policy_of(pin_arena_printf(&arena, "\"network\": {\"egress\": [%s]}", more.data))};
    struct timespec start, end;
    (void)clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &start);
    compare(&pair);
    (void)clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &end);
    assert_int_equal(pair.diff.count, 2000);
    double seconds = (double)(end.tv_sec - start.tv_sec) + (double)(end.tv_nsec - start.tv_nsec) / 1e9;
    print_message("2 x 1000 rules: %.3f s\n", seconds);
    assert_true(seconds < 2.0); /* ten times the promise: sanitizers and slow machines */
    release(&pair);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_kind_of_grant_is_named),
        cmocka_unit_test(another_way_to_say_the_same_is_no_difference),
        cmocka_unit_test(random_pairs_agree_with_probes_and_the_order),
        cmocka_unit_test(egress_is_wider_exactly_when_a_probe_is),
        cmocka_unit_test(a_thousand_rules_take_a_moment),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
