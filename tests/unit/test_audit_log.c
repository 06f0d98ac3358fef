/* Writing: one line a record, and no record where the log isn't what its head says. */
#include "test.h"

#include <errno.h>

#include "audit_log_fixture.h"

static ssize_t most = -1; /* of one write(2); -1: as it is */

ssize_t __real_write(int fd, const void *data, size_t size);
ssize_t __wrap_write(int fd, const void *data, size_t size);
ssize_t __wrap_write(int fd, const void *data, size_t size) {
    if (most == 0) {
        errno = ENOSPC;
        return -1;
    }
    return __real_write(fd, data, most > 0 && size > (size_t)most ? (size_t)most : size);
}

static struct pin_audit_head head_of(const struct fixture *made) {
    struct pin_audit_head head;
    struct pin_error err = {0};
    assert_true(pin_audit_head_read(made->audit.head, &head, &err));
    return head;
}

static size_t lines_in(const char *text) {
    size_t count = 0;
    for (; (text = strchr(text, '\n')) != NULL; text++)
        count++;
    return count;
}

static void refused(struct fixture *made, enum pin_error_kind kind, const char *text) {
    struct pin_error err = {0};
    assert_false(write_event(made, "start", &err));
    assert_int_equal(err.kind, kind);
    assert_non_null(strstr(err.message, text));
}

static void a_record_is_one_line_whose_hash_is_of_its_own_bytes(void **state) {
    struct fixture *made = *state;
    struct pin_audit_record record;
    size_t size;
    write_events(made, 2);
    PIN_FREE char *text = read_log(made, &size);
    assert_int_equal(lines_in(text), 2);
    size_t first = strcspn(text, "\n");
    assert_true(pin_audit_record_parse(text, first, &record));
    assert_true(record.is_intact);
    assert_int_equal(record.seq, 1);
    assert_string_equal(record.prev, PIN_AUDIT_NO_HASH);
    char hash[PIN_DIGEST_TEXT];
    (void)snprintf(hash, sizeof(hash), "%s", record.hash);
    pin_audit_record_free(&record);
    assert_true(pin_audit_record_parse(text + first + 1, size - first - 2, &record));
    assert_string_equal(record.prev, hash);
    assert_string_equal(head_of(made).hash, record.hash);
    assert_int_equal(head_of(made).size, size);
    pin_audit_record_free(&record);
}

static void files_are_the_users_alone(void **state) {
    struct fixture *made = *state;
    struct stat facts;
    write_events(made, 1);
    assert_int_equal(stat(made->path, &facts), 0);
    assert_int_equal(facts.st_mode & 07777, 0600);
    assert_int_equal(fstat(made->audit.head, &facts), 0);
    assert_int_equal(facts.st_mode & 07777, 0600);
}

static void a_directory_that_others_may_enter_is_refused(void **state) {
    struct fixture *made = *state;
    struct pin_audit again = PIN_AUDIT_NONE;
    struct pin_error err = {0};
    assert_int_equal(chmod(made->folder, 0755), 0);
    assert_false(pin_audit_open_path(&again, made->path, true, &err));
    assert_int_equal(err.kind, PIN_ERROR_REFUSED);
    assert_int_equal(again.dir, -1);
}

static void a_log_that_lost_its_end_takes_no_more(void **state) {
    struct fixture *made = *state;
    write_events(made, 3);
    assert_int_equal(truncate(made->path, (off_t)head_of(made).size - 10), 0);
    refused(made, PIN_ERROR_REFUSED, "shorter");
}

static void a_log_that_was_removed_takes_no_more(void **state) {
    struct fixture *made = *state;
    write_events(made, 1);
    assert_int_equal(unlink(made->path), 0);
    refused(made, PIN_ERROR_REFUSED, "removed");
}

static void a_log_whose_head_was_removed_takes_no_more(void **state) {
    struct fixture *made = *state;
    char head[160];
    write_events(made, 1);
    (void)snprintf(head, sizeof(head), "%s.head", made->path);
    assert_int_equal(unlink(head), 0);
    refused(made, PIN_ERROR_REFUSED, "head");
}

static void a_log_that_ends_with_another_record_takes_no_more(void **state) {
    struct fixture *made = *state;
    size_t size;
    write_events(made, 2);
    PIN_FREE char *text = read_log(made, &size);
    text[size - 10] = text[size - 10] == 'a' ? 'b' : 'a';
    put_log(made, text, size);
    refused(made, PIN_ERROR_REFUSED, "doesn't end");
}

static void a_full_disk_is_an_error_and_leaves_no_half_record(void **state) {
    struct fixture *made = *state;
    struct pin_error err = {0};
    size_t before, after;
    write_events(made, 1);
    PIN_FREE char *text = read_log(made, &before);
    for (most = 0; most <= 20; most += 20) {
        assert_false(write_event(made, "start", &err));
        assert_int_equal(err.kind, PIN_ERROR_EXHAUSTED);
        assert_int_equal(err.os_errno, ENOSPC);
        pin_error_clear(&err);
    }
    most = -1;
    PIN_FREE char *same = read_log(made, &after);
    assert_int_equal(before, after);
    assert_memory_equal(text, same, before);
    write_events(made, 1);
}

