/* Layers of dependencies: keys, locks, and what a hostile installation leaves. */
#include "tests/unit/test.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "runtime/tool/deps_store.h"

static const char key[] = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef";

static int set_up(void **state) {
    static char folder[64];
    (void)snprintf(folder, sizeof(folder), "/tmp/test_tool_deps.XXXXXX");
    *state = mkdtemp(folder);
    return *state == NULL || setenv("PINFOLD_DEPS", folder, 1) != 0;
}

static int tear_down(void **state) {
    char command[128];
    (void)snprintf(command, sizeof(command), "rm -rf '%s'", (const char *)*state);
    return system(command); /* NOLINT(cert-env33-c): a folder of the test's own */
}

static void open_store(struct pin_deps_store *store) {
    struct pin_error err = {0};
    *store = PIN_DEPS_STORE_NONE;
    if (!pin_deps_store_open(store, true, &err))
        fail_msg("%s", err.message);
}

static void make_key(const char *image, const char *interpreter, const char *index, const char *const *texts,
                     size_t count, char to[PIN_DEPS_KEY_TEXT]) {
    PIN_ARENA struct pin_arena arena = {0};
    struct pin_requirements list = {0}, none = {0}, sorted;
    struct pin_error err = {0};
    for (size_t i = 0; i < count; i++) {
        struct pin_requirement one;
        assert_true(pin_requirement_parse(PIN_INSTALLER_PIP, texts[i], &arena, &one, &err));
        *(struct pin_requirement *)pin_arena_grow(&arena, &list.items, &list.count, sizeof(one)) = one;
    }
    pin_requirements_merge(&none, &list, &arena, &sorted);
    const struct pin_deps_wanted wanted = {PIN_INSTALLER_PIP, image, interpreter, index, &sorted};
    assert_true(pin_deps_key(&wanted, to));
}

static void order_and_spelling_make_no_other_layer_and_all_else_does(void **state) {
    (void)state;
    static const char *const one[] = {"b==1", "A_x"}, *const other[] = {"a-x", "B == 1", "b==1"},
                             *const less[] = {"b==1"};
    char keys[6][PIN_DEPS_KEY_TEXT];
    make_key("host", "p", NULL, one, 2, keys[0]);
    make_key("host", "p", NULL, other, 3, keys[1]);
    make_key("host", "p", NULL, less, 1, keys[2]);
    make_key("sha256:1", "p", NULL, one, 2, keys[3]);
    make_key("host", "q", NULL, one, 2, keys[4]);
    make_key("host", "p", "https://i/", one, 2, keys[5]);
    assert_string_equal(keys[0], keys[1]);
    for (size_t i = 1; i < PIN_COUNT(keys); i++)
        for (size_t j = i + 1; j < PIN_COUNT(keys); j++)
            assert_string_not_equal(keys[i], keys[j]);
}

