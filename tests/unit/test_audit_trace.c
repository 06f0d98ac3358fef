#include "audit_fixture.h"

#include "policy/audit/trace.h"

/* A recording that is made by hand: no sandbox is needed to see what becomes of it. */
struct fixture {
    struct pin_policy *policy;
    struct pin_reach reach;
    struct pin_recording recording;
    struct pin_trace trace;
    struct pin_learned learned;
};

static bool host_has_all(const char *path) {
    (void)path;
    return true;
}

static void start(struct fixture *fixture, const char *text) {
    *fixture = (struct fixture){.policy = policy_of(text)};
    const struct pin_policy *policies[] = {fixture->policy};
    reach_of(&fixture->reach, fixture->policy);
    pin_recording_open(&fixture->recording, policies, 1);
    fixture->trace = (struct pin_trace){.recording = &fixture->recording,
                                        .policy = &fixture->reach,
                                        .extends = "tool",
                                        .command = "test",
                                        .host_has = host_has_all};
}

static void end(struct fixture *fixture) {
    pin_learned_free(&fixture->learned);
    pin_recording_free(&fixture->recording);
    pin_reach_free(&fixture->reach);
    pin_policy_free(fixture->policy);
}

static void call(struct fixture *fixture, const char *name, uint64_t first, bool denied) {
    const uint64_t args[PIN_FILTER_ARGS_MAX] = {first};
    pin_recording_call(&fixture->recording, name, args, denied);
}

static const json_t *learn(struct fixture *fixture) {
    struct pin_findings found = {0};
    if (!pin_trace_learn(&fixture->trace, &fixture->learned, &found))
        fail_msg("%s (%s)", found.list[0].message, found.list[0].pointer);
    return fixture->learned.policy;
}

static const json_t *part(const json_t *policy, const char *object, const char *key) {
    return json_object_get(json_object_get(policy, object), key);
}

static void assert_json(const json_t *value, const char *expected) {
    char *text = json_dumps(value, JSON_COMPACT | JSON_ENCODE_ANY);
    assert_string_equal(text, expected);
    free(text);
}

static bool mentions(const json_t *list, const char *what) {
    const json_t *item;
    size_t i;
    json_array_foreach(list, i, item) if (strcmp(json_string_value(json_object_get(item, "what")), what) ==
                                          0) return true;
    return false;
}

static void the_smallest_baseline_is_taken(void **state) {
    (void)state;
    static const struct {
        const char *calls[4];
        const char *baseline, *allow;
    } rows[] = {
        {{"read", "write"},              "strict", "[]"                       },
        {{"read", "listen", "bind"},     "tool",   "[]"                       },
        {{"read", "inotify_init1"},      "strict", "[\"inotify_init1\"]"      },
        {{"read", "io_setup", "setuid"}, "strict", "[\"io_setup\",\"setuid\"]"},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct fixture fixture;
        start(&fixture, "");
        for (size_t j = 0; j < 4 && rows[i].calls[j] != NULL; j++)
            call(&fixture, rows[i].calls[j], 1, false);
        const json_t *policy = learn(&fixture);
        assert_json(part(policy, "syscalls", "allow"), rows[i].allow);
        assert_string_equal(json_string_value(part(policy, "syscalls", "baseline")), rows[i].baseline);
        end(&fixture);
    }
}

static void calls_that_no_policy_allows_are_named_and_not_granted(void **state) {
    (void)state;
    struct fixture fixture;
    start(&fixture, "");
    call(&fixture, "read", 0, false);
    call(&fixture, "mount", 0, true);
    call(&fixture, "clone3", 0, true); /* answered ENOSYS: programs take another way */
    const json_t *policy = learn(&fixture);
    assert_json(part(policy, "syscalls", "allow"), "[]");
    assert_true(mentions(fixture.learned.withheld, "syscall mount"));
    assert_false(mentions(fixture.learned.withheld, "syscall clone3"));
    end(&fixture);
}

static void a_denial_of_the_base_goes_only_where_it_is_in_the_way(void **state) {
    (void)state;
    struct fixture fixture;
    start(&fixture, "\"syscalls\": {\"deny\": [\"socket\", \"ptrace\"]}");
    call(&fixture, "socket", 1, false);
    const json_t *policy = learn(&fixture);
    assert_json(part(policy, "syscalls", "deny"), "[\"ptrace\"]");
    assert_true(mentions(fixture.learned.withheld, "syscalls.deny \"socket\""));
    end(&fixture);
}

