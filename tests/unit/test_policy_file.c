#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "policy_fixture.h"

static char folder[] = "/tmp/pinfold-policy-XXXXXX";

static const char *in_folder(const char *name) {
    static char path[4][256];
    static unsigned turn;
    char *to = path[turn++ % 4];
    (void)snprintf(to, sizeof(path[0]), "%s/%s", folder, name);
    return to;
}

static void put(const char *name, const char *text) {
    FILE *file = fopen(in_folder(name), "w");
    assert_non_null(file);
    (void)fputs(text, file);
    assert_int_equal(fclose(file), 0);
    assert_int_equal(chmod(in_folder(name), 0644), 0);
}

static struct pin_policy *load(const char *name, struct pin_findings *found) {
    memset(found, 0, sizeof(*found));
    return pin_policy_load(name, found);
}

static void assert_refused(const char *path, const char *message) {
    static struct pin_findings found;
    assert_null(load(path, &found));
    assert_int_equal(found.count, 1);
    if (strstr(found.list[0].message, message) == NULL)
        fail_msg("'%s' is not '%s'", found.list[0].message, message);
}

static void a_built_in_profile_cannot_be_shadowed(void **state) {
    (void)state;
    static struct pin_findings found;
    put("tool.json", "{\"pinfold\": 1, \"privileged\": true}");
    assert_int_equal(setenv("PINFOLD_POLICY_PATH", folder, 1), 0);
    struct pin_policy *policy = load("tool", &found);
    assert_non_null(policy);
    assert_false(policy->privileged);
    pin_policy_free(policy);
}

static void a_name_is_searched_for_and_a_path_is_not(void **state) {
    (void)state;
    static struct pin_findings found;
    char path[600];
    (void)snprintf(path, sizeof(path), "/nonexistent::%s", folder);
    assert_int_equal(setenv("PINFOLD_POLICY_PATH", path, 1), 0);
    put("web.json", "{\"pinfold\": 1, \"tty\": false}");
    struct pin_policy *policy = load("web", &found);
    assert_non_null(policy);
    assert_false(policy->tty);
    assert_string_equal(policy->name, "web");
    assert_string_equal(policy->places[PIN_FIELD_TTY].file, in_folder("web.json"));
    pin_policy_free(policy);
    policy = load(in_folder("web.json"), &found);
    assert_non_null(policy);
    pin_policy_free(policy);
    assert_refused("./web.json", "No such file");
    assert_refused("web.json", "No such file");
    assert_refused("wbe", "there is no policy 'wbe'");
    assert_refused("we b", "is not the name of a policy");
    assert_refused("", "is not the name of a policy");
    assert_refused("buidl", "there is no policy 'buidl'");
}

static void a_file_that_others_can_change_is_refused(void **state) {
    (void)state;
    put("p.json", "{\"pinfold\": 1}");
    assert_int_equal(chmod(in_folder("p.json"), 0664), 0);
    assert_refused(in_folder("p.json"), "others can write");
    assert_int_equal(chmod(in_folder("p.json"), 0646), 0);
    assert_refused(in_folder("p.json"), "others can write");
    assert_int_equal(chmod(in_folder("p.json"), 0644), 0);
    if (geteuid() != 0)
        return; /* only root can give a file away */
    assert_int_equal(chown(in_folder("p.json"), 12345, 0), 0);
    assert_refused(in_folder("p.json"), "belongs to somebody else");
}

static void only_a_regular_file_is_read(void **state) {
    (void)state;
    put("real.json", "{\"pinfold\": 1}");
    assert_int_equal(symlink("real.json", in_folder("link.json")), 0);
    assert_refused(in_folder("link.json"), "can't be a symbolic link");
    assert_int_equal(mkfifo(in_folder("fifo.json"), 0600), 0);
    assert_refused(in_folder("fifo.json"), "regular file"); /* and it doesn't wait for a writer */
    assert_int_equal(mkdir(in_folder("dir.json"), 0700), 0);
    assert_refused(in_folder("dir.json"), "regular file");
    assert_refused("/dev/null", "regular file");
    assert_refused("/dev/zero", "regular file");
}

