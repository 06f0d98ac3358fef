/* Whatever is done to a log that was closed properly is found, and named. */
#include "test.h"

#include "audit_log_fixture.h"

struct findings {
    size_t count;
    struct pin_audit_finding list[16];
};

static void note(void *self, const struct pin_audit_finding *finding) {
    struct findings *found = self;
    if (found->count < PIN_COUNT(found->list))
        found->list[found->count] = *finding;
    found->count++;
}

static struct findings verify_from(struct fixture *made, uint64_t from) {
    struct findings found = {0};
    struct pin_audit_verifier verifier;
    struct pin_audit_head head;
    struct pin_error err = {0};
    pin_audit_verifier_init(&verifier, from, note, &found);
    assert_true(pin_audit_verify(&made->audit, &verifier, &head, &err));
    return found;
}

static bool names(const struct findings *found, enum pin_audit_fault fault, uint64_t seq, uint64_t last) {
    for (size_t i = 0; i < found->count && i < PIN_COUNT(found->list); i++)
        if (found->list[i].fault == fault && found->list[i].seq == seq && found->list[i].last == last)
            return true;
    return false;
}

/* The lines of the log, each with its end. */
struct lines {
    char *text;
    char *at[8];
    size_t size[8], count;
};

static struct lines split_log(const struct fixture *made) {
    struct lines lines = {0};
    size_t size;
    lines.text = read_log(made, &size);
    for (char *at = lines.text; at < lines.text + size; at += lines.size[lines.count++]) {
        lines.at[lines.count] = at;
        lines.size[lines.count] = strcspn(at, "\n") + 1;
    }
    return lines;
}

/* Writes the lines in another order; -1 ends it. */
static void reorder(const struct fixture *made, const int *order) {
    struct lines lines = split_log(made);
    char *text = calloc(8, PIN_AUDIT_LINE_MAX);
    size_t size = 0;
    assert_non_null(text);
    for (; *order >= 0; order++) {
        memcpy(text + size, lines.at[*order], lines.size[*order]);
        size += lines.size[*order];
    }
    put_log(made, text, size);
    free(text);
    free(lines.text);
}

static void a_whole_log_has_no_findings(void **state) {
    struct fixture *made = *state;
    assert_int_equal(verify_from(made, 1).count, 0);
    write_events(made, 5);
    assert_int_equal(verify_from(made, 1).count, 0);
    made->audit.rotate_bytes = 1000;
    write_events(made, 5);
    assert_int_equal(verify_from(made, 1).count, 0);
}

static void every_single_byte_that_is_changed_is_found(void **state) {
    struct fixture *made = *state;
    size_t size;
    write_events(made, 2);
    char *text = read_log(made, &size);
    for (size_t i = 0; i < size; i++) {
        char was = text[i];
        text[i] ^= 1;
        put_log(made, text, size);
        assert_true(verify_from(made, 1).count > 0);
        text[i] = was;
    }
    free(text);
}

static void an_edited_record_is_named(void **state) {
    struct fixture *made = *state;
    size_t size;
    write_events(made, 4);
    char *text = read_log(made, &size);
    char *second = strchr(text, '\n') + 1;
    memcpy(strstr(second, "echo"), "rmrf", 4);
    put_log(made, text, size);
    struct findings found = verify_from(made, 1);
    assert_int_equal(found.count, 1);
    assert_true(names(&found, PIN_AUDIT_EDITED, 2, 2));
    assert_int_equal(found.list[0].line, 2);
    free(text);
}

/* Somebody who knows how a hash is made, but doesn't go on to the end. */
static void a_record_that_was_made_anew_is_named(void **state) {
    struct fixture *made = *state;
    struct pin_audit_record record;
    struct pin_error err = {0};
    char hash[PIN_DIGEST_TEXT];
    size_t size;
    write_events(made, 3);
    struct lines lines = split_log(made);
    assert_true(pin_audit_record_parse(lines.at[1], lines.size[1] - 1, &record));
    const struct pin_audit_event event = {"start", "another", NULL, NULL};
    const struct pin_audit_stamp stamp = {1, 2, "boot"};
    PIN_FREE char *forged = pin_audit_record_print(2, record.prev, &stamp, &event, &size, hash, &err);
    PIN_FREE char *text = calloc(3, PIN_AUDIT_LINE_MAX);
    assert_non_null(forged);
    assert_non_null(text);
    memcpy(text, lines.at[0], lines.size[0]);
    memcpy(text + lines.size[0], forged, size);
    memcpy(text + lines.size[0] + size, lines.at[2], lines.size[2]);
    put_log(made, text, lines.size[0] + size + lines.size[2]);
    struct findings found = verify_from(made, 1);
    assert_int_equal(found.count, 1);
    assert_true(names(&found, PIN_AUDIT_REPLACED, 2, 2));
    put_log(made, text, lines.size[0] + size); /* as the last one, only the head knows better */
    found = verify_from(made, 1);
    assert_true(names(&found, PIN_AUDIT_TRUNCATED, 3, 3));
    pin_audit_record_free(&record);
    free(lines.text);
}

