#include "base/units.h"
#include "policy/egress_rule.h"
#include "policy_fixture.h"

#define DIGEST "sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"

struct fault {
    const char *body, *pointer, *message;
};

static void check_fault(const struct fault *row) {
    char text[4096];
    static struct pin_findings found;
    (void)snprintf(text, sizeof(text), "{\"pinfold\": 1, %s}", row->body);
    struct pin_policy *policy = parse(text, &found);
    const struct pin_error *err = finding_at(&found, row->pointer);
    if (policy != NULL || found.count != 1 || err == NULL || strstr(err->message, row->message) == NULL) {
        print_findings(&found);
        fail_msg("%s: expected one finding at %s: %s", row->body, row->pointer, row->message);
    }
}

static void each_fault_is_named_where_it_stands(void **state) {
    (void)state;
    static const struct fault rows[] = {
        {"\"nmae\": \"x\"",                                                                                "test.json:1:16 /nmae",             "unknown key 'nmae'"              },
        {"\"name\": \"../x\"",                                                                             "/name",                            "'../x' is not a name"            },
        {"\"description\": \"a\\u0007b\"",                                                                 "/description",                     "no control characters"           },
        {"\"images\": \"x\"",                                                                              "/images",                          "expected a list"                 },
        {"\"images\": [\"a b\"]",                                                                          "/images/0",                        "an image's name"                 },
        {"\"images\": [\"a**\"]",                                                                          "/images/0",                        "two '*'"                         },
        {"\"images\": [{\"pattern\": \"a\", \"digest\": \"" DIGEST "\"}]",                                 "/images/0",
         "either 'pattern' or 'digest'"                                                                                                                                          },
        {"\"images\": [{\"digest\": \"sha256:AB\"}]",                                                      "/images/0/digest",                 "a digest is"                     },
        {"\"images\": [{\"pattern\": \"a\", \"require_signature\": true}]",                                "/images/0",                        "together"                        },
        {"\"filesystem\": []",                                                                             "/filesystem",                      "expected an object, found a list"},
        {"\"filesystem\": {\"root\": \"rw\"}",                                                             "/filesystem/root",                 "unknown value 'rw'"              },
        {"\"filesystem\": {\"workspace\": {\"acces\": \"none\"}}",                                         "/filesystem/workspace/acces",
         "unknown key"                                                                                                                                                           },
        {"\"filesystem\": {\"write\": [\"tmp\"]}",                                                         "/filesystem/write/0",              "a path starts with '/'"          },
        {"\"filesystem\": {\"write\": [\"/tmp/../etc\"]}",                                                 "/filesystem/write/0",              "a path starts with '/'"          },
        {"\"filesystem\": {\"write\": [\"/proc/sys\"]}",                                                   "/filesystem/write/0",              "only /dev/shm"                   },
        {"\"filesystem\": {\"write\": [\"/dev\"]}",                                                        "/filesystem/write/0",              "only /dev/shm"                   },
        {"\"filesystem\": {\"mounts\": [{\"source\": \"/\", \"target\": \"/x\"}]}",
         "/filesystem/mounts/0/source",                                                                                                        "the whole host"                  },
        {"\"filesystem\": {\"mounts\": [{\"source\": \"/x\", \"target\": \"/\"}]}",
         "/filesystem/mounts/0/target",                                                                                                        "the root"                        },
        {"\"filesystem\": {\"mounts\": [{\"source\": \"/x\", \"target\": \"/dev/x\"}]}",
         "/filesystem/mounts/0/target",                                                                                                        "nothing can be mounted on"       },
        {"\"filesystem\": {\"mounts\": [{\"source\": \"/x\"}]}",                                           "/filesystem/mounts/0",
         "'target' is missing"                                                                                                                                                   },
        {"\"filesystem\": {\"mounts\": [{\"source\": \"/x\", \"target\": \"/y\", \"access\": \"none\"}]}",
         "/filesystem/mounts/0/access",                                                                                                        "no access of a mount"            },
        {"\"resources\": {\"memory\": \"1GB\"}",                                                           "/resources/memory",                "'1GB' is not a size"             },
        {"\"resources\": {\"memory\": \"99999999999TiB\"}",                                                "/resources/memory",                "is not a size"                   },
        {"\"resources\": {\"memory\": 0}",                                                                 "/resources/memory",                "0 is less than 1MiB"             },
        {"\"resources\": {\"memory\": -1}",                                                                "/resources/memory",                "negative"                        },
        {"\"resources\": {\"memory\": 1e9}",                                                               "/resources/memory",                "found a number"                  },
        {"\"resources\": {\"memory\": null}",                                                              "/resources/memory",                "found null"                      },
        {"\"resources\": {\"frame\": \"unlimited\"}",                                                      "/resources/frame",                 "can't be unlimited"              },
        {"\"resources\": {\"wall_time\": 30}",                                                             "/resources/wall_time",             "expected a time"                 },
        {"\"resources\": {\"wall_time\": \"30\"}",                                                         "/resources/wall_time",             "is not a time"                   },
        {"\"resources\": {\"wall_time\": \"0s\"}",                                                         "/resources/wall_time",             "is less than 1ms"                },
        {"\"resources\": {\"wall_time\": \"9223372036854775807h\"}",                                       "/resources/wall_time",             "is not a time"                   },
        {"\"resources\": {\"cpus\": 0}",                                                                   "/resources/cpus",                  "less than"                       },
        {"\"resources\": {\"cpus\": 0.0001}",                                                              "/resources/cpus",                  "three decimals"                  },
        {"\"resources\": {\"cpus\": \"1.\"}",                                                              "/resources/cpus",                  "not a number of CPUs"            },
        {"\"resources\": {\"cpus\": 100000000000}",                                                        "/resources/cpus",                  "more than"                       },
        {"\"resources\": {\"pids\": 0}",                                                                   "/resources/pids",                  "0 is less than 1"                },
        {"\"resources\": {\"pids\": \"64\"}",                                                              "/resources/pids",                  "expected a count"                },
        {"\"network\": {\"egress\": [\"example.com\"]}",                                                   "/network/egress/0",                "expected an object"              },
        {"\"network\": {\"egress\": [{\"ports\": [1]}]}",                                                  "/network/egress/0",                "either 'host' or 'cidr'"         },
        {"\"network\": {\"egress\": [{\"host\": \"a.b\"}]}",                                               "/network/egress/0",                "'ports' is missing"              },
        {"\"network\": {\"egress\": [{\"host\": \"a.b\", \"ports\": []}]}",                                "/network/egress/0/ports",
         "empty"                                                                                                                                                                 },
        {"\"network\": {\"egress\": [{\"host\": \"a.b\", \"ports\": [0]}]}",                               "/network/egress/0/ports/0",
         "a port"                                                                                                                                                                },
        {"\"network\": {\"egress\": [{\"host\": \"a.b\", \"ports\": [\"2-1\"]}]}",
         "/network/egress/0/ports/0",                                                                                                          "a port"                          },
        {"\"network\": {\"egress\": [{\"host\": \"a.b\", \"ports\": [1], \"protocol\": \"TCP\"}]}",
         "/network/egress/0/protocol",                                                                                                         "unknown value 'TCP'"             },
        {"\"network\": {\"egress\": [{\"host\": \"*\", \"ports\": [1]}]}",                                 "/network/egress/0/host",
         "every name"                                                                                                                                                            },
        {"\"network\": {\"deny\": [{\"host\": \"a.b\", \"protocol\": \"udp\"}]}",                          "/network/deny/0/protocol",
         "unknown key"                                                                                                                                                           },
        {"\"syscalls\": {\"baseline\": \"none\"}",                                                         "/syscalls/baseline",               "unknown value"                   },
        {"\"syscalls\": {\"allow\": [\"Open\"]}",                                                          "/syscalls/allow/0",                "a call's name"                   },
        {"\"syscalls\": {\"allow\": [\"*\"]}",                                                             "/syscalls/allow/0",                "a call's name"                   },
        {"\"syscalls\": {\"allow\": [{\"name\": \"a\", \"args\": [{\"index\": 6, \"op\": \"eq\", \"value\": "
         "1}]}]}",                                                                                "/args/0/index",                    "0 to 5"                          },
        {"\"syscalls\": {\"allow\": [{\"name\": \"a\", \"args\": [{\"index\": 1, \"op\": \"masked_eq\", "
         "\"value\": "
         "1}]}]}",                                                                                "/args/0",                          "'mask' stands with"              },
        {"\"syscalls\": {\"allow\": [{\"name\": \"a\", \"args\": [{\"index\": 1, \"op\": \"masked_eq\", "
         "\"mask\": 2, \"value\": 1}]}]}",                                                        "/args/0/value",                    "takes away"                      },
        {"\"syscalls\": {\"allow\": [{\"name\": \"@a\", \"args\": [{\"index\": 1, \"op\": \"eq\", \"value\": "
         "1}]}]}",                                                                                "/allow/0/args",                    "in common"                       },
        {"\"syscalls\": {\"deny\": [\"ptrcae\"]}",                                                         "test.json:1:38 /syscalls/deny/0",  "is called 'ptrcae'"              },
        {"\"syscalls\": {\"allow\": [\"ptrace\"]}",                                                        "test.json:1:39 /syscalls/allow/0", "may not be allowed"              },
        {"\"capabilities\": [\"CAP_SYS_ADMN\"]",                                                           "/capabilities/0",                  "unknown value"                   },
        {"\"capabilities\": [\"cap_chown\"]",                                                              "/capabilities/0",                  "unknown value"                   },
        {"\"identity\": {\"user\": 4294967295}",                                                           "/identity/user",                   "more than"                       },
        {"\"identity\": {\"user\": \"root\"}",                                                             "/identity/user",                   "expected a number"               },
        {"\"environment\": {\"pass\": [\"LC_*\"]}",                                                        "/environment/pass/0",              "a variable's name"               },
        {"\"environment\": {\"set\": {\"A\": 1}}",                                                         "/environment/set/A",               "expected a string"               },
        {"\"environment\": {\"set\": {\"A-B\": \"\"}}",                                                    "/environment/set/A-B",             "a variable's name"               },
        {"\"environment\": {\"refuse\": [\"L D\"]}",                                                       "/environment/refuse/0",            "a variable's name"               },
        {"\"filesystem\": {\"write\": [\"/tmp\", \"/\"]}",                                                 "/filesystem/write/1",
         "grants nothing while the root is read-only"                                                                                                                            },
        {"\"secrets\": [\"*\"]",                                                                           "/secrets/0",                       "a secret's name"                 },
        {"\"privileged\": 0",                                                                              "/privileged",                      "expected true or false"          },
        {"\"frames\": \"fd\"",                                                                             "/frames",                          "expected a list"                 },
        {"\"frames\": {}",                                                                                 "/frames",                          "neither 'add' nor 'remove'"      },
        {"\"frames\": {\"drop\": []}",                                                                     "/frames/drop",                     "unknown key"                     },
        {"\"audit\": {\"record\": [\"all\"]}",                                                             "/audit/record/0",                  "unknown value"                   },
        {"\"audit\": {\"require_labels\": [\"a b\"]}",                                                     "/audit/require_labels/0",          "a label's key"                   },
        {"\"optional\": [\"seccomp\"]",                                                                    "/optional/0",                      "unknown value"                   },
        {"\"extends\": \"tool\"",                                                                          "/extends",                         "expected a list of policies"     },
        {"\"extends\": [1]",                                                                               "/extends/0",                       "expected a name or a path"       },
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
        check_fault(&rows[i]);
}

static void the_version_is_asked_for_first(void **state) {
    (void)state;
    static struct pin_findings found;
    assert_null(parse("{}", &found));
    assert_string_equal(found.list[0].message, "the key 'pinfold' is missing");
    assert_null(parse("{\"pinfold\": 2}", &found));
    assert_non_null(finding_at(&found, "test.json:1:13 /pinfold"));
    assert_null(parse("{\"pinfold\": true}", &found));
    assert_null(parse("[]", &found));
}

static void all_faults_of_a_file_come_in_one_go(void **state) {
    (void)state;
    static struct pin_findings found;
    assert_null(
        parse("{\"pinfold\": 1, \"tty\": 1, \"resources\": {\"pids\": -1, \"memroy\": 1, \"pids\": 2},\n"
              " \"network\": {\"egress\": [{\"host\": \"1.2.3.4\", \"ports\": [443, 0]}, 7]}}",
              &found));
    assert_int_equal(found.count, 6);
    assert_string_equal(finding_at(&found, "/resources/memroy")->hint, "did you mean 'memory'?");
    assert_non_null(finding_at(&found, "test.json:2:34 /network/egress/0/host"));
    assert_non_null(finding_at(&found, "/network/egress/0/ports/1"));
}

static void values_arrive_in_their_units(void **state) {
    (void)state;
    struct pin_policy *policy =
        body("\"resources\": {\"memory\": \"2GiB\", \"swap\": \"unlimited\", \"cpus\": 0.25, \"pids\": "
             "\"unlimited\","
             " \"wall_time\": \"1500ms\", \"stdout\": 4096, \"on_output_cap\": \"kill\"},"
             "\"filesystem\": {\"root\": \"overlay\", \"workspace\": {\"access\": \"copy-on-write\"}},"
             "\"capabilities\": [\"CAP_NET_RAW\", \"CAP_CHOWN\"], \"optional\": [\"swap\"],"
             "\"syscalls\": {\"allow\": [{\"name\": \"memfd_create\", \"args\": [{\"index\": 1, \"op\": "
             "\"masked_eq\","
             " \"value\": 0, \"mask\": \"0x8000000000000000\"}]}]}");
    assert_int_equal(policy->resources.memory_bytes, 2 * PIN_GIB);
    assert_true(policy->resources.swap_bytes == PIN_UNLIMITED);
    assert_int_equal(policy->resources.millicpus, 250);
    assert_true(policy->resources.pids == PIN_UNLIMITED);
    assert_int_equal(policy->resources.wall_time_ns, 1500 * PIN_NS_PER_MS);
    assert_int_equal(policy->resources.stdout_bytes, 4096);
    assert_int_equal(policy->resources.on_output_cap, PIN_ON_CAP_KILL);
    assert_int_equal(policy->filesystem.root, PIN_ROOT_OVERLAY);
    assert_int_equal(policy->filesystem.workspace, PIN_ACCESS_COW);
    assert_int_equal(policy->capabilities, 1u << 13 | 1u);
    assert_int_equal(policy->optional, 1u << PIN_PROTECT_SWAP);
    assert_int_equal(policy->syscalls.allow[0].args[0].op, PIN_FILTER_MASKED_EQ);
    assert_true(policy->syscalls.allow[0].args[0].mask == UINT64_C(1) << 63);
    pin_policy_free(policy);
}

static void destinations_arrive_in_canonical_form(void **state) {
    (void)state;
    struct pin_policy *policy =
        body("\"network\": {\"egress\": [{\"host\": \"API.Example.COM.\", \"ports\": [8443, 443, "
             "\"444-500\", 460]},"
             "{\"cidr\": \"10.1.0.0/16\", \"ports\": [\"1-65535\"], \"protocol\": \"udp\"},"
             "{\"cidr\": \"2001:db8::1\", \"ports\": [1]}], \"deny\": [{\"host\": \"*.example.com\"}]}");
    const struct pin_egress_rule *rules = policy->network.egress;
    assert_string_equal(rules[0].host, "api.example.com");
    assert_int_equal(rules[0].port_count, 2);
    assert_int_equal(rules[0].ports[0].first, 443);
    assert_int_equal(rules[0].ports[0].last, 500);
    assert_null(rules[1].host);
    assert_int_equal(rules[1].prefix, 112);
    assert_int_equal(rules[1].address[11], 0xFF);
    assert_int_equal(rules[1].address[13], 1);
    assert_int_equal(rules[1].protocol, PIN_PROTOCOL_UDP);
    assert_int_equal(rules[2].prefix, 128);
    assert_int_equal(policy->network.deny[0].ports[0].first, 1);
    assert_int_equal(policy->network.deny[0].ports[0].last, 65535);
    pin_policy_free(policy);
}

static void what_stands_in_no_file_is_that_of_the_profile_tool(void **state) {
    (void)state;
    static struct pin_findings found;
    struct pin_policy *empty = good("{\"pinfold\": 1}");
    struct pin_policy *tool = pin_policy_load("tool", &found);
    assert_non_null(tool);
    assert_memory_equal(empty->digest, tool->digest, PIN_SHA256_SIZE);
    assert_string_equal(empty->name, "test");
    assert_string_equal(tool->name, "tool");
    assert_string_equal(empty->places[PIN_FIELD_MEMORY].file, "default");
    assert_string_equal(tool->places[PIN_FIELD_MEMORY].file, "built-in:tool");
    pin_policy_free(empty);
    pin_policy_free(tool);
}

static void the_default_grants_no_network_no_secret_no_capability(void **state) {
    (void)state;
    struct pin_policy *policy = good("{\"pinfold\": 1}");
    assert_int_equal(policy->network.egress_count, 0);
    assert_int_equal(policy->secrets.count, 0);
    assert_int_equal(policy->filesystem.mount_count, 0);
    assert_int_equal(policy->capabilities, 0);
    assert_false(policy->privileged);
    assert_int_equal(policy->optional, 0);
    assert_int_not_equal(policy->identity.user, 0);
    pin_policy_free(policy);
}

static void long_lists_are_bounded(void **state) {
    (void)state;
    static char text[80000];
    static struct pin_findings found;
    for (unsigned count = 4096; count <= 4097; count++) {
        size_t used = (size_t)snprintf(text, sizeof(text), "{\"pinfold\": 1, \"secrets\": [\"S0\"");
        for (unsigned i = 1; i < count; i++)
            used += (size_t)snprintf(text + used, sizeof(text) - used, ",\"S%u\"", i);
        (void)snprintf(text + used, sizeof(text) - used, "]}");
        struct pin_policy *policy = parse(text, &found);
        assert_int_equal(policy != NULL, count == 4096);
        pin_policy_free(policy);
    }
    assert_non_null(finding_at(&found, "/secrets"));
}

/* An item with a fault hides neither its other faults nor those of the items beside it. */
static void all_faults_of_a_list_are_told_at_once(void **state) {
    (void)state;
    static const char *const bodies[] = {
        "\"network\": {\"egress\": [{\"hots\": \"a.b\", \"ports\": [0], \"protocol\": \"TCP\"}, "
        "{\"host\": \"*.com\", \"ports\": [443], \"inspect\": \"tsl\", \"accept\": [\"a\", \"b\"], "
        "\"budget\": \"-\\u007f\"}, "
        "{\"host\": \"a.b\", \"ports\": [1], \"budget\": \"q\"}, {\"host\": \"a.b\", \"ports\": [2], "
        "\"budget\": \"r\"}, "
        "{\"host\": \"a.b\", \"ports\": [3], \"budget\": \"faulty\"}], "
        "\"budgets\": [{\"name\": \"faulty\", \"rate\": \"x\", \"idle\": 7}]}",
        "\"syscalls\": {\"allow\": [{\"nmae\": \"read\", \"args\": [{\"index\": 9, \"op\": \"==\"}]}, "
        "\"no_call\", \"mount\"], "
        "\"deny\": [7, \"no_other\"]}",
        ("\"filesystem\": {\"write\": [\"tmp\", \"/\"], \"mounts\": [{\"source\": \"/\", \"target\": \"x\", "
         "\"access\": \"rw\", \"a\": 1}]}"),
        "\"images\": [{\"digest\": \"sha256:1\", \"require_signature\": 1, \"keys\": [\"k\", 5]}, \"a b\"]",
    };
    static const char *const pointers[][12] = {
        {"/network/egress/0/hots",     "/network/egress/0/ports/0", "/network/egress/0/protocol",
         "/network/egress/1/host",                                                               "/network/egress/1/inspect", "/network/egress/1/accept/0",
         "/network/egress/1/accept/1", "/network/egress/1/budget", "/network/budgets/0/rate",
         "/network/budgets/0/idle", "/network/egress",
         "/network/egress"}, /* q and r, and nothing of the faulty one's name */
        {"/syscalls/allow/0/nmae", "/syscalls/allow/0/args/0",  "/syscalls/allow/0/args/0/op",
         "/syscalls/allow/0/args/0/index",                                                              "/syscalls/deny/0",                                                                        "/syscalls/allow", "/syscalls/allow",
         "/syscalls/deny"},
        {"/filesystem/write/0",                            "/filesystem/mounts/0/a",                                "/filesystem/mounts/0/source",
         "/filesystem/mounts/0/target", "/filesystem/mounts/0/access",                                                                                    "/filesystem/write"},
        {"/images/0/digest",           "/images/0/require_signature",                     "/images/0/keys/0",                                                                        "/images/0/keys/1",
         "/images/1"                                                                           },
    };
    for (size_t i = 0; i < sizeof(bodies) / sizeof(bodies[0]); i++) {
        char text[4096];
        static struct pin_findings found;
        size_t wanted = 0;
        (void)snprintf(text, sizeof(text), "{\"pinfold\": 1, %s}", bodies[i]);
        assert_null(parse(text, &found));
        while (wanted < 12 && pointers[i][wanted] != NULL && finding_at(&found, pointers[i][wanted]) != NULL)
            wanted++;
        if (found.count != wanted || (wanted < 12 && pointers[i][wanted] != NULL)) {
            print_findings(&found);
            fail_msg("%zu findings, %zu of those that were expected", found.count, wanted);
        }
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_fault_is_named_where_it_stands),
        cmocka_unit_test(the_version_is_asked_for_first),
        cmocka_unit_test(all_faults_of_a_file_come_in_one_go),
        cmocka_unit_test(values_arrive_in_their_units),
        cmocka_unit_test(destinations_arrive_in_canonical_form),
        cmocka_unit_test(what_stands_in_no_file_is_that_of_the_profile_tool),
        cmocka_unit_test(the_default_grants_no_network_no_secret_no_capability),
        cmocka_unit_test(long_lists_are_bounded),
        cmocka_unit_test(all_faults_of_a_list_are_told_at_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
