#include "audit_fixture.h"

#include <errno.h>

#include "policy/audit/paths.h"
#include "policy/policy_write.h"
#include "policy_random.h"

static const char web[] =
    "\"name\": \"web\", \"filesystem\": {\"workspace\": {\"access\": \"copy-on-write\"}, "
    "\"write\": [\"/workspace\", \"/tmp\", \"/data\", \"/models/out\"], \"mounts\": ["
    "{\"source\": \"/srv/models\", \"target\": \"/models\"}, "
    "{\"source\": \"/srv/out\", \"target\": \"/models/out\", \"access\": \"read-write\"}]}, "
    "\"network\": {\"egress\": [{\"host\": \"api.example.com\", \"ports\": [443]}, "
    "{\"host\": \"*.files.example.com\", \"ports\": [443]}, {\"cidr\": \"10.1.2.0/24\", \"ports\": [5432]}], "
    "\"deny\": [{\"host\": \"bad.files.example.com\"}]}, "
    "\"syscalls\": {\"allow\": [\"@ipc\"], \"deny\": [\"msgsnd\", \"@xattr\"]}, \"secrets\": [\"KEY\"]";

struct row {
    const char *line;
    enum pin_answer_verdict verdict;
    const char *rule;
};

static void check_rows(const struct pin_policy *policy, const struct row *rows, size_t count) {
    PIN_REACH struct pin_reach reach;
    PIN_ARENA struct pin_arena arena = {0};
    reach_of(&reach, policy);
    for (size_t i = 0; i < count; i++) {
        struct pin_answer answer = ask(&reach, &arena, rows[i].line);
        if (answer.verdict != rows[i].verdict)
            fail_msg("'%s': %s, not %s", rows[i].line, pin_answer_verdict_name(answer.verdict),
                     pin_answer_verdict_name(rows[i].verdict));
        if (rows[i].rule != NULL)
            assert_string_equal(answer.rule, rows[i].rule);
        assert_true(answer.reason != NULL && *answer.reason != '\0');
    }
}

static void connections_are_judged_by_the_judge_of_destinations(void **state) {
    (void)state;
    static const struct row rows[] = {
        {"connect api.example.com:443",             PIN_ANSWER_ALLOW, "/network/egress/0"},
        {"connect API.example.com.:443",            PIN_ANSWER_ALLOW, "/network/egress/0"},
        {"connect api.example.com:80",              PIN_ANSWER_DENY,  "/network/egress/0"},
        {"connect api.example.com:443/udp",         PIN_ANSWER_DENY,  "/network/egress/0"},
        {"connect a.b.files.example.com:443",       PIN_ANSWER_ALLOW, "/network/egress/1"},
        {"connect files.example.com:443",           PIN_ANSWER_DENY,  "/network/egress"  },
        {"connect bad.files.example.com:443",       PIN_ANSWER_DENY,  "/network/deny/0"  },
        {"connect 10.1.2.9:5432",                   PIN_ANSWER_ALLOW, "/network/egress/2"},
        {"connect 169.254.169.254:80",              PIN_ANSWER_DENY,  "/network/egress"  },
        {"connect [2001:db8::1]:5432",              PIN_ANSWER_DENY,  "/network/egress"  },
        {"connect api.example.com:443 93.184.0.1",  PIN_ANSWER_ALLOW, "/network/egress/0"},
        {"connect api.example.com:443 127.0.0.1",   PIN_ANSWER_DENY,  "/network/egress/0"},
        {"connect api.example.com:443 10.1.2.3",    PIN_ANSWER_DENY,  NULL               },
        {"connect api.example.com:443 169.254.1.1", PIN_ANSWER_DENY,  NULL               },
    };
    struct pin_policy *policy = policy_of(web);
    check_rows(policy, rows, sizeof(rows) / sizeof(rows[0]));
    pin_policy_free(policy);
}