static void removed_reordered_and_truncated_records_are_named(void **state) {
    struct fixture *made = *state;
    static const struct {
        int order[8];
        enum pin_audit_fault fault;
        uint64_t seq, last;
    } cases[] = {
        {{1, 2, 3, 4, -1},       PIN_AUDIT_REMOVED,   1, 1},
        {{0, 1, 4, -1},          PIN_AUDIT_REMOVED,   3, 4},
        {{0, 1, 3, 2, 4, -1},    PIN_AUDIT_MISPLACED, 3, 3},
        {{0, 1, 2, 2, 3, 4, -1}, PIN_AUDIT_MISPLACED, 3, 3},
        {{0, 1, 2, -1},          PIN_AUDIT_TRUNCATED, 4, 5},
        {{-1},                   PIN_AUDIT_TRUNCATED, 1, 5},
    };
    size_t size;
    write_events(made, 5);
    PIN_FREE char *text = read_log(made, &size);
    for (size_t i = 0; i < PIN_COUNT(cases); i++) {
        reorder(made, cases[i].order);
        struct findings found = verify_from(made, 1);
        assert_true(names(&found, cases[i].fault, cases[i].seq, cases[i].last));
        put_log(made, text, size);
    }
}

static void a_torn_end_is_named(void **state) {
    struct fixture *made = *state;
    size_t size;
    write_events(made, 3);
    PIN_FREE char *text = read_log(made, &size);
    put_log(made, text, size - 5);
    struct findings found = verify_from(made, 1);
    assert_true(names(&found, PIN_AUDIT_MALFORMED, 0, 0));
    assert_true(names(&found, PIN_AUDIT_TRUNCATED, 3, 3));
}

static void a_removed_file_is_named_unless_the_log_is_said_to_begin_later(void **state) {
    struct fixture *made = *state;
    char rotated[192];
    made->audit.rotate_bytes = 1000;
    write_events(made, 8);
    (void)snprintf(rotated, sizeof(rotated), "%s.%020d", made->path, 1);
    assert_int_equal(unlink(rotated), 0);
    struct findings found = verify_from(made, 1);
    assert_int_equal(found.count, 1);
    assert_int_equal(found.list[0].fault, PIN_AUDIT_REMOVED);
    assert_int_equal(found.list[0].seq, 1);
    assert_int_equal(verify_from(made, found.list[0].last + 1).count, 0);
}

static void a_line_without_end_is_skipped_in_bounded_memory(void **state) {
    struct fixture *made = *state;
    size_t size;
    write_events(made, 2);
    PIN_FREE char *text = read_log(made, &size);
    size_t first = strcspn(text, "\n") + 1, junk = PIN_AUDIT_LINE_MAX * 2 + 17;
    PIN_FREE char *longer = malloc(size + junk + 1);
    assert_non_null(longer);
    memcpy(longer, text, first);
    memset(longer + first, 'x', junk);
    longer[first + junk] = '\n';
    memcpy(longer + first + junk + 1, text + first, size - first);
    put_log(made, longer, size + junk + 1);
    struct findings found = verify_from(made, 1);
    assert_int_equal(found.count, 1);
    assert_int_equal(found.list[0].fault, PIN_AUDIT_MALFORMED);
    assert_int_equal(found.list[0].line, 2);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        LOG_TEST(a_whole_log_has_no_findings),
        LOG_TEST(every_single_byte_that_is_changed_is_found),
        LOG_TEST(an_edited_record_is_named),
        LOG_TEST(a_record_that_was_made_anew_is_named),
        LOG_TEST(removed_reordered_and_truncated_records_are_named),
        LOG_TEST(a_torn_end_is_named),
        LOG_TEST(a_removed_file_is_named_unless_the_log_is_said_to_begin_later),
        LOG_TEST(a_line_without_end_is_skipped_in_bounded_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
