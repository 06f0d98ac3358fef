#include "base/units.h"
#include "policy_fixture.h"

static void a_later_value_wins_and_the_rest_stays(void **state) {
    (void)state;
    struct pin_policy *policy =
        good("{\"pinfold\": 1, \"extends\": [\"build\"],\n \"resources\": {\"memory\": \"1GiB\"}}");
    assert_int_equal(policy->resources.memory_bytes, PIN_GIB);
    assert_int_equal(policy->resources.pids, 512);
    assert_string_equal(policy->syscalls.baseline, "build");
    assert_string_equal(policy->places[PIN_FIELD_MEMORY].file, "test.json");
    assert_int_equal(policy->places[PIN_FIELD_MEMORY].line, 2);
    assert_string_equal(policy->places[PIN_FIELD_PIDS].file, "built-in:build");
    assert_string_equal(policy->places[PIN_FIELD_CORE].file, "built-in:tool");
    pin_policy_free(policy);
}

static void bases_merge_from_left_to_right(void **state) {
    (void)state;
    struct pin_policy *policy = body("\"extends\": [\"strict\", \"build\"]");
    assert_int_equal(policy->resources.pids, 512);
    assert_int_equal(policy->filesystem.workspace, PIN_ACCESS_NONE); /* build does not speak of it */
    pin_policy_free(policy);
    policy = body("\"extends\": [\"build\", \"strict\"]");
    assert_int_equal(policy->resources.pids, 16);
    assert_int_equal(policy->resources.wall_time_ns, 900 * PIN_NS_PER_S);
    pin_policy_free(policy);
}

static void a_base_that_is_reached_twice_counts_at_its_first_place(void **state) {
    (void)state;
    struct pin_policy *policy = body("\"extends\": [\"build\", \"tool\"]"); /* build extends tool */
    assert_int_equal(policy->resources.pids, 512);
    pin_policy_free(policy);
}

static void a_list_replaces_and_edits_change(void **state) {
    (void)state;
    struct pin_policy *policy = body("\"filesystem\": {\"write\": [\"/data\"]}");
    assert_int_equal(policy->filesystem.write.count, 1);
    pin_policy_free(policy);
    policy =
        body("\"filesystem\": {\"write\": {\"add\": [\"/data\", \"/tmp\"], \"remove\": [\"/workspace\"]}}");
    assert_int_equal(policy->filesystem.write.count, 3);
    assert_string_equal(policy->filesystem.write.items[0].text, "/tmp");
    assert_string_equal(policy->filesystem.write.items[0].place.file, "default");
    assert_string_equal(policy->filesystem.write.items[2].text, "/data");
    assert_string_equal(policy->filesystem.write.items[2].place.file, "test.json");
    pin_policy_free(policy);
}

static void sets_are_edited_like_lists(void **state) {
    (void)state;
    struct pin_policy *policy =
        body("\"extends\": [\"oci\"], \"frames\": {\"remove\": [\"stdout\"]},"
             "\"capabilities\": {\"remove\": [\"CAP_MKNOD\", \"CAP_NET_RAW\"], \"add\": [\"CAP_SYS_NICE\"]}");
    assert_int_equal(policy->frames, PIN_FRAMES_FD | PIN_FRAMES_STDOUT_LETTA);
    assert_false(policy->capabilities >> 27 & 1);
    assert_false(policy->capabilities >> 13 & 1);
    assert_true(policy->capabilities >> 23 & 1);
    assert_true(policy->capabilities & 1);
    assert_string_equal(policy->capability_places[23].file, "test.json");
    assert_string_equal(policy->capability_places[0].file, "built-in:oci");
    pin_policy_free(policy);
}

