#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <sys/stat.h>

#include <cmocka.h>

#include "base/names.h"
#include "runtime/state/record.h"
#include "state_fixture.h"

static const struct pin_slot_record sample = {
    .cgroup = "/user.slice/pinfold \"17\"",
    .scratch = "/var/tmp/ünïcode",
    .name = "worker-1",
};

static void a_record_is_read_as_it_was_written(void **state) {
    struct fixture *fixture = *state;
    struct pin_error err = {0};
    struct pin_slot_record read = {0};
    mode_t before = umask(0);
    assert_true(pin_slot_record_write(fixture->dir, 17, &sample, &err));
    assert_true(pin_slot_record_write(fixture->dir, 17, &sample, &err));
    (void)umask(before);
    assert_true(pin_slot_record_read(fixture->dir, 17, &read, &err));
    assert_string_equal(read.cgroup, sample.cgroup);
    assert_string_equal(read.scratch, sample.scratch);
    assert_string_equal(read.name, sample.name);
    struct stat facts;
    assert_int_equal(fstatat(fixture->dir, "records/17", &facts, 0), 0);
    assert_int_equal(facts.st_mode & 07777, 0600);
}

static void a_missing_record_is_not_found_and_its_removal_is_done(void **state) {
    struct fixture *fixture = *state;
    struct pin_error err = {0};
    struct pin_slot_record read = {0};
    assert_true(pin_slot_record_remove(fixture->dir, 3, &err));
    assert_false(pin_slot_record_read(fixture->dir, 3, &read, &err));
    assert_int_equal(err.kind, PIN_ERROR_NOT_FOUND);
}

static void bytes_that_are_not_utf8_are_refused(void **state) {
    struct fixture *fixture = *state;
    struct pin_error err = {0};
    static const struct pin_slot_record broken = {.cgroup = "/\xff"};
    assert_false(pin_slot_record_write(fixture->dir, 3, &broken, &err));
    assert_int_equal(err.kind, PIN_ERROR_INVALID);
}

static void put(const struct fixture *fixture, const char *text) {
    struct pin_error err = {0};
    int folder = pin_state_folder(fixture->dir, "records", true, &err);
    int file = openat(folder, "9", O_CREAT | O_TRUNC | O_WRONLY | O_CLOEXEC, 0600);
    assert_int_equal(write(file, text, strlen(text)), strlen(text));
    (void)close(file);
    (void)close(folder);
}

#define REST "\"scratch\":\"\",\"name\":\"\"}"

static void what_pinfold_did_not_write_is_refused_with_its_place(void **state) {
    struct fixture *fixture = *state;
    static const struct {
        const char *text;
        enum pin_error_kind kind;
    } cases[] = {
        {"",                                                   PIN_ERROR_SYNTAX     },
        {"{",                                                  PIN_ERROR_SYNTAX     },
        {"[]",                                                 PIN_ERROR_SYNTAX     },
        {"{\"pinfold\":\"1\"}",                                PIN_ERROR_SYNTAX     },
        {"{\"pinfold\":1}",                                    PIN_ERROR_SYNTAX     },
        {"{\"pinfold\":1,\"pinfold\":1,\"cgroup\":\"\"," REST, PIN_ERROR_SYNTAX     },
        {"{\"pinfold\":1,\"cgroup\":7," REST,                  PIN_ERROR_SYNTAX     },
        {"{\"pinfold\":1,\"cgroup\":\"relative\"," REST,       PIN_ERROR_SYNTAX     },
        {"{\"pinfold\":1,\"cgroup\":\"/a/../b\"," REST,        PIN_ERROR_SYNTAX     },
        {"{\"pinfold\":1,\"cgroup\":\"/a/..\"," REST,          PIN_ERROR_SYNTAX     },
        {"{\"pinfold\":1,\"cgroup\":\"/a\\u0000b\"," REST,     PIN_ERROR_SYNTAX     },
        {"{\"pinfold\":2,\"cgroup\":\"\"," REST,               PIN_ERROR_UNSUPPORTED},
    };
    for (size_t i = 0; i < PIN_COUNT(cases); i++) {
        struct pin_error err = {0};
        struct pin_slot_record read = {0};
        put(fixture, cases[i].text);
        assert_false(pin_slot_record_read(fixture->dir, 9, &read, &err));
        assert_int_equal(err.kind, cases[i].kind);
        assert_string_equal(err.pointer, "records/9");
    }
}

static void a_link_or_a_shared_file_is_no_record(void **state) {
    struct fixture *fixture = *state;
    struct pin_error err = {0}, other = {0};
    struct pin_slot_record read = {0};
    assert_true(pin_slot_record_write(fixture->dir, 4, &sample, &err));
    assert_int_equal(symlinkat("4", fixture->dir, "records/5"), 0);
    assert_false(pin_slot_record_read(fixture->dir, 5, &read, &err));
    assert_int_equal(fchmodat(fixture->dir, "records/4", 0622, 0), 0);
    assert_false(pin_slot_record_read(fixture->dir, 4, &read, &other));
    assert_int_equal(other.kind, PIN_ERROR_REFUSED);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        STATE_TEST(a_record_is_read_as_it_was_written),
        STATE_TEST(a_missing_record_is_not_found_and_its_removal_is_done),
        STATE_TEST(bytes_that_are_not_utf8_are_refused),
        STATE_TEST(what_pinfold_did_not_write_is_refused_with_its_place),
        STATE_TEST(a_link_or_a_shared_file_is_no_record),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
