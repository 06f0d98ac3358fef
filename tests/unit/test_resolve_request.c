#include "bundle_fixture.h"

static const char policy_text[] =
    "{\n"
    "\"pinfold\": 1, \"name\": \"small\",\n"
    "\"images\": [\"host\", \"python-*\", {\"pattern\": \"signed\", \"require_signature\": true, \"keys\": "
    "[\"/k.pem\"]}],\n"
    "\"filesystem\": {\"workspace\": {\"access\": \"copy-on-write\"}},\n"
    "\"resources\": {\"memory\": \"512MiB\", \"cpus\": 1, \"pids\": 64, \"wall_time\": \"30s\"},\n"
    "\"tty\": false, \"frames\": [\"fd\"],\n"
    "\"environment\": {\"refuse\": [\"LD_*\"]},\n"
    "\"secrets\": [\"KEY\"], \"audit\": {\"require_labels\": [\"tenant\"]}\n"
    "}\n";

static const struct pin_pair tenant[] = {
    {"tenant", "blue"}
};

/* A request that the policy above grants. */
static struct pin_request granted_request(void) {
    struct pin_request request = plain_request();
    request.labels = tenant;
    request.label_count = 1;
    return request;
}

struct refusal {
    const char *pointer, *message;
    enum pin_error_kind kind;
    struct pin_request request; /* over the granted one, where a field is set */
};

static struct pin_request merge(const struct pin_request *over) {
    struct pin_request request = *over;
    if (request.arg_count == 0) {
        request.args = true_args;
        request.arg_count = 1;
    }
    if (request.labels == NULL) {
        request.labels = tenant;
        request.label_count = 1;
    }
    return request;
}

static const struct pin_pair other_label[] = {
    {"team", "x"}
};
static const struct pin_pair odd_label[] = {
    {"tenant", "x"},
    {"a b",    "x"}
};
static const struct pin_pair preload[] = {
    {"LD_PRELOAD", "x.so"}
};
static const struct pin_pair odd_name[] = {
    {"A=B", "x"}
};
static const char *const destinations[] = {"example.com:443"};
static const char *const key[] = {"KEY"}, *const other_key[] = {"OTHER:file"}, *const odd_key[] = {"KEY:x"},
                         *const hidden_key[] = {"KEY:env=LD_AUDIT"};

/* Macros, as clang-format would pad rows of braces to the width of the widest. */
#define ROW(...)                                                                                             \
    { __VA_ARGS__ }
#define ASK(...)                                                                                             \
    { __VA_ARGS__ }

static const struct refusal refusals[] = {
    ROW("small.json:5:25 /resources/memory", "--memory 2GiB is more than the policy's 512MiB",
        PIN_ERROR_REFUSED, ASK(.has_memory = true, .memory_bytes = UINT64_C(2) << 30)),
    ROW("/resources/memory", "--memory unlimited is more than the policy's 512MiB", PIN_ERROR_REFUSED,
        ASK(.has_memory = true, .memory_bytes = PIN_UNLIMITED)),
    ROW("--memory", "--memory 0 leaves", PIN_ERROR_INVALID, ASK(.has_memory = true)),
    ROW("/resources/cpus", "--cpus 1.500 is more than the policy's 1", PIN_ERROR_REFUSED,
        ASK(.has_cpus = true, .millicpus = 1500)),
    ROW("/resources/pids", "--pids 65 is more than the policy's 64", PIN_ERROR_REFUSED,
        ASK(.has_pids = true, .pids = 65)),
    ROW("/resources/wall_time", "--timeout 31s is more than the policy's 30s", PIN_ERROR_REFUSED,
        ASK(.has_wall_time = true, .wall_time_ns = UINT64_C(31000000000))),
    ROW("/filesystem/workspace/access", "asks for a read-write one", PIN_ERROR_REFUSED,
        ASK(.workspace = {.source = "/w", .access = PIN_ACCESS_WRITE})),
    ROW("--workspace", "is not an absolute path", PIN_ERROR_INVALID, ASK(.workspace = {.source = "w"})),
    ROW("--on-exit", "copy-on-write", PIN_ERROR_USAGE,
        ASK(.workspace = {.source = "/w", .access = PIN_ACCESS_READ, .on_exit = PIN_ON_EXIT_MERGE})),
    ROW("/tty", "--tty asks for a terminal", PIN_ERROR_REFUSED, ASK(.tty = true)),
    ROW("/frames", "--frames", PIN_ERROR_REFUSED, ASK(.has_frames = true, .frames = PIN_FRAMES_STDOUT)),
    ROW("/audit/require_labels", "requires the label 'tenant'", PIN_ERROR_REFUSED,
        ASK(.labels = other_label, .label_count = 1)),
    ROW("--label", "'a b' is no label's name", PIN_ERROR_INVALID, ASK(.labels = odd_label, .label_count = 2)),
    ROW("/environment/refuse", "refuses the variable 'LD_PRELOAD' ('LD_*')", PIN_ERROR_REFUSED,
        ASK(.env = preload, .env_count = 1)),
    ROW("--env", "'A=B' is no variable's name", PIN_ERROR_INVALID, ASK(.env = odd_name, .env_count = 1)),
    ROW("/images", "doesn't list the image 'node'", PIN_ERROR_REFUSED, ASK(.image = "node")),
    ROW("/images", "requires a signature of the image 'signed'", PIN_ERROR_REFUSED, ASK(.image = "signed")),
    ROW("/identity/user", "", PIN_ERROR_REFUSED, ASK(.has_user = true, .user = 0)),
    ROW("--cwd", "is not absolute", PIN_ERROR_INVALID, ASK(.cwd = "tmp")),
    ROW("--hostname", "no host name", PIN_ERROR_INVALID, ASK(.hostname = "a b")),
    ROW("/network/egress/0", "example.com", PIN_ERROR_REFUSED,
        ASK(.egress = destinations, .egress_count = 1)),
    ROW("--secret", "isn't in this build", PIN_ERROR_UNSUPPORTED, ASK(.secrets = key, .secret_count = 1)),
    ROW("/secrets/0", "OTHER", PIN_ERROR_REFUSED,
        ASK(.secrets = other_key, .secret_count = 1, .hands_secrets = true)),
    ROW("--secret", "no way to hand it over", PIN_ERROR_USAGE,
        ASK(.secrets = odd_key, .secret_count = 1, .hands_secrets = true)),
    ROW("/environment/refuse", "refuses the variable 'LD_AUDIT'", PIN_ERROR_REFUSED,
        ASK(.secrets = hidden_key, .secret_count = 1, .hands_secrets = true)),
};

