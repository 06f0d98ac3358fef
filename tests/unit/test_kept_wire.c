#include <string.h>

#include "runtime/kept/wire.h"
#include "test.h"

static bool put(struct pin_wire *wire, const void *bytes, size_t size, struct pin_error *err) {
    const uint8_t *from = bytes;
    while (size > 0) {
        size_t room = 0;
        uint8_t *to = pin_wire_room(wire, &room);
        assert_non_null(to);
        size_t part = room < size ? room : size;
        memcpy(to, from, part);
        if (!pin_wire_put(wire, part, err))
            return false;
        from += part;
        size -= part;
    }
    return true;
}

static void a_message_is_what_was_printed(void **state) {
    struct pin_wire wire = {.limit = 1000};
    struct pin_error err = {0};
    const char *text;
    size_t size = 0, length = 0;
    (void)state;
    uint8_t *bytes = pin_wire_print(json_pack("{s:i}", "a", 1), &size);
    assert_true(put(&wire, bytes, size, &err));
    assert_true(pin_wire_is_whole(&wire, &text, &length));
    assert_int_equal(length, 7);
    assert_memory_equal(text, "{\"a\":1}", 7);
    free(bytes);
    pin_wire_free(&wire);
}

static void a_read_never_goes_past_the_end_of_a_message(void **state) {
    struct pin_wire wire = {.limit = 1000};
    struct pin_error err = {0};
    size_t room = 0;
    (void)state;
    assert_non_null(pin_wire_room(&wire, &room));
    assert_int_equal(room, PIN_WIRE_HEAD);
    assert_true(put(&wire, "\0\0\0\5", 4, &err));
    assert_non_null(pin_wire_room(&wire, &room));
    assert_int_equal(room, 5);
    pin_wire_free(&wire);
}

static void a_length_over_the_limit_or_of_nothing_is_refused(void **state) {
    static const char *const heads[] = {"\0\0\3\xe9", "\0\0\0\0", "\xff\xff\xff\xff"};
    (void)state;
    for (size_t i = 0; i < 3; i++) {
        struct pin_wire wire = {.limit = 1000};
        struct pin_error err = {0};
        assert_false(put(&wire, heads[i], 4, &err));
        assert_int_equal(err.kind, PIN_ERROR_SYNTAX);
        pin_wire_free(&wire);
    }
}

static void a_long_message_takes_no_room_before_it_comes(void **state) {
    struct pin_wire wire = {.limit = PIN_WIRE_REQUEST_MAX};
    struct pin_error err = {0};
    size_t room;
    (void)state;
    assert_true(put(&wire, "\0\x3f\xff\xff", 4, &err));
    assert_non_null(pin_wire_room(&wire, &room));
    assert_true(wire.room <= 1024);
    pin_wire_free(&wire);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_message_is_what_was_printed),
        cmocka_unit_test(a_read_never_goes_past_the_end_of_a_message),
        cmocka_unit_test(a_length_over_the_limit_or_of_nothing_is_refused),
        cmocka_unit_test(a_long_message_takes_no_room_before_it_comes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
