/* What is written can be read again and is the same; what differs in a sandbox differs in its fingerprint. */
#include "bundle_fixture.h"

#include "runtime/bundle/bundle_places.h"

#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>

#include "base/cleanup.h"
#include "base/io.h"
#include "runtime/bundle/bundle_ceiling.h"

static const char *const profiles[] = {"strict", "tool", "build", "oci"};

static struct pin_policy *profile(const char *name) {
    static struct pin_findings found;
    memset(&found, 0, sizeof(found));
    struct pin_policy *policy = pin_policy_load(name, &found);
    print_findings(&found);
    assert_non_null(policy);
    return policy;
}

static const struct pin_pair variables[] = {
    {"ODD", "\x01\"\\/\n\x7f \xc3\xa9 = x"},
    {"A",   "1"                           },
};
static const struct pin_pair labels[] = {
    {"tenant", "blue"}
};

/* Requests of every shape that the policy grants. */
static size_t shapes(const struct pin_policy *policy, struct pin_request *requests) {
    size_t count = 0;
    requests[count++] = plain_request();
    requests[count] = plain_request();
    requests[count].env = variables;
    requests[count].env_count = PIN_COUNT(variables);
    requests[count].labels = labels;
    requests[count++].label_count = PIN_COUNT(labels);
    for (enum pin_access access = PIN_ACCESS_READ; access <= policy->filesystem.workspace; access++) {
        requests[count] = plain_request();
        requests[count].workspace.source = "/srv/project";
        requests[count].workspace.access = access;
        if (access == PIN_ACCESS_COW)
            requests[count].workspace.on_exit = PIN_ON_EXIT_KEEP;
        count++;
    }
    if (policy->tty) {
        requests[count] = plain_request();
        requests[count].rows = 50;
        requests[count].columns = 132;
        requests[count++].tty = true;
    }
    return count;
}

static void what_is_written_is_read_as_the_same(void **state) {
    (void)state;
    static struct pin_findings found;
    for (size_t i = 0; i < PIN_COUNT(profiles); i++) {
        struct pin_policy *policy = profile(profiles[i]);
        struct pin_request requests[8];
        for (size_t j = shapes(policy, requests); j-- > 0;) {
            struct pin_bundle *bundle = resolved(policy, &requests[j]);
            char *text = printed(bundle);
            memset(&found, 0, sizeof(found));
            struct pin_bundle *again = pin_bundle_parse("config.json", text, strlen(text), &found);
            print_findings(&found);
            assert_non_null(again);
            char *twice = printed(again);
            assert_string_equal(text, twice);
            free(text);
            free(twice);
            pin_bundle_free(again);
            pin_bundle_free(bundle);
        }
        pin_policy_free(policy);
    }
}

/* An exported bundle, run again under its own policy, gives the same sandbox. */
static void what_was_exported_is_admitted_unchanged(void **state) {
    (void)state;
    static struct pin_findings found;
    for (size_t i = 0; i < PIN_COUNT(profiles); i++) {
        struct pin_policy *policy = profile(profiles[i]);
        struct pin_request requests[8], nothing = {0};
        for (size_t j = shapes(policy, requests); j-- > 0;) {
            struct pin_bundle *bundle = resolved(policy, &requests[j]);
            char *text = printed(bundle);
            memset(&found, 0, sizeof(found));
            struct pin_bundle *again = pin_bundle_parse("config.json", text, strlen(text), &found);
            nothing.workspace = requests[j].workspace; /* which directory, only the request may say */
            bool admitted = again != NULL && pin_bundle_admit(again, policy, &nothing, &found);
            print_findings(&found);
            assert_true(admitted);
            char *twice = printed(again);
            assert_string_equal(text, twice);
            free(text);
            free(twice);
            pin_bundle_free(again);
            pin_bundle_free(bundle);
        }
        pin_policy_free(policy);
    }
}