static struct pin_policy *small_policy(void) {
    static struct pin_findings found;
    memset(&found, 0, sizeof(found));
    struct pin_policy *policy = pin_policy_parse("small.json", policy_text, strlen(policy_text), &found);
    print_findings(&found);
    assert_non_null(policy);
    return policy;
}

static void labels_are_required_for_what_is_asked_for(void **state) {
    (void)state;
    static const char text[] = "{\"pinfold\": 1, \"secrets\": [\"KEY\"], \"network\": {\"egress\": "
                               "[{\"host\": \"a.test\", \"ports\": "
                               "[443]}]}, \"audit\": {\"require_labels_for\": {\"secrets\": [\"tenant\"], "
                               "\"egress\": [\"ticket\"]}}}";
    static const struct pin_pair ticket =
                                     {
                                         "ticket", "1"
    },
                                 both[] = {{"ticket", "1"}, {"tenant", "a"}};
    static struct pin_findings found;
    struct pin_policy *policy = pin_policy_parse("small.json", text, strlen(text), &found);
    assert_non_null(policy);
    const struct {
        struct pin_request request;
        const char *refused; /* the list's pointer; NULL: granted */
    } rows[] = {
        {{.labels = &ticket, .label_count = 1},                                    NULL                              },
        {{.labels = NULL},                                                         "/audit/require_labels_for/egress"},
        {{.labels = &ticket, .label_count = 1, .secrets = key, .secret_count = 1},
         "/audit/require_labels_for/secrets"                                                                         },
        {{.labels = both, .label_count = 2, .secrets = key, .secret_count = 1},    NULL                              },
    };
    for (size_t i = 0; i < PIN_COUNT(rows); i++) {
        struct pin_request request = rows[i].request;
        memset(&found, 0, sizeof(found));
        request.args = true_args;
        request.arg_count = 1;
        request.hands_secrets = true;
        struct pin_policy *effective = pin_request_narrow(policy, &request, &found);
        assert_int_equal(effective == NULL, rows[i].refused != NULL);
        if (rows[i].refused != NULL)
            assert_non_null(finding_at(&found, rows[i].refused));
        pin_policy_free(effective);
    }
    pin_policy_free(policy);
}

static void what_the_policy_does_not_grant_is_refused_by_name(void **state) {
    (void)state;
    struct pin_policy *policy = small_policy();
    for (size_t i = 0; i < PIN_COUNT(refusals); i++) {
        static struct pin_findings found;
        memset(&found, 0, sizeof(found));
        struct pin_request request = merge(&refusals[i].request);
        struct pin_policy *effective = pin_request_narrow(policy, &request, &found);
        const struct pin_error *err = finding_at(&found, refusals[i].pointer);
        if (effective != NULL || found.count != 1 || err == NULL || err->kind != refusals[i].kind ||
            strstr(err->message, refusals[i].message) == NULL || err->hint[0] == '\0') {
            print_findings(&found);
            fail_msg("row %zu: expected one finding at %s: %s", i, refusals[i].pointer, refusals[i].message);
        }
    }
    pin_policy_free(policy);
}

static void all_that_is_refused_is_named_at_once(void **state) {
    (void)state;
    static struct pin_findings found;
    struct pin_policy *policy = small_policy();
    struct pin_request request = {.has_memory = true,
                                  .memory_bytes = PIN_UNLIMITED,
                                  .has_pids = true,
                                  .pids = 99,
                                  .tty = true,
                                  .image = "node"};
    memset(&found, 0, sizeof(found));
    assert_null(pin_request_narrow(policy, &request, &found));
    assert_int_equal(found.count, 6); /* these four, the label, and no command */
    pin_policy_free(policy);
}

