#include "test.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/io.h"
#include "runtime/secrets/secrets.h"

static char folder[64];

static int make_folder(void **state) {
    (void)state;
    (void)snprintf(folder, sizeof(folder), "/tmp/pin-secrets-XXXXXX");
    assert_non_null(mkdtemp(folder));
    return setenv("PINFOLD_SECRETS", folder, 1);
}

static int drop_folder(void **state) {
    char command[96];
    (void)state;
    (void)snprintf(command, sizeof(command), "rm -r %s", folder);
    return system(command);
}

static void put(const char *name, const char *value, size_t size, mode_t mode) {
    char path[128];
    struct pin_error err = {0};
    (void)snprintf(path, sizeof(path), "%s/%s", folder, name);
    PIN_CLOSE int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    assert_true(fd >= 0 && pin_write_all(fd, value, size, &err));
    assert_int_equal(fchmod(fd, mode), 0);
}

static bool find(struct pin_secrets *secrets, const char *spec, struct pin_error *err) {
    return pin_secrets_find(secrets, &spec, 1, NULL, 0, err);
}

static void a_file_is_a_secret_without_its_last_line_end(void **state) {
    (void)state;
    struct pin_secrets secrets = {0};
    struct pin_error err = {0};
    size_t size;
    put("KEY", "va\nlue\n", 7, 0400);
    assert_true(find(&secrets, "KEY:env=TOKEN", &err));
    assert_string_equal(pin_secret_value(&secrets.list[0], &size), "va\nlue");
    assert_int_equal(size, 6);
    assert_string_equal(pin_secret_variable(&secrets.list[0]), "TOKEN=va\nlue");
    pin_secrets_free(&secrets);
    assert_null(secrets.list);
}

static void what_others_could_have_read_or_written_is_refused(void **state) {
    (void)state;
    struct pin_secrets secrets = {0};
    struct pin_error err = {0};
    put("KEY", "the value", 9, 0640);
    assert_false(find(&secrets, "KEY", &err));
    assert_int_equal(err.kind, PIN_ERROR_REFUSED);
    assert_null(strstr(err.message, "the value"));
    pin_error_clear(&err);
    put("KEY", "the value", 9, 0600);
    assert_int_equal(chmod(folder, 0750), 0);
    assert_false(find(&secrets, "KEY", &err));
    assert_int_equal(err.kind, PIN_ERROR_REFUSED);
}

static void a_missing_an_empty_and_a_short_one_are_refused(void **state) {
    (void)state;
    struct pin_secrets secrets = {0};
    struct pin_error err = {0};
    assert_false(find(&secrets, "KEY", &err));
    assert_int_equal(err.kind, PIN_ERROR_NOT_FOUND);
    pin_error_clear(&err);
    put("KEY", "\n", 1, 0600);
    assert_false(find(&secrets, "KEY", &err));
    assert_int_equal(err.kind, PIN_ERROR_INVALID);
    pin_error_clear(&err);
    put("KEY", "abc\n", 4, 0600);
    assert_false(find(&secrets, "KEY", &err));
    assert_int_equal(err.kind, PIN_ERROR_INVALID);
}

static void a_zero_byte_is_for_files_alone(void **state) {
    (void)state;
    struct pin_secrets secrets = {0};
    struct pin_error err = {0};
    put("KEY", "ab\0cd", 5, 0600);
    assert_false(find(&secrets, "KEY", &err));
    pin_error_clear(&err);
    assert_true(find(&secrets, "KEY:file", &err));
    pin_secrets_free(&secrets);
}

static void a_named_variable_goes_before_the_directory(void **state) {
    (void)state;
    struct pin_secrets secrets = {0};
    struct pin_error err = {0};
    size_t size;
    static const char *const specs[] = {"KEY"}, *const variables[] = {"KEY=PIN_TEST_VALUE"};
    put("KEY", "of the file", 11, 0600);
    assert_int_equal(setenv("PIN_TEST_VALUE", "of the variable", 1), 0);
    assert_true(pin_secrets_find(&secrets, specs, 1, variables, 1, &err));
    assert_string_equal(pin_secret_value(&secrets.list[0], &size), "of the variable");
    pin_secrets_free(&secrets);
    assert_int_equal(unsetenv("PIN_TEST_VALUE"), 0);
    assert_false(pin_secrets_find(&secrets, specs, 1, variables, 1, &err));
    assert_int_equal(err.kind, PIN_ERROR_NOT_FOUND); /* and not the file's, silently */
}

