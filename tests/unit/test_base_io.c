#include "tests/unit/test.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/io.h"

static char folder[64];
static int root = -1;

static int make_tree(void **state) {
    (void)state;
    (void)snprintf(folder, sizeof(folder), "/tmp/pin-io-XXXXXX");
    if (mkdtemp(folder) == NULL)
        return -1;
    root = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    struct pin_error err = {0};
    PIN_CLOSE int file = openat(root, "file", O_CREAT | O_WRONLY | O_CLOEXEC, 0600);
    return root < 0 || file < 0 || !pin_write_all(file, "content", 7, &err) ||
           mkdirat(root, "etc", 0700) != 0 || symlinkat("/file", root, "absolute") != 0 ||
           symlinkat("../../../../../../file", root, "etc/up") != 0 ||
           symlinkat("/etc/passwd", root, "outside") != 0 || symlinkat("etc", root, "linked") != 0;
}

static int remove_tree(void **state) {
    (void)state;
    static const char *const names[] = {"file", "absolute", "etc/up", "outside", "linked"};
    for (size_t i = 0; i < PIN_COUNT(names); i++)
        (void)unlinkat(root, names[i], 0);
    (void)unlinkat(root, "etc", AT_REMOVEDIR);
    (void)close(root);
    return rmdir(folder);
}

static void links_and_dots_stay_below_the_root(void **state) {
    (void)state;
    static const char *const paths[] = {"absolute", "etc/up", "/file", "/../../file", "linked/../file"};
    for (size_t i = 0; i < PIN_COUNT(paths); i++) {
        struct pin_error err = {0};
        size_t size;
        PIN_CLOSE int fd = pin_open_in_root(root, paths[i], O_RDONLY, 0, &err);
        assert_true(fd >= 0);
        PIN_FREE char *text = pin_read_all(fd, 100, &size, &err);
        assert_string_equal(text, "content");
    }
    struct pin_error err = {0};
    assert_int_equal(pin_open_in_root(root, "outside", O_RDONLY, 0, &err),
                     -1); /* there is no passwd below this root */
    assert_int_equal(err.os_errno, ENOENT);
}

static void beneath_means_no_link_at_all(void **state) {
    (void)state;
    static const char *const paths[] = {"absolute", "etc/up", "linked/up", "../file", "/file"};
    for (size_t i = 0; i < PIN_COUNT(paths); i++) {
        struct pin_error err = {0};
        assert_int_equal(pin_open_beneath(root, paths[i], O_RDONLY, 0, &err), -1);
        assert_true(err.os_errno == ELOOP || err.os_errno == EXDEV);
    }
}

static void reading_stops_at_the_bound(void **state) {
    (void)state;
    struct pin_error err = {0};
    size_t size = 99;
    assert_null(pin_read_file_at(root, "file", 6, &size, &err));
    assert_int_equal(err.kind, PIN_ERROR_INVALID);
    assert_int_equal(size, 99);
}

static void descriptors_are_close_on_exec(void **state) {
    (void)state;
    struct pin_error err = {0};
    PIN_CLOSE int fd = pin_open_in_root(root, "file", O_RDONLY, 0, &err);
    assert_true(fcntl(fd, F_GETFD) & FD_CLOEXEC);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(links_and_dots_stay_below_the_root),
        cmocka_unit_test(beneath_means_no_link_at_all),
        cmocka_unit_test(reading_stops_at_the_bound),
        cmocka_unit_test(descriptors_are_close_on_exec),
    };
    return cmocka_run_group_tests(tests, make_tree, remove_tree);
}