static void what_is_no_utf8_can_not_be_written(void **state) {
    (void)state;
    const char *const args[] = {"echo", "\xff"};
    struct pin_policy *policy = profile("tool");
    struct pin_request request = {.args = args, .arg_count = 2};
    struct pin_bundle *bundle = resolved(policy, &request);
    struct pin_error err = {0};
    size_t size;
    assert_null(pin_bundle_print(bundle, true, &size, &err));
    assert_string_equal(err.pointer, "/process/args/1");
    pin_bundle_free(bundle);
    pin_policy_free(policy);
}

struct print_row {
    const char *what;
    struct pin_request request;
    bool same; /* as that of the first request */
};

static void fingerprint(const struct pin_policy *policy, const struct pin_request *request,
                        uint8_t digest[PIN_SHA256_SIZE]) {
    struct pin_bundle *bundle = resolved(policy, request);
    struct pin_error err = {0};
    assert_true(pin_bundle_fingerprint(bundle, digest, &err));
    pin_bundle_free(bundle);
}

static void what_makes_a_sandbox_is_in_its_fingerprint(void **state) {
    (void)state;
    static const char *const other_args[] = {"false", "x"};
    static const struct pin_pair a1[] = {
        {"A", "1"},
        {"B", "2"}
    };
    static const struct pin_pair a1_turned[] = {
        {"B", "2"},
        {"A", "1"}
    };
    static const struct pin_pair a2[] = {
        {"A", "2"},
        {"B", "2"}
    };
    const struct pin_request first = {.args = true_args, .arg_count = 1, .env = a1, .env_count = 2};
    struct print_row rows[] = {
        {"the same",         first, true },
        {"another command",  first, true },
        {"another terminal", first, true },
        {"turned variables", first, true },
        {"another value",    first, false},
        {"a label",          first, false},
        {"less memory",      first, false},
        {"a workspace",      first, false},
        {"another name",     first, false},
    };
    rows[1].request.args = other_args;
    rows[1].request.arg_count = 2;
    rows[2].request.cwd = "/usr";
    rows[3].request.env = a1_turned;
    rows[4].request.env = a2;
    rows[5].request.labels = labels;
    rows[5].request.label_count = 1;
    rows[6].request.has_memory = true;
    rows[6].request.memory_bytes = 1 << 20;
    rows[7].request.workspace.source = "/srv/project";
    rows[8].request.hostname = "other";
    struct pin_policy *policy = profile("tool");
    uint8_t expected[PIN_SHA256_SIZE], digest[PIN_SHA256_SIZE];
    fingerprint(policy, &first, expected);
    for (size_t i = 0; i < PIN_COUNT(rows); i++) {
        fingerprint(policy, &rows[i].request, digest);
        if ((memcmp(digest, expected, sizeof(digest)) == 0) != rows[i].same)
            fail_msg("%s", rows[i].what);
    }
    struct pin_policy *other = body("\"name\": \"tool\", \"syscalls\": {\"deny\": [\"ptrace\", \"uname\"]}");
    fingerprint(other, &first, digest);
    assert_memory_not_equal(digest, expected, sizeof(digest));
    pin_policy_free(other);
    pin_policy_free(policy);
}

static void where_a_rule_stands_is_in_no_fingerprint(void **state) {
    (void)state;
    static const char rule[] = "\"network\": {\"egress\": [{\"host\": \"api.test\", \"ports\": [443]}]}";
    char moved[sizeof(rule) + 8];
    (void)snprintf(moved, sizeof(moved), "\n\n   %s", rule);
    const struct pin_request request = plain_request();
    struct pin_policy *here = body(rule), *there = body(moved);
    struct pin_bundle *first = resolved(here, &request), *second = resolved(there, &request);
    uint8_t a[PIN_SHA256_SIZE], b[PIN_SHA256_SIZE];
    assert_int_not_equal(first->ext.egress[0].place.line, second->ext.egress[0].place.line);
    assert_string_not_equal(pin_bundle_place(&first->ext, PIN_FIELD_EGRESS),
                            pin_bundle_place(&second->ext, PIN_FIELD_EGRESS));
    fingerprint(here, &request, a);
    fingerprint(there, &request, b);
    assert_memory_equal(a, b, sizeof(a));
    pin_bundle_free(first);
    pin_bundle_free(second);
    pin_policy_free(here);
    pin_policy_free(there);
}