static void a_file_past_its_bound_is_refused(void **state) {
    (void)state;
    int fd = open(in_folder("big.json"), O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    assert_true(fd >= 0);
    assert_int_equal(ftruncate(fd, 4 * 1024 * 1024 + 1), 0);
    assert_int_equal(close(fd), 0);
    assert_refused(in_folder("big.json"), "more than 4 MiB");
}

static void bases_are_found_beside_the_file_that_names_them(void **state) {
    (void)state;
    static struct pin_findings found;
    assert_int_equal(mkdir(in_folder("sub"), 0700), 0);
    put("base.json", "{\"pinfold\": 1, \"extends\": [\"./sub/deep.json\"], \"tty\": false}");
    put("sub/deep.json", "{\"pinfold\": 1, \"extends\": [\"../more.json\"], \"secrets\": [\"K\"]}");
    put("more.json", "{\"pinfold\": 1, \"resources\": {\"pids\": 7}}");
    struct pin_policy *policy = load(in_folder("base.json"), &found);
    if (policy == NULL)
        print_findings(&found);
    assert_non_null(policy);
    assert_int_equal(policy->resources.pids, 7);
    assert_int_equal(policy->secrets.count, 1);
    assert_false(policy->tty);
    pin_policy_free(policy);
}

static void a_loop_is_found_however_it_is_spelt(void **state) {
    (void)state;
    static struct pin_findings found;
    put("a.json", "{\"pinfold\": 1,\n \"extends\": [\"./b.json\"]}");
    put("b.json", "{\"pinfold\": 1, \"extends\": [\"././a.json\"]}");
    assert_null(load(in_folder("a.json"), &found));
    assert_int_equal(found.count, 1);
    assert_non_null(strstr(found.list[0].message, "extends itself"));
    assert_non_null(strstr(found.list[0].pointer, "b.json:1:28 /extends/0"));
    put("self.json", "{\"pinfold\": 1, \"extends\": [\"self.json\"]}");
    assert_refused(in_folder("self.json"), "extends itself");
}

static void a_missing_base_is_named_with_the_line_that_wants_it(void **state) {
    (void)state;
    static struct pin_findings found;
    put("lost.json", "{\"pinfold\": 1,\n \"extends\": [\"nowhere\", \"./gone.json\"]}");
    assert_null(load(in_folder("lost.json"), &found));
    assert_int_equal(found.count, 2);
    assert_non_null(strstr(found.list[0].message, "there is no policy 'nowhere'"));
    assert_non_null(strstr(found.list[0].pointer, "lost.json:2:14"));
    assert_non_null(strstr(found.list[1].message, "gone.json"));
}

static void a_chain_is_bounded(void **state) {
    (void)state;
    static struct pin_findings found;
    for (int i = 0; i < 20; i++) {
        char name[32], text[128];
        (void)snprintf(name, sizeof(name), "c%d.json", i);
        (void)snprintf(text, sizeof(text), "{\"pinfold\": 1, \"extends\": [\"c%d.json\"]}", i + 1);
        put(name, text);
    }
    put("c20.json", "{\"pinfold\": 1}");
    assert_null(load(in_folder("c0.json"), &found));
    assert_non_null(strstr(found.list[0].message, "more than 16 deep"));
    struct pin_policy *policy = load(in_folder("c6.json"), &found);
    assert_non_null(policy);
    pin_policy_free(policy);
}

static int make_folder(void **state) {
    (void)state;
    return mkdtemp(folder) == NULL ? -1 : 0;
}

static int remove_folder(void **state) {
    (void)state;
    char command[64];
    (void)snprintf(command, sizeof(command), "rm -rf '%s'", folder);
    return system(command); /* NOLINT(cert-env33-c): a test's own folder */
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_built_in_profile_cannot_be_shadowed),
        cmocka_unit_test(a_name_is_searched_for_and_a_path_is_not),
        cmocka_unit_test(a_file_that_others_can_change_is_refused),
        cmocka_unit_test(only_a_regular_file_is_read),
        cmocka_unit_test(a_file_past_its_bound_is_refused),
        cmocka_unit_test(bases_are_found_beside_the_file_that_names_them),
        cmocka_unit_test(a_loop_is_found_however_it_is_spelt),
        cmocka_unit_test(a_missing_base_is_named_with_the_line_that_wants_it),
        cmocka_unit_test(a_chain_is_bounded),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
