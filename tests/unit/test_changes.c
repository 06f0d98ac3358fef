#include "tests/unit/test.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/io.h"
#include "runtime/changes/changes.h"
#include "runtime/state/tree.h"

static char folder[64];
static int lower = -1, upper = -1;

static void put(int at, const char *path, const char *text, mode_t mode) {
    struct pin_error err = {0};
    PIN_CLOSE int fd = openat(at, path, O_CREAT | O_TRUNC | O_WRONLY | O_CLOEXEC, 0600);
    assert_true(fd >= 0 && pin_write_all(fd, text, strlen(text), &err) && fchmod(fd, mode) == 0);
}

static int set_up(void **state) {
    (void)state;
    (void)snprintf(folder, sizeof(folder), "/tmp/pin-changes-XXXXXX");
    if (mkdtemp(folder) == NULL)
        return -1;
    PIN_CLOSE int top = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (mkdirat(top, "lower", 0755) != 0 || mkdirat(top, "upper", 0755) != 0)
        return -1;
    lower = openat(top, "lower", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    upper = openat(top, "upper", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    return lower < 0 || upper < 0;
}

static int tear_down(void **state) {
    (void)state;
    struct pin_error err = {0};
    pin_close_fd(&lower);
    pin_close_fd(&upper);
    PIN_CLOSE int tmp = open("/tmp", O_PATH | O_DIRECTORY | O_CLOEXEC);
    return pin_tree_remove(tmp, folder + strlen("/tmp/"), &err) ? 0 : -1;
}

static const struct pin_change *find(const struct pin_changes *changes, const char *path) {
    for (size_t i = 0; i < changes->count; i++)
        if (strcmp(changes->items[i].path, path) == 0)
            return &changes->items[i];
    return NULL;
}

static void changes_are_told_by_what_was_there_before(void **state) {
    (void)state;
    put(lower, "old", "1", 0644);
    put(lower, "gone", "1", 0644);
    assert_int_equal(mkdirat(lower, "folder", 0755), 0);
    put(upper, "old", "22", 0644);
    put(upper, "new", "333", 0644);
    assert_int_equal(mkdirat(upper, "folder", 0755), 0);
    put(upper, "folder/inner", "4", 0644);
    if (mknodat(upper, "gone", S_IFCHR, makedev(0, 0)) != 0)
        skip(); /* whiteouts need privilege before Linux 5.8 */
    struct pin_error err = {0};
    struct pin_changes changes;
    assert_true(pin_changes_list(upper, lower, &changes, &err));
    assert_int_equal(changes.count, 4);
    assert_int_equal(find(&changes, "old")->kind, PIN_CHANGE_MODIFIED);
    assert_int_equal(find(&changes, "new")->kind, PIN_CHANGE_ADDED);
    assert_int_equal(find(&changes, "new")->size, 3);
    assert_int_equal(find(&changes, "gone")->kind, PIN_CHANGE_REMOVED);
    assert_int_equal(find(&changes, "folder/inner")->kind, PIN_CHANGE_ADDED);
    pin_changes_free(&changes);
}

/* Who looks before a merge must see what it will do: nothing goes, and nobody is let in, without a line. */
static void a_directory_that_was_replaced_or_opened_is_listed_with_what_it_hides(void **state) {
    (void)state;
    static const char *const folders[] = {"swapped", "swapped/deep", "swapped/kept", "opened", "same"};
    for (size_t i = 0; i < sizeof(folders) / sizeof(*folders); i++)
        assert_int_equal(mkdirat(lower, folders[i], 0755), 0);
    put(lower, "swapped/gone", "1", 0644);
    put(lower, "swapped/again", "1", 0644);
    put(lower, "swapped/kept/gone", "1", 0644);
    assert_int_equal(mkdirat(upper, "swapped", 0755), 0);
    assert_int_equal(mkdirat(upper, "swapped/kept", 0755), 0);
    put(upper, "swapped/again", "22", 0644);
    assert_int_equal(mkdirat(upper, "opened", 0777), 0);
    assert_int_equal(fchmodat(upper, "opened", 0777, 0), 0);
    assert_int_equal(mkdirat(upper, "same", 0755), 0);
    put(upper, "same/new", "1", 0644);
    PIN_CLOSE int swapped = openat(upper, "swapped", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fsetxattr(swapped, "user.overlay.opaque", "y", 1, 0) != 0)
        skip(); /* no attributes of users in this file system */
    struct pin_error err = {0};
    struct pin_changes changes;
    assert_true(pin_changes_list(upper, lower, &changes, &err));
    assert_int_equal(find(&changes, "swapped")->kind, PIN_CHANGE_MODIFIED);
    assert_int_equal(find(&changes, "swapped/again")->kind, PIN_CHANGE_MODIFIED);
    assert_int_equal(find(&changes, "swapped/deep")->kind, PIN_CHANGE_REMOVED);
    assert_int_equal(find(&changes, "swapped/gone")->kind, PIN_CHANGE_REMOVED);
    assert_int_equal(find(&changes, "swapped/kept/gone")->kind, PIN_CHANGE_REMOVED);
    assert_int_equal(find(&changes, "opened")->kind, PIN_CHANGE_MODIFIED);
    assert_int_equal(find(&changes, "same/new")->kind, PIN_CHANGE_ADDED);
    assert_int_equal(changes.count, 7);
    pin_changes_free(&changes);
}

static void a_merge_takes_no_bit_of_the_owner_s_from_a_directory(void **state) {
    (void)state;
    struct stat st;
    assert_int_equal(mkdirat(lower, "shared", 0755), 0);
    assert_int_equal(fchmodat(lower, "shared", 03775, 0), 0);
    assert_int_equal(mkdirat(lower, "closed", 0755), 0);
    assert_int_equal(fchmodat(lower, "closed", 02755, 0), 0);
    assert_int_equal(mkdirat(upper, "shared", 0775), 0);
    assert_int_equal(fchmodat(upper, "shared", 03775, 0), 0);
    assert_int_equal(mkdirat(upper, "closed", 0700), 0);
    put(upper, "shared/new", "1", 0644);
    struct pin_error err = {0};
    struct pin_changes_owner nobody = {0};
    size_t skipped;
    assert_true(pin_changes_merge(upper, lower, &nobody, &skipped, &err));
    assert_int_equal(fstatat(lower, "shared", &st, 0), 0);
    assert_int_equal(st.st_mode & 07777, 03775);
    assert_int_equal(fstatat(lower, "closed", &st, 0), 0);
    assert_int_equal(st.st_mode & 07777, 02700);
}

static void merging_makes_the_target_what_was_seen_inside(void **state) {
    (void)state;
    put(lower, "old", "1", 0644);
    put(lower, "gone", "1", 0644);
    assert_int_equal(mkdirat(lower, "replaced", 0755), 0);
    put(lower, "replaced/before", "1", 0644);
    put(upper, "old", "22", 04755);
    put(upper, "replaced", "a file now", 0600);
    assert_int_equal(symlinkat("/etc/passwd", upper, "link"), 0);
    if (mknodat(upper, "gone", S_IFCHR, makedev(0, 0)) != 0)
        skip();
    struct pin_error err = {0};
    struct pin_changes_owner nobody = {0};
    size_t skipped = 99;
    assert_true(pin_changes_merge(upper, lower, &nobody, &skipped, &err));
    struct stat st;
    assert_int_equal(fstatat(lower, "gone", &st, 0), -1);
    assert_int_equal(fstatat(lower, "old", &st, 0), 0);
    assert_int_equal(st.st_mode & 07777, 0755); /* no set-id bit comes out of a sandbox */
    assert_int_equal(fstatat(lower, "replaced", &st, AT_SYMLINK_NOFOLLOW), 0);
    assert_true(S_ISREG(st.st_mode));
    assert_int_equal(fstatat(lower, "link", &st, AT_SYMLINK_NOFOLLOW), 0);
    assert_true(S_ISLNK(st.st_mode));
    assert_int_equal(skipped, 0);
}

static void merging_never_writes_through_a_link_of_the_target(void **state) {
    (void)state;
    PIN_CLOSE int canary = open("/tmp/pin-canary", O_CREAT | O_RDWR | O_TRUNC | O_CLOEXEC, 0600);
    assert_int_equal(symlinkat("/tmp/pin-canary", lower, "trap"), 0);
    assert_int_equal(symlinkat("/tmp", lower, "trapdir"), 0);
    put(upper, "trap", "overwritten", 0644);
    assert_int_equal(mkdirat(upper, "trapdir", 0755), 0);
    put(upper, "trapdir/pin-planted", "x", 0644);
    struct pin_error err = {0};
    struct pin_changes_owner nobody = {0};
    size_t skipped;
    struct stat st;
    assert_true(pin_changes_merge(upper, lower, &nobody, &skipped, &err));
    assert_int_equal(fstat(canary, &st), 0);
    assert_int_equal(st.st_size, 0);
    assert_int_equal(access("/tmp/pin-planted", F_OK), -1);
    (void)unlink("/tmp/pin-canary");
}

static void pipes_and_sockets_are_passed_over_and_counted(void **state) {
    (void)state;
    assert_int_equal(mkfifoat(upper, "pipe", 0600), 0);
    struct pin_error err = {0};
    struct pin_changes_owner nobody = {0};
    size_t skipped = 0;
    assert_true(pin_changes_merge(upper, lower, &nobody, &skipped, &err));
    assert_int_equal(skipped, 1);
}

static void a_tree_that_is_too_deep_is_an_error_and_not_a_crash(void **state) {
    (void)state;
    int at = fcntl(upper, F_DUPFD_CLOEXEC, 3);
    for (int i = 0; i < PIN_CHANGES_DEPTH + 5; i++) {
        assert_int_equal(mkdirat(at, "d", 0755), 0);
        int below = openat(at, "d", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        (void)close(at);
        at = below;
    }
    (void)close(at);
    struct pin_error err = {0};
    struct pin_changes changes;
    assert_false(pin_changes_list(upper, lower, &changes, &err));
    assert_non_null(strstr(err.message, "directories deep"));
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void) {
    const struct CMUnitTest tests[] = {
        TEST(changes_are_told_by_what_was_there_before),
        TEST(a_directory_that_was_replaced_or_opened_is_listed_with_what_it_hides),
        TEST(a_merge_takes_no_bit_of_the_owner_s_from_a_directory),
        TEST(merging_makes_the_target_what_was_seen_inside),
        TEST(merging_never_writes_through_a_link_of_the_target),
        TEST(pipes_and_sockets_are_passed_over_and_counted),
        TEST(a_tree_that_is_too_deep_is_an_error_and_not_a_crash),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