static void what_is_granted_narrows(void **state) {
    (void)state;
    static struct pin_findings found;
    memset(&found, 0, sizeof(found));
    struct pin_policy *policy = small_policy();
    struct pin_request request = granted_request();
    request.has_memory = request.has_cpus = request.has_pids = request.has_wall_time = true;
    request.memory_bytes = 1 << 20;
    request.millicpus = 250;
    request.pids = 64; /* as much as there is */
    request.wall_time_ns = 5;
    request.workspace.source = "/w";
    struct pin_policy *effective = pin_request_narrow(policy, &request, &found);
    print_findings(&found);
    assert_non_null(effective);
    assert_int_equal(effective->resources.memory_bytes, 1 << 20);
    assert_int_equal(effective->resources.millicpus, 250);
    assert_int_equal(effective->resources.pids, 64);
    assert_int_equal(effective->resources.wall_time_ns, 5);
    assert_int_equal(effective->filesystem.workspace, PIN_ACCESS_COW); /* the most that is granted */
    assert_int_equal(policy->resources.memory_bytes, 512 << 20);
    assert_memory_equal(effective->digest, policy->digest, sizeof(policy->digest));
    pin_policy_free(effective);
    pin_policy_free(policy);
}

static void images_match_by_pattern_digest_and_signature(void **state) {
    (void)state;
    static struct pin_findings found;
    struct pin_policy *policy = small_policy();
    struct pin_request request = granted_request();
    static const struct {
        const char *image;
        bool is_signed;
    } rows[] = {
        {NULL,          false},
        {"host",        false},
        {"python-3.12", false},
        {"signed",      true },
    };
    for (size_t i = 0; i < PIN_COUNT(rows); i++) {
        memset(&found, 0, sizeof(found));
        request.image = rows[i].image;
        request.image_signed = rows[i].is_signed;
        struct pin_policy *effective = pin_request_narrow(policy, &request, &found);
        print_findings(&found);
        assert_non_null(effective);
        pin_policy_free(effective);
    }
    pin_policy_free(policy);
}

/* execve(2) would refuse them after everything was built. */
static void strings_that_can_not_be_executed_are_refused_before(void **state) {
    (void)state;
    static struct pin_findings found;
    static char large[PIN_REQUEST_STRINGS_BYTES + 1];
    memset(large, 'x', sizeof(large) - 1);
    struct pin_policy *policy = small_policy();
    struct pin_request request = granted_request();
    const char *const args[] = {"echo", large};
    request.args = args;
    request.arg_count = 2;
    memset(&found, 0, sizeof(found));
    assert_null(pin_request_narrow(policy, &request, &found));
    assert_non_null(finding_at(&found, "command"));
    pin_policy_free(policy);
}

static void a_policy_that_asks_for_what_is_not_built_is_refused(void **state) {
    (void)state;
    static struct pin_findings found;
    static const char *const bodies[] = {
        "\"audit\": {\"record\": [\"lifecycle\"]}", /* no front door that writes it */
    };
    for (size_t i = 0; i < PIN_COUNT(bodies); i++) {
        struct pin_policy *policy = body(bodies[i]);
        struct pin_request request = plain_request();
        memset(&found, 0, sizeof(found));
        assert_null(pin_request_narrow(policy, &request, &found));
        assert_int_equal(found.count, 1);
        assert_int_equal(found.list[0].kind, PIN_ERROR_UNSUPPORTED);
        pin_policy_free(policy);
    }
}

static void what_is_recorded_depends_on_the_front_door(void **state) {
    (void)state;
    static struct pin_findings found;
    static const struct {
        const char *body;
        bool granted;
    } cases[] = {
        {"\"audit\": {\"record\": [\"lifecycle\", \"egress\"]}", true },
        {"\"audit\": {\"record\": [\"syscalls\"]}",              false},
    };
    for (size_t i = 0; i < PIN_COUNT(cases); i++) {
        struct pin_policy *policy = body(cases[i].body);
        struct pin_request request = plain_request();
        request.records = true;
        memset(&found, 0, sizeof(found));
        struct pin_policy *effective = pin_request_narrow(policy, &request, &found);
        assert_int_equal(effective != NULL, cases[i].granted);
        assert_int_equal(pin_found_any(&found), !cases[i].granted);
        pin_policy_free(effective);
        pin_policy_free(policy);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(labels_are_required_for_what_is_asked_for),
        cmocka_unit_test(what_the_policy_does_not_grant_is_refused_by_name),
        cmocka_unit_test(all_that_is_refused_is_named_at_once),
        cmocka_unit_test(what_is_granted_narrows),
        cmocka_unit_test(images_match_by_pattern_digest_and_signature),
        cmocka_unit_test(strings_that_can_not_be_executed_are_refused_before),
        cmocka_unit_test(a_policy_that_asks_for_what_is_not_built_is_refused),
        cmocka_unit_test(what_is_recorded_depends_on_the_front_door),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