/* A layer with a lock file in it. */
static void make_layer(struct pin_deps_store *store, const char *text) {
    char path[PATH_MAX], file[PATH_MAX + 32];
    struct pin_error err = {0};
    assert_true(pin_deps_begin(store, key, path, &err));
    (void)snprintf(file, sizeof(file), "%s/" PIN_DEPS_LOCK_FILE, path);
    PIN_CLOSE int fd = open(file, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    assert_int_equal(write(fd, text, strlen(text)), (ssize_t)strlen(text));
}

static void a_layer_appears_whole_and_goes_when_nobody_holds_it(void **state) {
    (void)state;
    struct pin_deps_store store;
    struct pin_error err = {0};
    struct pin_deps_removed removed = {0};
    char digest[PIN_DIGEST_TEXT];
    open_store(&store);
    make_layer(&store, "x");
    assert_false(pin_deps_exists(&store, key));
    assert_true(pin_deps_lock_digest(store.tmp, key, digest, &err));
    assert_true(pin_deps_publish(&store, key, "{}", &err));
    assert_true(pin_deps_exists(&store, key));
    PIN_CLOSE int lock = pin_deps_lock(&store, key, PIN_DEPS_SHARED, &err);
    assert_true(lock >= 0);
    assert_false(pin_deps_remove(&store, key, &err));
    assert_int_equal(err.kind, PIN_ERROR_BUSY);
    err = (struct pin_error){0};
    assert_true(pin_deps_gc(&store, INT64_MAX, &removed, &err));
    assert_int_equal(removed.layers, 0);
    assert_true(pin_deps_exists(&store, key));
    pin_close_fd(&lock);
    assert_true(pin_deps_gc(&store, 0, &removed, &err)); /* used since then */
    assert_int_equal(removed.layers, 0);
    assert_true(pin_deps_gc(&store, INT64_MAX, &removed, &err));
    assert_int_equal(removed.layers, 1);
    assert_false(pin_deps_exists(&store, key));
    pin_deps_store_close(&store);
}

static void what_a_killed_one_left_is_cleared(void **state) {
    (void)state;
    struct pin_deps_store store;
    struct pin_error err = {0};
    struct pin_deps_removed removed = {0};
    open_store(&store);
    PIN_CLOSE int lock = pin_deps_lock(&store, key, PIN_DEPS_ALONE, &err);
    make_layer(&store, "half");
    assert_true(pin_deps_gc(&store, INT64_MAX, &removed, &err));
    assert_int_equal(removed.unfinished, 0); /* somebody is at it */
    pin_close_fd(&lock);
    assert_true(pin_deps_gc(&store, INT64_MAX, &removed, &err));
    assert_int_equal(removed.unfinished, 1);
    assert_int_equal(faccessat(store.tmp, key, F_OK, 0), -1);
    pin_deps_store_close(&store);
}

static void only_files_folders_and_links_are_left(void **state) {
    struct pin_error err = {0};
    struct pin_deps_size size;
    struct stat facts;
    PIN_CLOSE int folder = open(*state, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    assert_int_equal(mkdirat(folder, "tree", 0700) | mkdirat(folder, "tree/closed", 0), 0);
    assert_int_equal(mkfifoat(folder, "tree/fifo", 0666), 0);
    assert_int_equal(symlinkat("/etc/passwd", folder, "tree/link"), 0);
    PIN_CLOSE int file = openat(folder, "tree/file", O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    assert_int_equal(fchmod(file, 06722), 0);
    assert_true(pin_deps_settle(folder, "tree", &size, &err));
    assert_int_equal(fstatat(folder, "tree/fifo", &facts, AT_SYMLINK_NOFOLLOW), -1);
    assert_int_equal(fstatat(folder, "tree/file", &facts, AT_SYMLINK_NOFOLLOW), 0);
    assert_int_equal(facts.st_mode & 07777, 0755);
    assert_int_equal(fstatat(folder, "tree/closed", &facts, AT_SYMLINK_NOFOLLOW), 0);
    assert_int_equal(facts.st_mode & 07777, 0755);
    assert_int_equal(fstatat(folder, "tree/link", &facts, AT_SYMLINK_NOFOLLOW), 0);
    assert_true(S_ISLNK(facts.st_mode));
    assert_int_equal(stat("/etc/passwd", &facts) | (int)(facts.st_mode & 0111), 0); /* it wasn't followed */
}

static void a_tree_without_end_is_refused(void **state) {
    struct pin_error err = {0};
    struct pin_deps_size size;
    PIN_CLOSE int folder = open(*state, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    assert_int_equal(mkdirat(folder, "deep", 0700), 0);
    int at = openat(folder, "deep", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    for (unsigned i = 0; i < PIN_DEPS_DEPTH + 2; i++) {
        assert_int_equal(mkdirat(at, "d", 0700), 0);
        int next = openat(at, "d", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        (void)close(at);
        at = next;
    }
    (void)close(at);
    assert_false(pin_deps_settle(folder, "deep", &size, &err));
    assert_int_equal(err.kind, PIN_ERROR_INVALID);
}

static void a_lock_file_that_is_a_link_is_not_read(void **state) {
    (void)state;
    struct pin_deps_store store;
    struct pin_error err = {0};
    char path[PATH_MAX], digest[PIN_DIGEST_TEXT];
    open_store(&store);
    assert_true(pin_deps_begin(&store, key, path, &err));
    (void)strcat(path, "/" PIN_DEPS_LOCK_FILE);
    assert_int_equal(symlink("/etc/passwd", path), 0);
    assert_false(pin_deps_lock_digest(store.tmp, key, digest, &err));
    pin_deps_abandon(&store, key);
    assert_int_equal(faccessat(store.tmp, key, F_OK, 0), -1);
    pin_deps_store_close(&store);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(order_and_spelling_make_no_other_layer_and_all_else_does, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(a_layer_appears_whole_and_goes_when_nobody_holds_it, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(what_a_killed_one_left_is_cleared, set_up, tear_down),
        cmocka_unit_test_setup_teardown(only_files_folders_and_links_are_left, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_tree_without_end_is_refused, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_lock_file_that_is_a_link_is_not_read, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