static void a_record_that_a_killed_writer_left_half_is_cut_off_and_that_is_told(void **state) {
    struct fixture *made = *state;
    struct pin_audit_record record;
    size_t size;
    write_events(made, 1);
    PIN_CLOSE int fd = open(made->path, O_WRONLY | O_APPEND | O_CLOEXEC);
    assert_int_equal(write(fd, "{\"seq\":2,", 9), 9);
    write_events(made, 1);
    PIN_FREE char *text = read_log(made, &size);
    assert_int_equal(lines_in(text), 3);
    const char *second = strchr(text, '\n') + 1;
    assert_true(pin_audit_record_parse(second, strcspn(second, "\n"), &record));
    assert_string_equal(json_string_value(json_object_get(record.json, "event")), "repair");
    assert_int_equal(
        json_integer_value(json_object_get(json_object_get(record.json, "data"), "dropped_bytes")), 9);
    pin_audit_record_free(&record);
}

static void a_record_whose_writer_was_killed_before_the_head_is_kept(void **state) {
    struct fixture *made = *state;
    struct pin_error err = {0};
    write_events(made, 1);
    struct pin_audit_head before = head_of(made);
    write_events(made, 1);
    assert_true(pin_audit_head_write(made->audit.head, &before, &err));
    write_events(made, 1);
    assert_int_equal(head_of(made).seq, 3);
}

static void two_records_ahead_of_the_head_are_nobodys_crash(void **state) {
    struct fixture *made = *state;
    struct pin_error err = {0};
    write_events(made, 1);
    struct pin_audit_head before = head_of(made);
    write_events(made, 2);
    assert_true(pin_audit_head_write(made->audit.head, &before, &err));
    refused(made, PIN_ERROR_REFUSED, "goes on");
}

static void a_full_file_is_rotated_and_the_chain_goes_on(void **state) {
    struct fixture *made = *state;
    char rotated[192];
    made->audit.rotate_bytes = 1000;
    write_events(made, 8);
    struct pin_audit_head head = head_of(made);
    assert_int_equal(head.seq, 8);
    assert_true(head.first > 1);
    (void)snprintf(rotated, sizeof(rotated), "%s.%020d", made->path, 1);
    assert_int_equal(access(rotated, R_OK), 0);
}

static void a_writer_killed_in_the_middle_of_a_rotation_loses_nothing(void **state) {
    struct fixture *made = *state;
    char rotated[192];
    write_events(made, 2);
    (void)snprintf(rotated, sizeof(rotated), "%s.%020d", made->path, 1);
    assert_int_equal(rename(made->path, rotated), 0);
    write_events(made, 1);
    assert_int_equal(head_of(made).seq, 3);
    assert_int_equal(head_of(made).first, 3);
}

static void a_record_that_would_be_too_long_is_refused(void **state) {
    struct fixture *made = *state;
    struct pin_error err = {0};
    char *large = calloc(1, PIN_AUDIT_LINE_MAX);
    assert_non_null(large);
    memset(large, 'x', PIN_AUDIT_LINE_MAX - 1);
    json_t *data = json_pack("{s:s}", "text", large);
    const struct pin_audit_event event = {"start", NULL, NULL, data};
    assert_false(pin_audit_write(&made->audit, &event, NULL, &err));
    assert_int_equal(err.kind, PIN_ERROR_INVALID);
    json_decref(data);
    free(large);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        LOG_TEST(a_record_is_one_line_whose_hash_is_of_its_own_bytes),
        LOG_TEST(files_are_the_users_alone),
        LOG_TEST(a_directory_that_others_may_enter_is_refused),
        LOG_TEST(a_log_that_lost_its_end_takes_no_more),
        LOG_TEST(a_log_that_was_removed_takes_no_more),
        LOG_TEST(a_log_whose_head_was_removed_takes_no_more),
        LOG_TEST(a_log_that_ends_with_another_record_takes_no_more),
        LOG_TEST(a_full_disk_is_an_error_and_leaves_no_half_record),
        LOG_TEST(a_record_that_a_killed_writer_left_half_is_cut_off_and_that_is_told),
        LOG_TEST(a_record_whose_writer_was_killed_before_the_head_is_kept),
        LOG_TEST(two_records_ahead_of_the_head_are_nobodys_crash),
        LOG_TEST(a_full_file_is_rotated_and_the_chain_goes_on),
        LOG_TEST(a_writer_killed_in_the_middle_of_a_rotation_loses_nothing),
        LOG_TEST(a_record_that_would_be_too_long_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
