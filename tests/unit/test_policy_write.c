#include "policy/grants.h"
#include "policy/policy_write.h"
#include "policy_fixture.h"

#include <jansson.h>

#include "policy/policy_snapshot.h"

static void equal_in_meaning_is_equal_in_digest(const char *a, const char *b, bool equal) {
    struct pin_policy *left = body(a), *right = body(b);
    if ((memcmp(left->digest, right->digest, PIN_SHA256_SIZE) == 0) != equal)
        fail_msg("%s\n%s\nare %sequal", a, b, equal ? "not " : "");
    pin_policy_free(left);
    pin_policy_free(right);
}

#define MOUNTS(first, first_source, second, second_source)                                                   \
    "\"filesystem\": {\"mounts\": [{\"source\": \"" first_source "\", \"target\": \"" first                  \
    "\", \"access\": \"read-write\"}, {\"source\": \"" second_source "\", \"target\": \"" second "\"}]}"

static void order_spelling_and_repetition_are_no_difference(void **state) {
    (void)state;
    static const char *const rows[][2] = {
        {"\"name\": \"a\"",                                                                                   "\"name\": \"b\", \"description\": \"c\""                                                                                                     },
        {"\"extends\": [\"tool\"]",                                                                           "\"tty\": true"                                                                                                                               },
        {"\"secrets\": [\"A\", \"B\"]",                                                                       "\"secrets\": [\"B\", \"A\", \"B\"]"                                                                                                          },
        {"\"resources\": {\"memory\": \"1GiB\"}",                                                             "\"resources\": {\"memory\": \"1024MiB\"}"                                                                                                    },
        {"\"resources\": {\"memory\": 1048576}",                                                              "\"resources\": {\"memory\": \"1MiB\"}"                                                                                                       },
        {"\"resources\": {\"cpus\": 0.5}",                                                                    "\"resources\": {\"cpus\": \"0.500\"}"                                                                                                        },
        {"\"filesystem\": {\"write\": [\"/tmp\", \"/tmp/x\"]}",                                               "\"filesystem\": {\"write\": [\"/tmp\"]}"                                                                                                     },
        {MOUNTS("/m",                                                                                         "/a",                                                                                                                                           "/n", "/b"),
         "\"filesystem\": {\"mounts\": [{\"source\": \"/b\", \"target\": \"/n\"}, {\"source\": \"/a\", "
         "\"target\": \"/m\", \"access\": \"read-write\"}]}"},
        {"\"filesystem\": {\"mounts\": [{\"source\": \"/x\", \"target\": \"/m\"}, {\"source\": \"/a\", "
         "\"target\": \"/m\"}, {\"source\": \"/x\", \"target\": \"/m\"}]}",                                                                                              "\"filesystem\": {\"mounts\": [{\"source\": \"/x\", \"target\": \"/m\"}]}"                                                                                                                                                                                                },
        {MOUNTS("/m/b",                          "/x", "/m", "/a"),
         "\"filesystem\": {\"mounts\": [{\"source\": \"/a\", \"target\": \"/m\"}]}"},
        {"\"images\": [\"py*\", \"python\"]",                                                                                       "\"images\": [\"py*\"]"                                                                                                                                                                                                       },
        {"\"environment\": {\"refuse\": [\"*\", \"LD_*\"]}",                                                                                              "\"environment\": {\"refuse\": [\"*\"]}"                                                                                                                                                                         },
        {"\"network\": {\"egress\": [{\"host\": \"a.b\", \"ports\": [1]}, {\"host\": \"A.B.\", \"ports\": "
         "[2]}]}",                                                                 "\"network\": {\"egress\": [{\"host\": \"a.b\", \"ports\": [\"1-2\"]}]}"                                                                                                 },
        {"\"network\": {\"egress\": [{\"host\": \"x.a.b\", \"ports\": [1, 2]}, {\"host\": \"*.a.b\", "
         "\"ports\": "
         "[2]}]}",                                                  "\"network\": {\"egress\": [{\"host\": \"*.a.b\", \"ports\": [2]}, {\"host\": \"x.a.b\", \"ports\": "
         "[1]}]}"                                                          },
        {"\"syscalls\": {\"deny\": [\"read\", {\"name\": \"read\", \"args\": [{\"index\": 0, \"op\": \"eq\", "
         "\"value\": 0}]}]}",                                                                                   "\"syscalls\": {\"deny\": [\"read\"]}"                                                                                        },
        {"\"network\": {\"egress\": [{\"host\": \"a.b\", \"ports\": [443], \"inspect\": \"tls\"}]}",
         "\"network\": {\"egress\": [{\"host\": \"a.b\", \"ports\": [443]}]}"                                                                                                                                                                                                                },
        {"\"network\": {\"egress\": [{\"host\": \"a.b\", \"ports\": [443, 80], \"accept\": [\"no-name\"]}]}",
         "\"network\": {\"egress\": [{\"host\": \"a.b\", \"ports\": [80]}, {\"host\": \"a.b\", \"ports\": "
         "[443], \"accept\": [\"no-name\"]}]}"                                                                                             },
        {"\"network\": {\"egress\": [{\"host\": \"a.b\", \"ports\": [443], \"inspect\": \"none\"}, "
         "{\"host\": \"a.b\", \"ports\": [443]}]}",          "\"network\": {\"egress\": [{\"host\": \"a.b\", \"ports\": [443], \"inspect\": \"none\"}]}"                                                                                                                                                                               },
        {"\"network\": {\"budgets\": [{\"name\": \"unused\", \"rate\": 1024}]}", "\"network\": {}"                                                                                                                                                                                                              },
        {"\"capabilities\": [\"CAP_KILL\", \"CAP_CHOWN\"]",
         "\"capabilities\": [\"CAP_CHOWN\", \"CAP_KILL\"]"                                                                                           },
        {"\"environment\": {\"set\": {\"A\": \"1\", \"B\": \"2\"}}",
         "\"environment\": {\"set\": {\"B\": \"2\", \"A\": \"1\"}}"                                                                                                                                                          },
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
        equal_in_meaning_is_equal_in_digest(rows[i][0], rows[i][1], true);
}

static void every_field_that_counts_changes_the_digest(void **state) {
    (void)state;
    static const char *const rows[] = {
        "\"images\": []",
        "\"filesystem\": {\"root\": \"overlay\"}",
        "\"filesystem\": {\"root_size\": 1}",
        "\"filesystem\": {\"root_storage\": \"disk\"}",
        "\"filesystem\": {\"workspace\": {\"access\": \"none\"}}",
        "\"filesystem\": {\"workspace\": {\"size\": 1}}",
        "\"filesystem\": {\"write\": []}",
        "\"filesystem\": {\"tmp\": 1}",
        "\"filesystem\": {\"mounts\": [{\"source\": \"/a\", \"target\": \"/b\"}]}",
        MOUNTS("/m", "/a", "/m/b", "/a/b"), /* the inner one keeps from writing, or hides */
        MOUNTS("/m/b", "/a/b", "/m", "/a"), /* and is itself hidden by a later one */
        MOUNTS("/m", "/a", "/m/b", "/e"),
        "\"resources\": {\"memory\": \"1GiB\"}",
        "\"resources\": {\"swap\": 1}",
        "\"resources\": {\"cpus\": 2}",
        "\"resources\": {\"pids\": 1}",
        "\"resources\": {\"files\": 8}",
        "\"resources\": {\"core\": 1}",
        "\"resources\": {\"wall_time\": \"1s\"}",
        "\"resources\": {\"cpu_time\": \"1s\"}",
        "\"resources\": {\"grace\": \"1s\"}",
        "\"resources\": {\"stdout\": 1}",
        "\"resources\": {\"stderr\": 1}",
        "\"resources\": {\"frame\": 1}",
        "\"resources\": {\"on_output_cap\": \"kill\"}",
        "\"network\": {\"egress\": [{\"host\": \"a.b\", \"ports\": [1]}]}",
        "\"network\": {\"egress\": [{\"host\": \"a.b\", \"ports\": [1], \"protocol\": \"udp\"}]}",
        "\"network\": {\"deny\": [{\"host\": \"a.b\"}]}",
        "\"syscalls\": {\"baseline\": \"strict\"}",
        "\"syscalls\": {\"allow\": [\"memfd_create\"]}",
        "\"syscalls\": {\"deny\": [\"read\"]}",
        "\"syscalls\": {\"on_deny\": \"kill\"}",
        "\"capabilities\": [\"CAP_CHOWN\"]",
        "\"identity\": {\"user\": 1}",
        "\"identity\": {\"group\": 1}",
        "\"identity\": {\"ids\": 2}",
        "\"environment\": {\"pass\": []}",
        "\"environment\": {\"set\": {\"A\": \"\"}}",
        "\"environment\": {\"refuse\": []}",
        "\"secrets\": [\"A\"]",
        "\"privileged\": true",
        "\"tty\": false",
        "\"frames\": []",
        "\"audit\": {\"record\": [\"egress\"]}",
        "\"audit\": {\"require_labels\": [\"a\"]}",
        "\"optional\": [\"swap\"]",
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
        for (size_t j = 0; j < i; j++)
            equal_in_meaning_is_equal_in_digest(rows[i], rows[j], false);
}

static void what_is_written_reads_back_as_the_same_policy(void **state) {
    (void)state;
    static const char *const names[] = {"strict", "tool", "build", "oci"};
    for (size_t i = 0; i < 4; i++) {
        static struct pin_findings found;
        PIN_BUFFER struct pin_buffer canonical = {0}, people = {0};
        struct pin_policy *policy = pin_policy_load(names[i], &found);
        assert_non_null(policy);
        pin_policy_write_canonical(policy, &canonical);
        pin_policy_write(policy, &people);
        struct pin_policy *first = good(canonical.data), *second = good(people.data);
        assert_memory_equal(first->digest, policy->digest, PIN_SHA256_SIZE);
        assert_memory_equal(second->digest, policy->digest, PIN_SHA256_SIZE);
        assert_string_equal(second->name, policy->name);
        assert_string_equal(second->description, policy->description);
        pin_policy_free(policy);
        pin_policy_free(first);
        pin_policy_free(second);
    }
}

static void strings_are_escaped(void **state) {
    (void)state;
    PIN_BUFFER struct pin_buffer text = {0};
    pin_buffer_json(&text, "a\"\\\n\x01\xC3\xBC/");
    assert_string_equal(text.data, "\"a\\\"\\\\\\u000a\\u0001\xC3\xBC/\"");
}

struct grants {
    const char *pointer, *value, *place;
    unsigned times, all;
};

static void look_for(void *context, const char *pointer, const char *value, const struct pin_place *place) {
    struct grants *wanted = context;
    char text[PIN_PLACE_TEXT];
    wanted->all++;
    if (strcmp(pointer, wanted->pointer) != 0)
        return;
    assert_string_equal(value, wanted->value);
    assert_string_equal(pin_place_print(text, place), wanted->place);
    wanted->times++;
}

static void each_grant_has_the_place_that_gave_it(void **state) {
    (void)state;
    struct pin_policy *policy = good("{\"pinfold\": 1, \"extends\": [\"build\"],\n"
                                     " \"secrets\": [\"A\",\n  \"B\"], \"capabilities\": [\"CAP_KILL\"],\n"
                                     " \"environment\": {\"set\": {\"TZ\": \"UTC\"}}}");
    struct grants rows[] = {
        {"/secrets/1",          "\"B\"",        "test.json:3:3",        0, 0},
        {"/capabilities/0",     "\"CAP_KILL\"", "test.json:3:26",       0, 0},
        {"/environment/set/TZ", "\"UTC\"",      "test.json:4:32",       0, 0},
        {"/resources/pids",     "512",          "built-in:build:13:13", 0, 0},
        {"/resources/core",     "\"0\"",        "built-in:tool:20:13",  0, 0},
        {"/filesystem/write/1", "\"/tmp\"",     "built-in:tool:10:29",  0, 0},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        pin_policy_each_grant(policy, look_for, &rows[i]);
        assert_int_equal(rows[i].times, 1);
        assert_true(rows[i].all > 30);
    }
    pin_policy_free(policy);
}

static void gather(void *context, const char *pointer, const char *value, const struct pin_place *place) {
    char text[PIN_PLACE_TEXT];
    pin_buffer_printf(context, "%s %s %s\n", pointer, value, pin_place_print(text, place));
}

static void a_snapshot_keeps_the_policy_and_every_place(void **state) {
    (void)state;
    static const char *const texts[] = {
        "\"extends\": [\"build\"]",
        "\"extends\": [\"oci\"], \"network\": {\"egress\": [{\"host\": \"a.b\", \"ports\": [443]}], "
        "\"deny\": "
        "[{\"cidr\": \"10.0.0.0/8\"}]}, \"secrets\": [\"A\"], \"audit\": {\"require_labels_for\": "
        "{\"secrets\": "
        "[\"t\"]}}",
        "\"syscalls\": {\"deny\": [\"ptrace\", {\"name\": \"socket\", \"args\": [{\"index\": 0, \"op\": "
        "\"eq\", "
        "\"value\": 1}]}]}, \"environment\": {\"set\": {\"A\": \"b:1:2\"}}",
    };
    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
        static struct pin_findings found;
        struct pin_policy *policy = body(texts[i]);
        json_t *snapshot = pin_policy_snapshot(policy);
        struct pin_policy *back = pin_policy_from_snapshot(snapshot, "snapshot", &found);
        PIN_BUFFER struct pin_buffer before = {0}, after = {0};
        assert_non_null(back);
        assert_memory_equal(policy->digest, back->digest, PIN_SHA256_SIZE);
        pin_policy_each_grant(policy, gather, &before);
        pin_policy_each_grant(back, gather, &after);
        assert_string_equal(before.data, after.data);
        json_decref(snapshot);
        pin_policy_free(back);
        pin_policy_free(policy);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(order_spelling_and_repetition_are_no_difference),
        cmocka_unit_test(every_field_that_counts_changes_the_digest),
        cmocka_unit_test(what_is_written_reads_back_as_the_same_policy),
        cmocka_unit_test(strings_are_escaped),
        cmocka_unit_test(each_grant_has_the_place_that_gave_it),
        cmocka_unit_test(a_snapshot_keeps_the_policy_and_every_place),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
