#include <string.h>

#include "runtime/bills/bill.h"
#include "test.h"

#define HEAD                                                                                                 \
    "{\"v\":1,\"id\":\"0123456789abcdef0123456789abcdef\",\"part\":2,\"kind\":\"run\",\"sandbox\":\"s\","
#define LABELS "\"labels\":{\"tenant\":\"a\"},"
#define NUMBERS                                                                                              \
    "\"at_ms\":1,\"cpu_ns\":2,\"memory_byte_ms\":3,\"wall_ms\":4,\"egress_out\":5,\"egress_in\":6,\"runs\":" \
    "7}"

static bool parse(const char *line, struct pin_bill *bill, json_t **whole) {
    return pin_bill_parse(line, strlen(line), bill, whole);
}

static void a_line_is_read_whole(void **state) {
    struct pin_bill bill;
    json_t *whole = NULL;
    (void)state;
    assert_true(parse(HEAD LABELS NUMBERS, &bill, &whole));
    assert_string_equal(bill.id, "0123456789abcdef0123456789abcdef");
    assert_int_equal(bill.part, 2);
    assert_string_equal(json_string_value(json_object_get(bill.labels, "tenant")), "a");
    assert_int_equal(bill.at_ms + bill.cpu_ns + bill.memory_byte_ms + bill.wall_ms, 1 + 2 + 3 + 4);
    assert_int_equal(bill.egress_out + bill.egress_in + bill.runs, 5 + 6 + 7);
    json_decref(whole);
}

static void what_is_no_bill_is_told_apart(void **state) {
    static const char *const lines[] = {
        "",
        "[]",
        "{}",
        HEAD LABELS,
        HEAD NUMBERS,
        HEAD "\"labels\":{\"tenant\":1}," NUMBERS,
        HEAD LABELS "\"at_ms\":-1}",
        "{\"v\":2,\"id\":\"0123456789abcdef0123456789abcdef\",\"part\":1,\"kind\":\"run\",\"sandbox\":"
        "\"s\"," LABELS NUMBERS,
        "{\"v\":1,\"id\":\"01\",\"part\":1,\"kind\":\"run\",\"sandbox\":\"s\"," LABELS NUMBERS,
    };
    (void)state;
    for (size_t i = 0; i < sizeof(lines) / sizeof(lines[0]); i++) {
        struct pin_bill bill;
        json_t *whole = NULL;
        if (parse(lines[i], &bill, &whole))
            fail_msg("accepted: %s", lines[i]);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_line_is_read_whole),
        cmocka_unit_test(what_is_no_bill_is_told_apart),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