static void paths_lie_in_layers(void **state) {
    (void)state;
    static const struct row rows[] = {
        {"write /tmp/x",          PIN_ANSWER_ALLOW, "/filesystem/write/1"         },
        {"write /data/a b/c",     PIN_ANSWER_ALLOW, "/filesystem/write/2"         },
        {"write /datax",          PIN_ANSWER_DENY,  "/filesystem/write"           },
        {"write /workspace/x",    PIN_ANSWER_ALLOW, "/filesystem/workspace/access"},
        {"write /dev/shm/x",      PIN_ANSWER_DENY,  NULL                          },
        {"write /dev/null",       PIN_ANSWER_ALLOW, NULL                          },
        {"write /dev/sda",        PIN_ANSWER_DENY,  NULL                          },
        {"write /proc/self/mem",  PIN_ANSWER_DENY,  NULL                          },
        {"write /models/a",       PIN_ANSWER_DENY,  "/filesystem/mounts/0"        },
        {"write /models/out/a",   PIN_ANSWER_ALLOW, "/filesystem/mounts/1"        },
        {"write /etc/passwd",     PIN_ANSWER_DENY,  "/filesystem/write"           },
        {"read /models/a",        PIN_ANSWER_ALLOW, "/filesystem/mounts/0"        },
        {"read /workspace/a",     PIN_ANSWER_ALLOW, "/filesystem/workspace/access"},
        {"read /usr/bin/python3", PIN_ANSWER_ALLOW, "/images"                     },
    };
    struct pin_policy *policy = policy_of(web);
    check_rows(policy, rows, sizeof(rows) / sizeof(rows[0]));
    pin_policy_free(policy);
}

static void system_calls_are_judged_by_the_filter(void **state) {
    (void)state;
    static const struct row rows[] = {
        {"syscall read",                                      PIN_ANSWER_ALLOW,   "/syscalls/baseline"},
        {"syscall msgget",                                    PIN_ANSWER_ALLOW,   "/syscalls/allow/0" },
        {"syscall msgsnd",                                    PIN_ANSWER_ERRNO,   "/syscalls/deny/0"  },
        {"syscall getxattr",                                  PIN_ANSWER_ERRNO,   "/syscalls/deny/1"  },
        {"syscall mount",                                     PIN_ANSWER_ERRNO,   "/syscalls/baseline"},
        {"syscall clone3",                                    PIN_ANSWER_ERRNO,   "/syscalls/baseline"},
        {"syscall socket",                                    PIN_ANSWER_DEPENDS, NULL                },
        {"syscall socket AF_INET SOCK_STREAM 0",              PIN_ANSWER_ALLOW,   NULL                },
        {"syscall socket AF_INET SOCK_STREAM|SOCK_CLOEXEC 6", PIN_ANSWER_ALLOW,   NULL                },
        {"syscall socket AF_VSOCK SOCK_STREAM 0",             PIN_ANSWER_ERRNO,   NULL                },
        {"syscall socket 40 1 0",                             PIN_ANSWER_ERRNO,   NULL                },
        {"syscall clone CLONE_NEWUSER|0x11",                  PIN_ANSWER_ERRNO,   NULL                },
        {"syscall clone 17",                                  PIN_ANSWER_ALLOW,   NULL                },
        {"syscall ioctl 0 TIOCSTI",                           PIN_ANSWER_ERRNO,   NULL                },
    };
    struct pin_policy *policy = policy_of(web);
    check_rows(policy, rows, sizeof(rows) / sizeof(rows[0]));
    pin_policy_free(policy);
}

static void denied_calls_answer_as_the_policy_says(void **state) {
    (void)state;
    PIN_ARENA struct pin_arena arena = {0};
    PIN_REACH struct pin_reach reach, deadly;
    struct pin_policy *policy = policy_of(""), *kill = policy_of("\"syscalls\": {\"on_deny\": \"kill\"}");
    reach_of(&reach, policy);
    reach_of(&deadly, kill);
    assert_int_equal(ask(&reach, &arena, "syscall mount").error, EPERM);
    assert_int_equal(ask(&reach, &arena, "syscall clone3").error, ENOSYS);
    assert_int_equal(ask(&deadly, &arena, "syscall mount").verdict, PIN_ANSWER_KILL);
    pin_policy_free(policy);
    pin_policy_free(kill);
}

