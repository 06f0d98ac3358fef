/* An engine's bundle and the policy above it, without a kernel: what is granted, and what each field is
 * refused for. The same on real containers is tests/integration/test_oci_ceiling.py. */
#include "bundle_fixture.h"

#include "policy/policy_read.h"
#include "runtime/bundle/engine_law.h"

#define FILTER                                                                                               \
    "\"seccomp\": {\"defaultAction\": \"SCMP_ACT_ERRNO\", \"syscalls\": [{\"names\": [\"read\"], "           \
    "\"action\": \"SCMP_ACT_ALLOW\"}]}"
#define SPACES "{\"type\": \"pid\"}, {\"type\": \"ipc\"}, {\"type\": \"uts\"}, {\"type\": \"mount\"}"
#define BUNDLE(more, linux_more)                                                                             \
    "{\"ociVersion\": \"1.0.2\", \"process\": {\"args\": [\"x\"], \"cwd\": \"/\", \"user\": {\"uid\": 0, "   \
    "\"gid\": 0}},"                                                                                          \
    "\"root\": {\"path\": \"rootfs\"}" more ", \"linux\": {\"namespaces\": [" SPACES linux_more "]," FILTER  \
    "}}"
#define OWN_NETWORK ", {\"type\": \"network\"}"

static const struct pin_engine_caller host = {.on_host = true, .has_broker = true};

static struct pin_bundle *bundle_of(const char *text) {
    static struct pin_findings found;
    memset(&found, 0, sizeof(found));
    struct pin_bundle *bundle = pin_bundle_parse("config.json", text, strlen(text), &found);
    print_findings(&found);
    assert_non_null(bundle);
    return bundle;
}

static struct pin_policy *policy_of(const char *fields) {
    static struct pin_findings found;
    char text[1024];
    memset(&found, 0, sizeof(found));
    (void)snprintf(text, sizeof(text), "{\"pinfold\": 1, \"extends\": [\"oci\"]%s}", fields);
    struct pin_policy *policy = pin_policy_parse("test.json", text, strlen(text), &found);
    print_findings(&found);
    assert_non_null(policy);
    return policy;
}

/* The pointer of the first finding; "" where all is granted. */
static const char *refusal(const char *text, const char *fields, const struct pin_engine_caller *caller) {
    static struct pin_findings found;
    memset(&found, 0, sizeof(found));
    struct pin_bundle *bundle = bundle_of(text);
    struct pin_policy *policy = policy_of(fields);
    bool ok = pin_bundle_admit_engine(bundle, policy, caller, &found);
    assert_int_equal(ok, found.count == 0);
    pin_policy_free(policy);
    pin_bundle_free(bundle);
    return found.count > 0 ? found.list[0].pointer : "";
}

static void what_engines_send_is_granted_with_the_policys_filter_beside_its_own(void **state) {
    (void)state;
    static struct pin_findings found;
    struct pin_bundle *bundle = bundle_of(BUNDLE("", OWN_NETWORK));
    struct pin_policy *policy = policy_of("");
    assert_true(pin_bundle_admit_engine(bundle, policy, &host, &found));
    assert_true(bundle->seccomp.present && bundle->ceiling_filter.present);
    assert_int_equal(bundle->ext.egress_count, 0);
    pin_policy_free(policy);
    pin_bundle_free(bundle);
}

static void a_namespace_of_the_hosts_is_granted_where_the_policy_shares_it(void **state) {
    (void)state;
    assert_string_equal(refusal(BUNDLE("", ""), "", &host), "/engine/shares");
    assert_string_equal(
        refusal(BUNDLE("", ""), ", \"engine\": {\"shares\": {\"add\": [\"network\"]}}", &host), "");
    assert_string_equal(
        refusal(BUNDLE("", OWN_NETWORK), ", \"engine\": {\"shares\": {\"remove\": [\"user\"]}}", &host),
        "/engine/shares");
}

static void an_engine_in_a_user_namespace_shares_no_ids_of_the_hosts(void **state) {
    (void)state;
    const struct pin_engine_caller user = {.on_host = false};
    assert_string_equal(
        refusal(BUNDLE("", OWN_NETWORK), ", \"engine\": {\"shares\": {\"remove\": [\"user\"]}}", &user), "");
}

#define ASKS(rules) BUNDLE(", \"annotations\": {\"io.pinfold.egress\": \"" rules "\"}", OWN_NETWORK)
#define GRANTS ", \"network\": {\"egress\": [{\"host\": \"*.example.com\", \"ports\": [443]}]}"

static void egress_is_asked_for_in_plain_words_and_granted_by_the_policy(void **state) {
    (void)state;
    assert_string_equal(refusal(ASKS("api.example.com:443"), GRANTS, &host), "");
    assert_string_equal(refusal(ASKS("a.example.com:443 b.example.com:443"), GRANTS, &host), "");
    assert_string_equal(refusal(ASKS("api.example.com:80"), GRANTS, &host), "/network/egress/0");
    assert_string_equal(refusal(ASKS("api.example.com:443/udp"), GRANTS, &host), "/network/egress/0");
    assert_string_equal(refusal(ASKS("api.example.com:443"), "", &host), "/network/egress/0");
    const struct pin_engine_caller alone = {.on_host = true};
    assert_string_equal(refusal(ASKS("api.example.com:443"), GRANTS, &alone),
                        "config.json /annotations/io.pinfold.egress");
}

