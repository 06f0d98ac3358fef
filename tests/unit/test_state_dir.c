#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <sys/stat.h>

#include <cmocka.h>

#include "base/names.h"
#include "state_fixture.h"

static void the_place_follows_user_and_environment(void **state) {
    (void)state;
    static const struct {
        struct pin_state_where where;
        const char *path;
    } cases[] = {
        {{0, NULL, NULL},                        "/run/pinfold"          },
        {{0, NULL, "/run/user/0"},               "/run/pinfold"          },
        {{1000, NULL, "/run/user/1000"},         "/run/user/1000/pinfold"},
        {{1000, NULL, "relative"},               "/tmp/pinfold-1000"     },
        {{1000, NULL, NULL},                     "/tmp/pinfold-1000"     },
        {{0, "/srv/state", NULL},                "/srv/state"            },
        {{1000, "/srv/state", "/run/user/1000"}, "/srv/state"            },
    };
    for (size_t i = 0; i < PIN_COUNT(cases); i++) {
        struct pin_error err = {0};
        char path[PATH_MAX];
        assert_true(pin_state_choose(&cases[i].where, path, &err));
        assert_string_equal(path, cases[i].path);
    }
}

static void a_relative_place_is_refused(void **state) {
    (void)state;
    struct pin_error err = {0};
    char path[PATH_MAX];
    struct pin_state_where where = {.uid = 0, .state = "state"};
    assert_false(pin_state_choose(&where, path, &err));
    assert_int_equal(err.kind, PIN_ERROR_USAGE);
    assert_string_not_equal(err.hint, "");
}

static void a_place_that_is_too_long_is_refused(void **state) {
    (void)state;
    struct pin_error err = {0};
    static char longer[PATH_MAX + 1];
    char path[PATH_MAX];
    memset(longer, 'x', PATH_MAX);
    longer[0] = '/';
    struct pin_state_where where = {.uid = 0, .state = longer};
    assert_false(pin_state_choose(&where, path, &err));
    assert_int_equal(err.kind, PIN_ERROR_INVALID);
}

static mode_t mode_of(const char *path) {
    struct stat facts;
    assert_int_equal(lstat(path, &facts), 0);
    return facts.st_mode & 07777;
}

static void the_directory_is_made_for_its_owner_alone_whatever_the_umask(void **state) {
    struct fixture *fixture = *state;
    struct pin_error err = {0};
    char path[128];
    static const mode_t masks[] = {0, 022, 0777};
    for (size_t i = 0; i < PIN_COUNT(masks); i++) {
        (void)snprintf(path, sizeof(path), "%s/umask-%zu", fixture->path, i);
        mode_t before = umask(masks[i]);
        int fd = pin_state_open_path(path, &err);
        (void)umask(before);
        assert_true(fd >= 0);
        assert_int_equal(mode_of(path), 0700);
        (void)close(fd);
    }
}

static void a_link_in_its_place_is_refused(void **state) {
    struct fixture *fixture = *state;
    struct pin_error err = {0};
    assert_int_equal(symlinkat(".", fixture->dir, "link"), 0);
    char path[128];
    (void)snprintf(path, sizeof(path), "%s/link", fixture->path);
    assert_int_equal(pin_state_open_path(path, &err), -1);
    assert_int_equal(err.kind, PIN_ERROR_REFUSED);
    assert_string_equal(err.pointer, path);
}

static void a_file_in_its_place_is_refused(void **state) {
    struct fixture *fixture = *state;
    struct pin_error err = {0};
    (void)close(openat(fixture->dir, "file", O_CREAT | O_WRONLY | O_CLOEXEC, 0600));
    assert_int_equal(pin_state_folder(fixture->dir, "file", true, &err), -1);
    assert_int_equal(err.kind, PIN_ERROR_REFUSED);
}

static void a_directory_that_others_may_enter_is_refused(void **state) {
    struct fixture *fixture = *state;
    static const mode_t modes[] = {0701, 0710, 0770, 0777, 0755};
    for (size_t i = 0; i < PIN_COUNT(modes); i++) {
        struct pin_error err = {0};
        assert_int_equal(chmod(fixture->path, modes[i]), 0);
        assert_int_equal(pin_state_open_path(fixture->path, &err), -1);
        assert_int_equal(err.kind, PIN_ERROR_REFUSED);
        assert_string_not_equal(err.hint, "");
    }
}

static void a_directory_of_another_user_is_refused(void **state) {
    struct fixture *fixture = *state;
    struct pin_error err = {0};
    if (geteuid() != 0)
        skip(); /* only root can give a directory away */
    assert_int_equal(chown(fixture->path, 4242, 4242), 0);
    assert_int_equal(pin_state_open_path(fixture->path, &err), -1);
    assert_int_equal(err.kind, PIN_ERROR_REFUSED);
    assert_non_null(strstr(err.message, "4242"));
    assert_int_equal(chown(fixture->path, 0, 0), 0);
}

static void a_missing_folder_is_not_made_unasked(void **state) {
    struct fixture *fixture = *state;
    struct pin_error err = {0};
    assert_int_equal(pin_state_folder(fixture->dir, "records", false, &err), -1);
    assert_int_equal(err.kind, PIN_ERROR_NOT_FOUND);
}

static void each_named_directory_has_its_own_tag(void **state) {
    struct fixture *fixture = *state;
    struct pin_error err = {0};
    char tag[PIN_STATE_TAG], other[PIN_STATE_TAG];
    int second = pin_state_folder(fixture->dir, "second", true, &err);
    (void)unsetenv("PINFOLD_STATE");
    assert_true(pin_state_tag(fixture->dir, tag, &err));
    assert_string_equal(tag, "pinfold");
    (void)setenv("PINFOLD_STATE", fixture->path, 1);
    assert_true(pin_state_tag(fixture->dir, tag, &err));
    assert_true(pin_state_tag(second, other, &err));
    assert_string_not_equal(tag, other);
    int opened = pin_state_open(&err);
    assert_true(opened >= 0);
    (void)close(opened);
    (void)close(second);
    (void)unsetenv("PINFOLD_STATE");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_place_follows_user_and_environment),
        cmocka_unit_test(a_relative_place_is_refused),
        cmocka_unit_test(a_place_that_is_too_long_is_refused),
        STATE_TEST(the_directory_is_made_for_its_owner_alone_whatever_the_umask),
        STATE_TEST(a_link_in_its_place_is_refused),
        STATE_TEST(a_file_in_its_place_is_refused),
        STATE_TEST(a_directory_that_others_may_enter_is_refused),
        STATE_TEST(a_directory_of_another_user_is_refused),
        STATE_TEST(a_missing_folder_is_not_made_unasked),
        STATE_TEST(each_named_directory_has_its_own_tag),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