static void secrets_and_limits_have_answers(void **state) {
    (void)state;
    static const struct row rows[] = {
        {"secret KEY",               PIN_ANSWER_ALLOW, "/secrets/0"          },
        {"secret OTHER",             PIN_ANSWER_DENY,  "/secrets"            },
        {"limit memory",             PIN_ANSWER_ALLOW, "/resources/memory"   },
        {"limit memory 512MiB",      PIN_ANSWER_ALLOW, "/resources/memory"   },
        {"limit memory 513MiB",      PIN_ANSWER_DENY,  "/resources/memory"   },
        {"limit memory unlimited",   PIN_ANSWER_DENY,  "/resources/memory"   },
        {"limit wall_time 30s",      PIN_ANSWER_ALLOW, "/resources/wall_time"},
        {"limit cpus 0.5",           PIN_ANSWER_ALLOW, "/resources/cpus"     },
        {"limit cpus 2",             PIN_ANSWER_DENY,  "/resources/cpus"     },
        {"limit cpu_time unlimited", PIN_ANSWER_ALLOW, "/resources/cpu_time" },
    };
    struct pin_policy *policy = policy_of(web);
    check_rows(policy, rows, sizeof(rows) / sizeof(rows[0]));
    pin_policy_free(policy);
}

static void bad_questions_are_refused(void **state) {
    (void)state;
    static const char *const lines[] = {
        "",
        "conect a.b:1",
        "connect",
        "connect a.example.com",
        "connect *.example.com:443",
        "connect 10.0.0.0/8:443",
        "connect a.example.com:1-9",
        "connect a.example.com:443 nowhere",
        "connect 10.0.0.1:443 10.0.0.1",
        "write",
        "write tmp/x",
        "write /tmp/../etc",
        "read /tmp/",
        "syscall",
        "syscall nosuchcall",
        "syscall read 0 1 2 3 4 5 6",
        "syscall socket AF_NOWHERE",
        "secret",
        "secret lower-case-and-more!",
        "limit",
        "limit nothing",
        "limit memory much",
        "limit memory 1 2",
    };
    for (size_t i = 0; i < sizeof(lines) / sizeof(lines[0]); i++) {
        PIN_ARENA struct pin_arena arena = {0};
        struct pin_question question;
        struct pin_error err = {0};
        if (pin_question_parse_line(&question, &arena, lines[i], &err))
            fail_msg("'%s' was taken for a question", lines[i]);
        assert_true(pin_is_set(&err));
    }
}

static const char *const probes[] = {
    "connect api.example.com:443",
    "connect api.example.com:22/udp",
    "connect a.x.com:443",
    "connect b.a.x.com:80",
    "connect 10.1.2.3:443",
    "connect 127.0.0.1:80",
    "connect [2001:db8::7]:443",
    "connect a.x.com:443 10.1.2.3",
    "connect q.org:99 192.168.1.1",
    "write /tmp/x/y",
    "write /data/x",
    "write /var/lib/x",
    "write /workspace/x",
    "write /m/x",
    "write /m/a/x",
    "write /x",
    "syscall inotify_init1",
    "syscall read",
    "syscall clone",
    "syscall memfd_create 0 1",
    "syscall memfd_create 0 9",
    "syscall splice",
    "syscall setns",
    "syscall socket AF_PACKET 3 0",
    "secret KEY_A",
    "secret NEW_KEY",
    "limit memory 2GiB",
    "limit pids 500",
    "limit cpus 2",
    "limit wall_time 3h",
    "limit tmp 1GiB",
};

static size_t edits_tried;

