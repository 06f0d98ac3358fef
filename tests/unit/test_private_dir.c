#include "test.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "runtime/private/private_dir.h"

static const struct pin_private_place place = {"PIN_TEST_PLACE", "/etc/of-root", "PIN_TEST_XDG", ".config",
                                               "pinfold/x"};

static void the_variable_goes_before_all_and_must_be_absolute(void **state) {
    (void)state;
    char path[PATH_MAX];
    struct pin_error err = {0};
    assert_int_equal(setenv("PIN_TEST_PLACE", "/named", 1), 0);
    assert_true(pin_private_choose(&place, path, &err));
    assert_string_equal(path, "/named");
    assert_int_equal(setenv("PIN_TEST_PLACE", "named", 1), 0);
    assert_false(pin_private_choose(&place, path, &err));
    assert_int_equal(err.kind, PIN_ERROR_USAGE);
    assert_int_equal(unsetenv("PIN_TEST_PLACE"), 0);
}

static void root_has_a_place_and_a_user_another(void **state) {
    (void)state;
    char path[PATH_MAX];
    struct pin_error err = {0};
    assert_int_equal(setenv("PIN_TEST_XDG", "/xdg", 1), 0);
    assert_true(pin_private_choose(&place, path, &err));
    assert_string_equal(path, geteuid() == 0 ? "/etc/of-root" : "/xdg/pinfold/x");
}

static void parents_are_made_and_the_directory_is_private(void **state) {
    (void)state;
    char base[] = "/tmp/pin-private-XXXXXX", path[64], command[64];
    struct pin_error err = {0};
    struct stat facts;
    assert_non_null(mkdtemp(base));
    (void)snprintf(path, sizeof(path), "%s/a/b", base);
    assert_int_equal(pin_private_dir(path, false, &err), -1);
    assert_int_equal(err.kind, PIN_ERROR_NOT_FOUND);
    pin_error_clear(&err);
    PIN_CLOSE int dir = pin_private_dir(path, true, &err);
    assert_true(dir >= 0);
    assert_int_equal(fstat(dir, &facts), 0);
    assert_int_equal(facts.st_mode & 07777, 0700);
    (void)snprintf(command, sizeof(command), "rm -r %s", base);
    assert_int_equal(system(command), 0);
}

static void links_open_modes_and_what_is_no_file_are_refused(void **state) {
    (void)state;
    char base[] = "/tmp/pin-private-XXXXXX", command[64];
    struct pin_error err = {0};
    assert_non_null(mkdtemp(base));
    PIN_CLOSE int dir = pin_private_dir(base, false, &err);
    assert_true(dir >= 0);
    PIN_CLOSE int file = pin_private_file(dir, "mine", O_WRONLY | O_CREAT, &err);
    assert_true(file >= 0);
    assert_int_equal(symlinkat("mine", dir, "link"), 0);
    assert_int_equal(mkfifoat(dir, "fifo", 0600), 0);
    static const char *const names[] = {"link", "fifo", "absent", "open"};
    PIN_CLOSE int open_one = pin_private_file(dir, "open", O_WRONLY | O_CREAT, &err);
    assert_int_equal(fchmod(open_one, 0640), 0);
    for (size_t i = 0; i < PIN_COUNT(names); i++) {
        assert_int_equal(pin_private_file(dir, names[i], O_RDONLY, &err), -1);
        assert_true(pin_is_set(&err));
        pin_error_clear(&err);
    }
    (void)snprintf(command, sizeof(command), "rm -r %s", base);
    assert_int_equal(system(command), 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_variable_goes_before_all_and_must_be_absolute),
        cmocka_unit_test(root_has_a_place_and_a_user_another),
        cmocka_unit_test(parents_are_made_and_the_directory_is_private),
        cmocka_unit_test(links_open_modes_and_what_is_no_file_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