static void writes_become_folders_and_sensitive_ones_are_withheld(void **state) {
    (void)state;
    enum { MADE = PIN_USE_WRITE | PIN_USE_MISSING | PIN_USE_NEW };
    static const struct {
        const char *path;
        unsigned uses;
    } paths[] = {
        {"/tmp/a/b",                 MADE                           },
        {"/data/out/x",              MADE                           }, /* of a folder that isn't there */
        {"/srv/w",                   MADE | PIN_USE_FOLDER          },
        {"/srv/w/deep",              MADE | PIN_USE_FOLDER          },
        {"/srv/w/deep/file",         MADE                           },
        {"/many/a/x",                MADE                           },
        {"/many/b/x",                MADE                           },
        {"/many/c/x",                MADE                           },
        {"/home/me",                 MADE | PIN_USE_FOLDER          },
        {"/usr/lib/x.pyc",           PIN_USE_WRITE | PIN_USE_MISSING},
        {"/root/.ssh/known",         MADE                           },
        {"/proc/self/oom_score_adj", PIN_USE_WRITE                  },
        {"/dev/null",                PIN_USE_WRITE                  },
    };
    struct fixture fixture;
    start(&fixture, "");
    for (size_t i = 0; i < sizeof(paths) / sizeof(paths[0]); i++)
        pin_recording_path(&fixture.recording, paths[i].path, paths[i].uses);
    const json_t *policy = learn(&fixture);
    assert_json(part(policy, "filesystem", "write"),
                "[\"/tmp\",\"/data/out\",\"/srv/w\",\"/home/me\",\"/many\"]");
    assert_string_equal(json_string_value(part(policy, "filesystem", "root")), "read-only");
    assert_true(mentions(fixture.learned.withheld, "write /usr/lib/x.pyc"));
    assert_true(mentions(fixture.learned.withheld, "write /root/.ssh/known"));
    assert_true(mentions(fixture.learned.withheld, "write /proc/self/oom_score_adj"));
    assert_false(mentions(fixture.learned.withheld, "write /dev/null"));
    end(&fixture);
}

static void siblings_of_a_sensitive_parent_stay_apart(void **state) {
    (void)state;
    static const char *const homes[] = {"/home/a", "/home/b", "/home/c", "/home/d"};
    struct fixture fixture;
    start(&fixture, "");
    for (size_t i = 0; i < 4; i++)
        pin_recording_path(&fixture.recording, homes[i],
                           PIN_USE_WRITE | PIN_USE_MISSING | PIN_USE_NEW | PIN_USE_FOLDER);
    assert_json(part(learn(&fixture), "filesystem", "write"),
                "[\"/home/a\",\"/home/b\",\"/home/c\",\"/home/d\"]");
    end(&fixture);
}

static void host_files_are_proposed_and_secrets_of_the_host_are_not(void **state) {
    (void)state;
    struct fixture fixture;
    start(&fixture, "");
    pin_recording_path(&fixture.recording, "/srv/models/a.bin", PIN_USE_READ | PIN_USE_MISSING);
    pin_recording_path(&fixture.recording, "/etc/shadow", PIN_USE_READ | PIN_USE_MISSING);
    pin_recording_path(&fixture.recording, "/run/docker.sock", PIN_USE_CONNECT | PIN_USE_MISSING);
    pin_recording_path(&fixture.recording, "/usr/share/x", PIN_USE_READ | PIN_USE_MISSING);
    assert_json(part(learn(&fixture), "filesystem", "mounts"), "[]");
    assert_int_equal(json_array_size(fixture.learned.wanted), 1);
    assert_true(mentions(fixture.learned.wanted, "read /srv/models/a.bin"));
    assert_true(mentions(fixture.learned.withheld, "read /etc/shadow"));
    assert_true(mentions(fixture.learned.withheld, "read /run/docker.sock"));
    end(&fixture);
}

static void what_of_the_base_was_used_is_kept_and_narrowed(void **state) {
    (void)state;
    struct fixture fixture;
    start(&fixture, "\"filesystem\": {\"mounts\": [{\"source\": \"/srv/a\", \"target\": \"/a\", \"access\": "
                    "\"read-write\"}, {\"source\": \"/srv/b\", \"target\": \"/b\"}]}");
    pin_recording_path(&fixture.recording, "/a/x", PIN_USE_READ);
    pin_recording_path(&fixture.recording, "/workspace/x", PIN_USE_READ);
    fixture.trace.workspace = PIN_ACCESS_WRITE;
    const json_t *policy = learn(&fixture);
    assert_json(part(policy, "filesystem", "mounts"),
                "[{\"source\":\"/srv/a\",\"target\":\"/a\",\"access\":\"read-only\"}]");
    assert_json(part(policy, "filesystem", "workspace"), "{\"access\":\"read-only\"}");
    end(&fixture);
}