/* The edit is what it says: with it, and with it alone, the answer is another. */
static void try_edit(const char *base, const struct pin_reach *reach, const char *line) {
    PIN_ARENA struct pin_arena arena = {0};
    struct pin_answer before = ask(reach, &arena, line);
    if (pin_answer_allows(&before)) {
        assert_null(before.edit);
        return;
    }
    if (before.edit == NULL)
        return;
    PIN_REACH struct pin_reach after;
    struct pin_policy *edited = policy_edited(base, before.edit);
    edits_tried++;
    reach_of(&after, edited);
    struct pin_answer answer = ask(&after, &arena, line);
    if (!pin_answer_allows(&answer) && answer.verdict != PIN_ANSWER_DEPENDS)
        fail_msg("'%s' is still denied with %s: %s", line, before.edit, answer.reason);
    pin_policy_free(edited);
}

static void edits_allow_what_was_denied(void **state) {
    (void)state;
    static const char *const bases[] = {"strict", "tool", "build", "oci"};
    for (size_t i = 0; i < sizeof(bases) / sizeof(bases[0]); i++) {
        PIN_REACH struct pin_reach reach;
        struct pin_policy *policy = policy_named(bases[i]);
        reach_of(&reach, policy);
        for (size_t j = 0; j < sizeof(probes) / sizeof(probes[0]); j++)
            try_edit(bases[i], &reach, probes[j]);
        pin_policy_free(policy);
    }
}

static void edits_allow_what_random_policies_deny(void **state) {
    (void)state;
    struct random random = {88172645463325252u};
    for (int i = 0; i < 300; i++) {
        char text[RANDOM_POLICY_TEXT], path[64];
        PIN_REACH struct pin_reach reach;
        (void)random_policy_text(&random, 40, text);
        struct pin_findings found = {0};
        struct pin_policy *policy = pin_policy_parse("random.json", text, strlen(text), &found);
        if (policy == NULL)
            continue;
        struct pin_findings unresolved = {0};
        memset(&reach, 0, sizeof(reach));
        if (pin_reach_make(&reach, policy, PIN_ARCH_X86_64, &unresolved)) {
            write_file(path, text, strlen(text));
            for (size_t j = 0; j < sizeof(probes) / sizeof(probes[0]); j++)
                try_edit(path, &reach, probes[j]);
            (void)unlink(path);
        }
        pin_policy_free(policy);
    }
    print_message("%zu edits tried\n", edits_tried);
    assert_true(edits_tried > 2000);
}

static void an_answer_has_its_facts_in_json(void **state) {
    (void)state;
    PIN_ARENA struct pin_arena arena = {0};
    PIN_REACH struct pin_reach reach;
    struct pin_policy *policy = policy_of(web);
    struct pin_question question;
    struct pin_error err = {0};
    reach_of(&reach, policy);
    assert_true(pin_question_parse_line(&question, &arena, "connect b.example.com:443", &err));
    struct pin_answer answer = pin_why(&reach, &question, NULL, &arena);
    json_t *json = pin_answer_json(&question, &answer);
    assert_string_equal(json_string_value(json_object_get(json, "verdict")), "deny");
    assert_string_equal(json_string_value(json_object_get(json, "rule")), "/network/egress");
    assert_non_null(strstr(json_string_value(json_object_get(json, "place")), "test.json:1:"));
    assert_true(json_is_object(json_object_get(json, "edit")));
    json_decref(json);
    pin_policy_free(policy);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(connections_are_judged_by_the_judge_of_destinations),
        cmocka_unit_test(paths_lie_in_layers),
        cmocka_unit_test(system_calls_are_judged_by_the_filter),
        cmocka_unit_test(denied_calls_answer_as_the_policy_says),
        cmocka_unit_test(secrets_and_limits_have_answers),
        cmocka_unit_test(bad_questions_are_refused),
        cmocka_unit_test(edits_allow_what_was_denied),
        cmocka_unit_test(edits_allow_what_random_policies_deny),
        cmocka_unit_test(an_answer_has_its_facts_in_json),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