static char *read_text(int directory, const char *path) {
    struct pin_error err = {0};
    size_t size;
    char *text = pin_read_file_at(directory, path, 1 << 20, &size, &err);
    if (text == NULL)
        fail_msg("%s", err.message);
    return text;
}

static void an_export_can_be_read_by_a_stranger(void **state) {
    (void)state;
    static struct pin_findings found;
    char folder[] = "/tmp/pin-test-export-XXXXXX";
    assert_non_null(mkdtemp(folder));
    struct pin_policy *policy = profile("tool");
    struct pin_request request = plain_request();
    request.workspace.source = "/srv/project";
    struct pin_bundle *bundle = resolved(policy, &request);
    struct pin_error err = {0};
    PIN_CLOSE int directory = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    bool done = pin_bundle_export(bundle, directory, &err);
    if (!done)
        fail_msg("%s: %s", err.pointer, err.message);
    struct stat status;
    PIN_FREE char *passwd = read_text(directory, "rootfs/etc/passwd");
    assert_string_equal(passwd, "root:x\n");
    static const char *const points[] = {"rootfs/usr", "rootfs/proc", "rootfs/dev", "rootfs/workspace"};
    for (size_t i = 0; i < PIN_COUNT(points); i++) {
        assert_int_equal(fstatat(directory, points[i], &status, AT_SYMLINK_NOFOLLOW), 0);
        assert_true(S_ISDIR(status.st_mode));
    }
    assert_int_equal(fstatat(directory, "rootfs/bin", &status, AT_SYMLINK_NOFOLLOW), 0);
    assert_true(S_ISLNK(status.st_mode));
    memset(&found, 0, sizeof(found));
    struct pin_bundle *again = pin_bundle_read(folder, &found);
    print_findings(&found);
    assert_non_null(again);
    assert_string_equal(again->directory, folder);
    assert_string_equal(again->root.path, "rootfs");
    char *text = printed(bundle), *twice = printed(again);
    assert_string_equal(text, twice);
    assert_false(pin_bundle_export(bundle, directory, &err)); /* never over what is there */
    free(text);
    free(twice);
    char command[128];
    (void)snprintf(command, sizeof(command), "rm -rf %s", folder);
    assert_int_equal(system(command), 0);
    pin_bundle_free(again);
    pin_bundle_free(bundle);
    pin_policy_free(policy);
}

static void a_directory_without_a_bundle_says_so(void **state) {
    (void)state;
    static struct pin_findings found;
    memset(&found, 0, sizeof(found));
    assert_null(pin_bundle_read("/nonexistent", &found));
    assert_int_equal(found.list[0].kind, PIN_ERROR_NOT_FOUND);
    memset(&found, 0, sizeof(found));
    assert_null(pin_bundle_read("/proc/self/fd", &found));
    assert_int_equal(found.count, 1);
    assert_non_null(strstr(found.list[0].pointer, "config.json"));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_written_is_read_as_the_same),
        cmocka_unit_test(what_was_exported_is_admitted_unchanged),
        cmocka_unit_test(what_is_no_utf8_can_not_be_written),
        cmocka_unit_test(what_makes_a_sandbox_is_in_its_fingerprint),
        cmocka_unit_test(where_a_rule_stands_is_in_no_fingerprint),
        cmocka_unit_test(an_export_can_be_read_by_a_stranger),
        cmocka_unit_test(a_directory_without_a_bundle_says_so),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