static void destinations_become_rules_without_wildcards(void **state) {
    (void)state;
    const struct pin_recorded_target targets[] = {
        {.host = "a.test", .port = 443,     .reached = true, .count = 1},
        {.host = "a.test",      .port = 80,                     .reached = true, .count = 1},
        {.host = "b.test", .port = 53,.protocol = PIN_PROTOCOL_UDP, .reached = true, .count = 1},
        {.host = "c.test",                .count = 3               },
    };
    struct fixture fixture;
    start(&fixture, "");
    for (size_t i = 0; i < 4; i++)
        pin_recording_target(&fixture.recording, &targets[i]);
    assert_json(part(learn(&fixture), "network", "egress"),
                "[{\"host\":\"a.test\",\"ports\":[80,443],\"protocol\":\"tcp\"},"
                "{\"host\":\"b.test\",\"ports\":[53],\"protocol\":\"udp\"}]");
    assert_int_equal(json_array_size(fixture.learned.wanted), 1);
    end(&fixture);
}

static void limits_leave_room_above_the_peak(void **state) {
    (void)state;
    struct fixture fixture;
    start(&fixture, "");
    fixture.recording.peaks.memory_bytes = 100 * 1024 * 1024;
    fixture.recording.peaks.pids = 9;
    fixture.recording.peaks.wall_ns = UINT64_C(7000000000);
    const json_t *policy = learn(&fixture);
    assert_json(part(policy, "resources", "memory"), "\"256MiB\"");
    assert_json(part(policy, "resources", "pids"), "24");
    assert_json(part(policy, "resources", "wall_time"), "\"30s\"");
    end(&fixture);
}

/* Whatever is recorded, the learned policy is one that its reader takes. */
static void any_recording_gives_a_policy(void **state) {
    (void)state;
    static const char *const parts[] = {
        "/",      "/a",      "/a/b",         "/tmp",    "/dev/shm/x", "/home/u/.ssh",     "/x y",
        "/\\xff", "/proc/1", "/workspace/f", "/a/../b", "/etc/x",     "/var/lib/docker/x"};
    unsigned random = 1;
    for (int round = 0; round < 300; round++) {
        struct fixture fixture;
        start(&fixture, "");
        for (int i = 0; i < 20; i++) {
            random = random * 1103515245 + 12345;
            pin_recording_path(&fixture.recording, parts[(random >> 16) % 13], (random >> 8) & 0xff);
            call(&fixture, pin_syscalls[(random >> 12) % pin_syscalls_count].name, random & 0xff,
                 (random & 0x10000) != 0);
        }
        (void)learn(&fixture);
        json_decref(pin_trace_would_deny(&fixture.trace));
        json_decref(pin_trace_unused(&fixture.trace));
        end(&fixture);
    }
}

static const json_t *find(const json_t *list, const char *key, const char *value) {
    const json_t *item;
    size_t i;
    json_array_foreach(list, i, item) if (strcmp(json_string_value(json_object_get(item, key)), value) ==
                                          0) return item;
    return NULL;
}

static void denials_come_with_the_answer_of_why(void **state) {
    (void)state;
    const struct pin_recorded_target evil = {.host = "evil.test", .count = 2},
                                     good = {.host = "api.test", .count = 1};
    struct fixture fixture;
    start(&fixture, "\"syscalls\": {\"baseline\": \"strict\"}, \"resources\": {\"pids\": 4}, "
                    "\"network\": {\"egress\": [{\"host\": \"api.test\", \"ports\": [443]}]}");
    call(&fixture, "socket", 2, false);
    call(&fixture, "read", 2, false);
    call(&fixture, "mount", 0, true);
    pin_recording_path(&fixture.recording, "/data/x", PIN_USE_WRITE);
    pin_recording_path(&fixture.recording, "/tmp/x", PIN_USE_WRITE);
    pin_recording_target(&fixture.recording, &evil);
    pin_recording_target(&fixture.recording, &good);
    fixture.recording.peaks.pids = 5;
    json_t *list = pin_trace_would_deny(&fixture.trace);
    const json_t *socket = find(list, "verdict", "errno");
    assert_non_null(socket);
    assert_json(json_object_get(find(list, "question", "write /data/x"), "edit"),
                "{\"filesystem\":{\"write\":{\"add\":[\"/data\"]}}}");
    assert_json(json_object_get(find(list, "question", "limit pids 5"), "edit"),
                "{\"resources\":{\"pids\":5}}");
    assert_non_null(find(list, "question", "connect evil.test:443"));
    assert_null(find(list, "question", "connect api.test:443"));
    assert_null(find(list, "question", "write /tmp/x"));
    assert_int_equal(json_array_size(list), 5);
    json_decref(list);
    end(&fixture);
}

