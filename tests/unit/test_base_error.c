#include "tests/unit/test.h"

#include <errno.h>
#include <string.h>

#include "base/arena.h"
#include "base/error.h"
#include "base/findings.h"

static void every_kind_has_a_name(void **state) {
    (void)state;
    for (int kind = 0; kind < PIN_ERROR_COUNT; kind++)
        assert_non_null(pin_error_kind_name((enum pin_error_kind)kind));
}

static void context_goes_in_front_and_the_cause_stays(void **state) {
    (void)state;
    struct pin_error err = {0};
    errno = ENOSPC;
    assert_false(pin_fail_errno(&err, "write '%s'", "upper"));
    assert_false(pin_wrap(&err, "step '%s'", "mounts"));
    assert_int_equal(err.kind, PIN_ERROR_EXHAUSTED);
    assert_int_equal(err.os_errno, ENOSPC);
    assert_string_equal(err.message, "step 'mounts': write 'upper': No space left on device (ENOSPC)");
}

static void when_room_runs_out_context_is_cut_and_not_the_cause(void **state) {
    (void)state;
    struct pin_error err = {0};
    char longest[400];
    memset(longest, 'c', sizeof(longest) - 1);
    longest[sizeof(longest) - 1] = '\0';
    (void)pin_fail(&err, PIN_ERROR_INVALID, "the cause");
    for (int i = 0; i < 5; i++)
        (void)pin_wrap(&err, "%s", longest);
    assert_true(strlen(err.message) < sizeof(err.message));
    assert_string_equal(err.message + strlen(err.message) - strlen(": the cause"), ": the cause");
}

static void the_first_place_and_the_first_hint_count(void **state) {
    (void)state;
    struct pin_error err = {0};
    (void)pin_fail(&err, PIN_ERROR_INVALID, "no");
    (void)pin_point(&err, "/a/%d", 1);
    (void)pin_point(&err, "/b");
    (void)pin_hint(&err, "mend it");
    (void)pin_hint(&err, "or not");
    assert_string_equal(err.pointer, "/a/1");
    assert_string_equal(err.hint, "mend it");
}

static void what_mends_a_cause_in_general_is_said_where_nobody_said_it(void **state) {
    (void)state;
    static const int causes[] = {EMFILE, ENFILE, EFBIG, ENOSPC, EDQUOT, ENOMEM, EROFS};
    for (size_t i = 0; i < sizeof(causes) / sizeof(*causes); i++) {
        struct pin_error err = {0};
        errno = causes[i];
        (void)pin_fail_errno(&err, "write");
        assert_string_not_equal(pin_error_hint(&err), "");
        assert_string_equal(err.hint, ""); /* who knows better may still say so */
        (void)pin_hint(&err, "better");
        assert_string_equal(pin_error_hint(&err), "better");
    }
    struct pin_error err = {0};
    errno = ENOTTY;
    (void)pin_fail_errno(&err, "write");
    assert_string_equal(pin_error_hint(&err), "");
}

static void findings_beyond_the_room_are_counted(void **state) {
    (void)state;
    static struct pin_findings found;
    struct pin_error err = {0};
    for (int i = 0; i < PIN_FINDINGS_MAX + 3; i++)
        (void)pin_find(&found, PIN_ERROR_REFUSED, "/x", NULL, "finding %d", i);
    assert_int_equal(found.count, PIN_FINDINGS_MAX);
    assert_int_equal(found.dropped, 3);
    assert_false(pin_fail_findings(&err, &found));
    assert_string_equal(err.message, "66 more findings besides: finding 0");
}

static void an_arena_keeps_what_it_gave_while_it_grows(void **state) {
    (void)state;
    struct pin_arena arena = {0};
    int *numbers = NULL;
    size_t count = 0;
    for (int i = 0; i < 1000; i++) {
        int *place = pin_arena_grow(&arena, &numbers, &count, sizeof(*numbers));
        assert_int_equal(*place, 0);
        *place = i;
        assert_int_equal((uintptr_t)pin_arena_strdup(&arena, "x") % sizeof(max_align_t) % 16, 0);
    }
    for (int i = 0; i < 1000; i++)
        assert_int_equal(numbers[i], i);
    assert_string_equal(pin_arena_printf(&arena, "%s-%d", "a", 7), "a-7");
    pin_arena_free(&arena);
    assert_null(arena.block);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_kind_has_a_name),
        cmocka_unit_test(context_goes_in_front_and_the_cause_stays),
        cmocka_unit_test(when_room_runs_out_context_is_cut_and_not_the_cause),
        cmocka_unit_test(the_first_place_and_the_first_hint_count),
        cmocka_unit_test(what_mends_a_cause_in_general_is_said_where_nobody_said_it),
        cmocka_unit_test(findings_beyond_the_room_are_counted),
        cmocka_unit_test(an_arena_keeps_what_it_gave_while_it_grows),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
