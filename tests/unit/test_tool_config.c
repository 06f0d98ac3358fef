/* A stored configuration is read as strictly as a policy. */
#include "tests/unit/test.h"

#include <stdlib.h>
#include <string.h>

#include "runtime/tool/config.h"

static bool parse(struct pin_tool_config *config, const char *text, struct pin_findings *found) {
    memset(found, 0, sizeof(*found));
    return pin_tool_config_parse(config, "c.json", text, strlen(text), found);
}

static void every_field_is_taken(void **state) {
    (void)state;
    static struct pin_findings found;
    struct pin_tool_config config = {0};
    const char *text = "{\"description\": \"d\", \"policy\": \"p\", \"privileged_policy\": \"/etc/q.json\", "
                       "\"image\": \"i\", \"egress\": [\"h:1\"], \"memory\": \"1MiB\", \"cpus\": \"0.5\", "
                       "\"pids\": 7, \"timeout\": \"2s\", "
                       "\"pip_requirements\": [\"b\", \"A==1\"], \"npm_requirements\": [\"@s/x@1\"], "
                       "\"pip_index\": \"https://i/\", \"npm_registry\": \"http://r/\", "
                       "\"index_hosts\": [\"f:443\"]}";
    assert_true(parse(&config, text, &found));
    assert_string_equal(config.description, "d");
    assert_string_equal(config.policy, "p");
    assert_string_equal(config.privileged_policy, "/etc/q.json");
    assert_string_equal(config.image, "i");
    assert_int_equal(config.egress_count, 1);
    assert_string_equal(config.egress[0], "h:1");
    assert_true(config.has_memory && config.has_cpus && config.has_pids && config.has_timeout);
    assert_int_equal(config.memory_bytes, 1 << 20);
    assert_int_equal(config.millicpus, 500);
    assert_int_equal(config.pids, 7);
    assert_int_equal(config.timeout_ns, 2000000000);
    assert_int_equal(config.requirements[PIN_INSTALLER_PIP].count, 2);
    assert_string_equal(config.requirements[PIN_INSTALLER_PIP].items[0].text, "a==1");
    assert_string_equal(config.requirements[PIN_INSTALLER_NPM].items[0].name, "@s/x");
    assert_string_equal(config.index[PIN_INSTALLER_NPM], "http://r/");
    assert_string_equal(config.index_hosts[0], "f:443");
    pin_tool_config_free(&config);
}

static void equal_content_has_one_digest(void **state) {
    (void)state;
    static const char *const texts[] = {"{\"policy\": \"p\", \"pids\": 1}", "{ \"pids\":1,\"policy\":\"p\" }",
                                        "{\"policy\": \"p\", \"pids\": 2}"};
    static struct pin_findings found;
    struct pin_tool_config configs[PIN_COUNT(texts)] = {0};
    for (size_t i = 0; i < PIN_COUNT(texts); i++)
        assert_true(parse(&configs[i], texts[i], &found));
    assert_string_equal(configs[0].digest, configs[1].digest);
    assert_string_not_equal(configs[0].digest, configs[2].digest);
    for (size_t i = 0; i < PIN_COUNT(texts); i++)
        pin_tool_config_free(&configs[i]);
}

static void every_fault_is_named_with_its_place(void **state) {
    (void)state;
    static const struct {
        const char *text, *pointer;
    } rows[] = {
        {"[]",                                        "c.json:1:1"         },
        {"{",                                         "c.json"             },
        {"{\"polcy\": \"p\"}",                        "c.json:1:2 "        },
        {"{\"policy\": \"../p\"}",                    "/policy"            },
        {"{\"policy\": \"p.json/..\"}",               "/policy"            },
        {"{\"policy\": null}",                        "/policy"            },
        {"{\"policy\": \"a\", \"policy\": \"b\"}",    "/policy"            },
        {"{\"memory\": 5}",                           "/memory"            },
        {"{\"memory\": \"5 MB\"}",                    "/memory"            },
        {"{\"cpus\": \"-1\"}",                        "/cpus"              },
        {"{\"pids\": 0}",                             "/pids"              },
        {"{\"pids\": 1.5}",                           "/pids"              },
        {"{\"timeout\": \"0s\"}",                     "/timeout"           },
        {"{\"egress\": \"h:1\"}",                     "/egress"            },
        {"{\"egress\": [1]}",                         "/egress/0"          },
        {"{\"pip_requirements\": [\"x\", \"-r y\"]}", "/pip_requirements/1"},
        {"{\"npm_requirements\": [\"file:x\"]}",      "/npm_requirements/0"},
        {"{\"pip_index\": \"file:///x\"}",            "/pip_index"         },
        {"{\"npm_registry\": \"x\"}",                 "/npm_registry"      },
    };
    for (size_t i = 0; i < PIN_COUNT(rows); i++) {
        static struct pin_findings found;
        struct pin_tool_config config = {0};
        assert_false(parse(&config, rows[i].text, &found));
        if (strstr(found.list[0].pointer, rows[i].pointer) == NULL)
            fail_msg("%s: %s: %s", rows[i].text, found.list[0].pointer, found.list[0].message);
        pin_tool_config_free(&config);
    }
}

static void faults_come_all_at_once(void **state) {
    (void)state;
    static struct pin_findings found;
    struct pin_tool_config config = {0};
    assert_false(parse(&config, "{\"pids\": 0, \"memory\": 1, \"x\": 1}", &found));
    assert_int_equal(found.count, 3);
    pin_tool_config_free(&config);
}

static void a_patch_changes_adds_and_takes_away(void **state) {
    (void)state;
    static struct pin_findings found;
    const char *patch = "{\"a\": 2, \"b\": null, \"c\": [1]}";
    char *text = pin_tool_config_patch("{\"a\":1,\"b\":1,\"d\":1}", "p.json", patch, strlen(patch), &found);
    assert_string_equal(text, "{\"a\":2,\"c\":[1],\"d\":1}");
    free(text);
    assert_null(pin_tool_config_patch("{}", "p.json", "[]", 2, &found));
    assert_true(pin_found_any(&found));
}

static void names_of_variables(void **state) {
    (void)state;
    static const char *const good[] = {"A", "_", "a9_B"}, *const bad[] = {"",    "9",   "A-B",
                                                                          "A=B", "A B", "\xc3\xa4"};
    for (size_t i = 0; i < PIN_COUNT(good); i++)
        assert_true(pin_tool_is_variable(good[i]));
    for (size_t i = 0; i < PIN_COUNT(bad); i++)
        assert_false(pin_tool_is_variable(bad[i]));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_field_is_taken),
        cmocka_unit_test(equal_content_has_one_digest),
        cmocka_unit_test(every_fault_is_named_with_its_place),
        cmocka_unit_test(faults_come_all_at_once),
        cmocka_unit_test(a_patch_changes_adds_and_takes_away),
        cmocka_unit_test(names_of_variables),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