static void grants_that_were_not_used_are_found_and_used_ones_are_not(void **state) {
    (void)state;
    const struct pin_recorded_target used = {.host = "api.test", .port = 443, .reached = true, .count = 1};
    struct fixture fixture;
    start(&fixture,
          "\"syscalls\": {\"allow\": [\"setuid\", \"@ipc\"]}, \"filesystem\": {\"write\": [\"/tmp\", "
          "\"/data\"]}, \"secrets\": [\"A\", \"B\"], \"network\": {\"egress\": [{\"host\": "
          "\"api.test\", \"ports\": [443]}, {\"host\": \"*.files.test\", \"ports\": [443]}]}");
    static const char *const secrets[] = {"A:file"};
    call(&fixture, "msgget", 0, false);
    pin_recording_path(&fixture.recording, "/tmp/x", PIN_USE_WRITE);
    pin_recording_path(&fixture.recording, "/data/x", PIN_USE_READ);
    pin_recording_target(&fixture.recording, &used);
    fixture.trace.secrets = secrets;
    fixture.trace.secret_count = 1;
    json_t *list = pin_trace_unused(&fixture.trace);
    static const char *const expected[] = {"/syscalls/allow/0",   "/syscalls/baseline",
                                           "/filesystem/write/1", "/filesystem/workspace/access",
                                           "/network/egress/1",   "/secrets/1"};
    for (size_t i = 0; i < sizeof(expected) / sizeof(expected[0]); i++)
        if (find(list, "rule", expected[i]) == NULL)
            fail_msg("%s is missing", expected[i]);
    assert_null(find(list, "rule", "/syscalls/allow/1"));
    assert_null(find(list, "rule", "/filesystem/write/0"));
    assert_null(find(list, "rule", "/network/egress/0"));
    assert_null(find(list, "rule", "/secrets/0"));
    json_decref(list);
    end(&fixture);
}

static void widening_keeps_below_the_site(void **state) {
    (void)state;
    struct pin_policy
        *policy = policy_named("tool"),
        *site = policy_of(
            "\"resources\": {\"memory\": \"1GiB\", \"pids\": 100}, \"filesystem\": {\"root\": \"read-only\", "
            "\"workspace\": {\"access\": \"read-only\"}}");
    pin_trace_widen(policy, site, false);
    assert_int_equal(policy->resources.memory_bytes, 1 << 30);
    assert_int_equal(policy->resources.pids, 100);
    assert_int_equal(policy->filesystem.root, PIN_ROOT_READ_ONLY);
    assert_int_equal(policy->filesystem.workspace, PIN_ACCESS_READ);
    assert_int_equal(policy->network.egress_count, 1);
    assert_string_equal(policy->network.egress[0].host, "nothing.invalid");
    pin_policy_free(policy);
    pin_policy_free(site);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_smallest_baseline_is_taken),
        cmocka_unit_test(calls_that_no_policy_allows_are_named_and_not_granted),
        cmocka_unit_test(a_denial_of_the_base_goes_only_where_it_is_in_the_way),
        cmocka_unit_test(writes_become_folders_and_sensitive_ones_are_withheld),
        cmocka_unit_test(siblings_of_a_sensitive_parent_stay_apart),
        cmocka_unit_test(host_files_are_proposed_and_secrets_of_the_host_are_not),
        cmocka_unit_test(what_of_the_base_was_used_is_kept_and_narrowed),
        cmocka_unit_test(destinations_become_rules_without_wildcards),
        cmocka_unit_test(limits_leave_room_above_the_peak),
        cmocka_unit_test(any_recording_gives_a_policy),
        cmocka_unit_test(denials_come_with_the_answer_of_why),
        cmocka_unit_test(grants_that_were_not_used_are_found_and_used_ones_are_not),
        cmocka_unit_test(widening_keeps_below_the_site),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