static void credentials_of_systemd_are_found_last(void **state) {
    (void)state;
    struct pin_secrets secrets = {0};
    struct pin_error err = {0};
    put("KEY", "the value", 9, 0400);
    assert_int_equal(setenv("CREDENTIALS_DIRECTORY", folder, 1), 0);
    assert_int_equal(setenv("PINFOLD_SECRETS", "/nonexistent/secrets", 1), 0);
    assert_true(find(&secrets, "KEY", &err));
    assert_int_equal(secrets.list[0].source, PIN_SECRET_FROM_CREDENTIALS);
    pin_secrets_free(&secrets);
    assert_int_equal(unsetenv("CREDENTIALS_DIRECTORY"), 0);
}

static void two_that_would_be_one_variable_are_refused(void **state) {
    (void)state;
    struct pin_secrets secrets = {0};
    struct pin_error err = {0};
    static const char *const specs[] = {"A:env=KEY", "B:env=KEY"};
    put("A", "value of a", 10, 0600);
    put("B", "value of b", 10, 0600);
    assert_false(pin_secrets_find(&secrets, specs, 2, NULL, 0, &err));
    assert_int_equal(err.kind, PIN_ERROR_USAGE);
}

static void the_digest_changes_with_the_value_and_not_with_the_order(void **state) {
    (void)state;
    struct pin_secrets secrets = {0};
    struct pin_error err = {0};
    uint8_t first[PIN_SHA256_SIZE], again[PIN_SHA256_SIZE], other[PIN_SHA256_SIZE];
    static const char *const specs[] = {"A", "B"}, *const turned[] = {"B", "A"};
    put("A", "value of a", 10, 0600);
    put("B", "value of b", 10, 0600);
    assert_true(pin_secrets_find(&secrets, specs, 2, NULL, 0, &err));
    pin_secrets_digest(&secrets, first);
    pin_secrets_free(&secrets);
    assert_true(pin_secrets_find(&secrets, turned, 2, NULL, 0, &err));
    pin_secrets_digest(&secrets, again);
    pin_secrets_free(&secrets);
    put("B", "value of c", 10, 0600);
    assert_true(pin_secrets_find(&secrets, specs, 2, NULL, 0, &err));
    pin_secrets_digest(&secrets, other);
    pin_secrets_free(&secrets);
    assert_memory_equal(first, again, sizeof(first));
    assert_memory_not_equal(first, other, sizeof(first));
}

static void pairs_are_taken_whole_or_not_at_all(void **state) {
    (void)state;
#define PAIRS(text) text, sizeof(text) - 1
    static const struct {
        const char *text;
        size_t size, count;
        bool good;
    } rows[] = {
        {PAIRS("A=long enough\0B=with = and \n\0"), 2, true },
        {PAIRS(""),                                 0, true },
        {PAIRS("A=long enough\0B=cut of"),          2, false},
        {PAIRS("A=long enough\0"),                  2, false},
        {PAIRS("A=long enough\0B=with more\0"),     1, false},
        {PAIRS("A=long enough\0x"),                 1, false},
        {PAIRS("no name at all\0"),                 1, false},
        {PAIRS("\0"),                               1, false},
        {PAIRS(""),                                 1, false},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct pin_secrets secrets = {0};
        struct pin_error err = {0};
        assert_int_equal(pin_secrets_add_pairs(&secrets, rows[i].text, rows[i].size, rows[i].count, &err),
                         rows[i].good);
        assert_int_equal(pin_is_set(&err), !rows[i].good);
        if (rows[i].count == 2 && rows[i].good)
            assert_string_equal(pin_secret_variable(&secrets.list[1]), "B=with = and \n");
        pin_secrets_free(&secrets);
    }
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, make_folder, drop_folder)

int main(void) {
    const struct CMUnitTest tests[] = {
        TEST(pairs_are_taken_whole_or_not_at_all),
        TEST(a_file_is_a_secret_without_its_last_line_end),
        TEST(what_others_could_have_read_or_written_is_refused),
        TEST(a_missing_an_empty_and_a_short_one_are_refused),
        TEST(a_zero_byte_is_for_files_alone),
        TEST(a_named_variable_goes_before_the_directory),
        TEST(credentials_of_systemd_are_found_last),
        TEST(two_that_would_be_one_variable_are_refused),
        TEST(the_digest_changes_with_the_value_and_not_with_the_order),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
