/* Calls that fail in the middle: the error names its cause, and the table is what it was. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <errno.h>
#include <sys/stat.h>

#include <cmocka.h>

#include "base/names.h"
#include "runtime/state/record.h"
#include "state_fixture.h"

enum call { PWRITE, FTRUNCATE, LINKAT, RENAMEAT, NO_CALL };

static enum call failing = NO_CALL;

static bool fails(enum call call) {
    if (failing != call)
        return false;
    errno = ENOSPC;
    return true;
}

ssize_t __real_pwrite(int fd, const void *data, size_t size, off_t at);
ssize_t __wrap_pwrite(int fd, const void *data, size_t size, off_t at);
ssize_t __wrap_pwrite(int fd, const void *data, size_t size, off_t at) {
    return fails(PWRITE) ? -1 : __real_pwrite(fd, data, size, at);
}

int __real_ftruncate(int fd, off_t size);
int __wrap_ftruncate(int fd, off_t size);
int __wrap_ftruncate(int fd, off_t size) {
    return fails(FTRUNCATE) ? -1 : __real_ftruncate(fd, size);
}

int __real_linkat(int from_dir, const char *from, int to_dir, const char *to, int flags);
int __wrap_linkat(int from_dir, const char *from, int to_dir, const char *to, int flags);
int __wrap_linkat(int from_dir, const char *from, int to_dir, const char *to, int flags) {
    return fails(LINKAT) ? -1 : __real_linkat(from_dir, from, to_dir, to, flags);
}

int __real_renameat(int from_dir, const char *from, int to_dir, const char *to);
int __wrap_renameat(int from_dir, const char *from, int to_dir, const char *to);
int __wrap_renameat(int from_dir, const char *from, int to_dir, const char *to) {
    return fails(RENAMEAT) ? -1 : __real_renameat(from_dir, from, to_dir, to);
}

static bool clean_nothing(void *context, int state_dir, uint32_t number, struct pin_error *err) {
    (void)context, (void)state_dir, (void)number, (void)err;
    return true;
}

static void no_table_is_left_half_made(void **state) {
    struct fixture *fixture = *state;
    static const enum call calls[] = {PWRITE, FTRUNCATE, LINKAT};
    for (size_t i = 0; i < PIN_COUNT(calls); i++) {
        struct pin_error err = {0};
        struct pin_slot slot = PIN_SLOT_NONE;
        failing = calls[i];
        assert_false(pin_slot_claim(fixture->dir, &slot, &err));
        failing = NO_CALL;
        assert_int_equal(err.kind, PIN_ERROR_EXHAUSTED);
        assert_int_equal(err.os_errno, ENOSPC);
        assert_int_equal(slot.table, -1);
        assert_int_equal(faccessat(fixture->dir, "slots", F_OK, 0), -1);
    }
}

static void a_slot_that_cannot_be_freed_is_left_to_the_sweep(void **state) {
    struct fixture *fixture = *state;
    struct pin_error err = {0}, later = {0};
    struct pin_slot slot = PIN_SLOT_NONE;
    struct pin_sweep done;
    assert_true(pin_slot_claim(fixture->dir, &slot, &err));
    failing = PWRITE;
    assert_false(pin_slot_release(&slot, &err));
    failing = NO_CALL;
    assert_int_equal(err.os_errno, ENOSPC);
    assert_int_equal(slot.table, -1);
    assert_true(pin_state_sweep(fixture->dir, clean_nothing, NULL, &done, &later));
    assert_int_equal(done.cleared, 1);
}

static void a_record_is_whole_or_the_old_one(void **state) {
    struct fixture *fixture = *state;
    struct pin_error err = {0};
    struct pin_slot_record old = {.cgroup = "/old"}, fresh = {.cgroup = "/new"}, read = {0};
    assert_true(pin_slot_record_write(fixture->dir, 5, &old, &err));
    failing = RENAMEAT;
    assert_false(pin_slot_record_write(fixture->dir, 5, &fresh, &err));
    failing = NO_CALL;
    assert_int_equal(err.os_errno, ENOSPC);
    assert_int_equal(faccessat(fixture->dir, "records/5.new", F_OK, 0), -1);
    memset(&err, 0, sizeof(err));
    assert_true(pin_slot_record_read(fixture->dir, 5, &read, &err));
    assert_string_equal(read.cgroup, "/old");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        STATE_TEST(no_table_is_left_half_made),
        STATE_TEST(a_slot_that_cannot_be_freed_is_left_to_the_sweep),
        STATE_TEST(a_record_is_whole_or_the_old_one),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