static void a_group_is_granted_where_the_policy_lets_it_be(void **state) {
    static const struct {
        const char *path, *fields, *refusal;
    } rows[] = {
        {NULL,                              "",                                                   ""                              },
        {"/docker/abc",                     "",                                                   ""                              },
        {"/machine.slice/libpod-abc.scope", "",                                                   ""                              },
        {"/machine.slice/sshd.service",     "",                                                   "/engine/cgroups/0"             },
        {"/system.slice/sshd.service",      "",                                                   "/engine/cgroups/0"             },
        {"/dockers",                        "",                                                   "/engine/cgroups/0"             },
        {"/own/abc",                        "",                                                   "/engine/cgroups/0"             },
        {"/own/abc",                        ", \"engine\": {\"cgroups\": {\"add\": [\"/own\"]}}", ""                              },
        {"/docker/abc",                     ", \"engine\": {\"cgroups\": []}",                    "/engine/cgroups/0"             },
        {"/docker/../system.slice/x",       "",                                                   "config.json /linux/cgroupsPath"},
        {"/docker//x",                      "",                                                   "config.json /linux/cgroupsPath"},
    };
    (void)state;
    for (size_t i = 0; i < PIN_COUNT(rows); i++) {
        struct pin_engine_caller caller = host;
        caller.cgroup = rows[i].path;
        assert_string_equal(refusal(BUNDLE("", OWN_NETWORK), rows[i].fields, &caller), rows[i].refusal);
    }
}

static void a_group_in_the_engines_own_unit_needs_no_grant(void **state) {
    static const struct {
        const char *own, *path;
        bool granted;
    } rows[] = {
        {"/system.slice/web.service",         "/system.slice/web.service/libpod-payload-abc",       true },
        {"/system.slice/web.service/runtime", "/system.slice/web.service/libpod-payload-abc",       true },
        {"/user.slice/session-1.scope",       "/user.slice/session-1.scope/libpod-payload-abc",     true },
        {"/u/user@1.service/app/web.service", "/u/user@1.service/app/web.service/libpod-payload-a", true },
        {"/u/user@1.service/app/web.service", "/u/user@1.service/libpod-payload-a",                 false},
        {"/system.slice/web.service",         "/system.slice/sshd.service/libpod-payload-abc",      false},
        {"/system.slice/web.service",         "/system.slice/web.service2/libpod-payload-abc",      false},
        {"/system.slice/web.service",         "/system.slice/web.service",                          false},
        {"/system.slice/web.service",         "/system.slice/web.service/abc",                      false},
        {"/system.slice/web.service",         "/system.slice/web.service/libpod-payload-abc/abc",   false},
        {"/system.slice/web.service",         "/system.slice/web.service/x/libpod-payload-abc",     false},
        {"/system.slice",                     "/system.slice/libpod-payload-abc",                   false},
        {"/.service",                         "/.service/libpod-payload-abc",                       false},
        {"/",                                 "/libpod-payload-abc",                                false},
        {"",                                  "/libpod-payload-abc",                                false},
        {NULL,                                "/system.slice/web.service/libpod-payload-abc",       false},
    };
    (void)state;
    for (size_t i = 0; i < PIN_COUNT(rows); i++) {
        struct pin_engine_caller caller = host;
        caller.own = rows[i].own;
        caller.cgroup = rows[i].path;
        assert_string_equal(refusal(BUNDLE("", OWN_NETWORK), "", &caller),
                            rows[i].granted ? "" : "/engine/cgroups/0");
    }
}

#define ANNOTATED(name) BUNDLE(", \"annotations\": {\"org.systemd.property." name "\": \"5\"}", OWN_NETWORK)

static void a_unit_has_no_property_that_reaches_others(void **state) {
    (void)state;
    struct pin_engine_caller systemd = host;
    systemd.systemd = true;
    assert_string_equal(refusal(ANNOTATED("TimeoutStopSec"), "", &systemd), "");
    assert_string_equal(refusal(ANNOTATED("Wants"), "", &systemd), "config.json /annotations");
    assert_string_equal(refusal(ANNOTATED("Wants"), "", &host), ""); /* without systemd it means nothing */
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_engines_send_is_granted_with_the_policys_filter_beside_its_own),
        cmocka_unit_test(a_namespace_of_the_hosts_is_granted_where_the_policy_shares_it),
        cmocka_unit_test(an_engine_in_a_user_namespace_shares_no_ids_of_the_hosts),
        cmocka_unit_test(egress_is_asked_for_in_plain_words_and_granted_by_the_policy),
        cmocka_unit_test(a_group_is_granted_where_the_policy_lets_it_be),
        cmocka_unit_test(a_group_in_the_engines_own_unit_needs_no_grant),
        cmocka_unit_test(a_unit_has_no_property_that_reaches_others),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