static void what_is_not_there_cannot_be_removed(void **state) {
    (void)state;
    static const char *const rows[][2] = {
        {"\"secrets\": {\"remove\": [\"KEY\"]}",                                           "/secrets/remove/0"      },
        {"\"frames\": {\"remove\": [\"fd\", \"fd\"]}",                                     "/frames/remove/1"       },
        {"\"environment\": {\"set\": {\"NOTSET\": null}}",                                 "/environment/set/NOTSET"},
        {"\"capabilities\": {\"remove\": [\"CAP_CHOWN\"]}",                                "/capabilities/remove/0" },
        {"\"network\": {\"egress\": {\"remove\": [{\"host\": \"a.b\", \"ports\": [1]}]}}",
         "/network/egress/remove/0"                                                                                 },
        {"\"syscalls\": {\"deny\": {\"remove\": [\"ptrace\"]}}",                           "/syscalls/deny/remove/0"},
    };
    static struct pin_findings found;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        char text[512];
        (void)snprintf(text, sizeof(text), "{\"pinfold\": 1, %s}", rows[i][0]);
        assert_null(parse(text, &found));
        assert_non_null(finding_at(&found, rows[i][1]));
    }
}

static void variables_merge_by_name_and_null_takes_one_away(void **state) {
    (void)state;
    struct pin_policy *policy =
        body("\"environment\": {\"set\": {\"HOME\": \"/workspace\", \"USER\": null, \"TZ\": \"UTC\"}}");
    assert_int_equal(policy->environment.set_count, 4);
    assert_string_equal(policy->environment.set[0].name, "PATH");
    assert_string_equal(policy->environment.set[1].value, "/workspace");
    assert_string_equal(policy->environment.set[2].name, "LOGNAME");
    assert_string_equal(policy->environment.set[3].name, "TZ");
    pin_policy_free(policy);
}

static void a_name_is_not_inherited(void **state) {
    (void)state;
    struct pin_policy *policy = body("\"extends\": [\"build\"]");
    assert_string_equal(policy->name, "test");
    assert_string_equal(policy->description, "");
    pin_policy_free(policy);
}

static void a_copy_stands_on_its_own(void **state) {
    (void)state;
    struct pin_policy *policy =
        body("\"extends\": [\"oci\"], \"secrets\": [\"K\"], \"syscalls\": {\"deny\": [\"ptrace\"]},"
             "\"images\": [{\"pattern\": \"a*\", \"require_signature\": true, \"keys\": [\"/k\"]}],"
             "\"filesystem\": {\"mounts\": [{\"source\": \"/a\", \"target\": \"/b\"}]},"
             "\"audit\": {\"record\": [\"egress\"], \"require_labels\": [\"tenant\"]},"
             "\"network\": {\"egress\": [{\"host\": \"a.b\", \"ports\": [1, 3]}], \"deny\": [{\"cidr\": "
             "\"::/0\"}]}");
    uint8_t digest[PIN_SHA256_SIZE];
    memcpy(digest, policy->digest, sizeof(digest));
    struct pin_policy *copy = pin_policy_copy(policy);
    pin_policy_free(policy);
    pin_policy_seal(copy);
    assert_memory_equal(copy->digest, digest, sizeof(digest));
    assert_string_equal(copy->name, "test");
    assert_string_equal(copy->images[0].keys.items[0].place.file, "test.json");
    copy->resources.pids = 1;
    pin_policy_seal(copy);
    assert_memory_not_equal(copy->digest, digest, sizeof(digest));
    pin_policy_free(copy);
    pin_policy_free(NULL);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_later_value_wins_and_the_rest_stays),
        cmocka_unit_test(bases_merge_from_left_to_right),
        cmocka_unit_test(a_base_that_is_reached_twice_counts_at_its_first_place),
        cmocka_unit_test(a_list_replaces_and_edits_change),
        cmocka_unit_test(sets_are_edited_like_lists),
        cmocka_unit_test(what_is_not_there_cannot_be_removed),
        cmocka_unit_test(variables_merge_by_name_and_null_takes_one_away),
        cmocka_unit_test(a_name_is_not_inherited),
        cmocka_unit_test(a_copy_stands_on_its_own),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
