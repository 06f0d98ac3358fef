/* The broker's records on their way out: how many, whatever happens inside, and none uncounted. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/units.h"
#include "runtime/egress/broker/report.h"

struct told {
    uint64_t records, times;
};

static void take(int from, struct told *told) {
    struct pin_egress_event event;
    while (recv(from, &event, sizeof(event), MSG_DONTWAIT) == (ssize_t)sizeof(event)) {
        told->records++;
        told->times += event.repeated > 0 ? event.repeated : 1;
    }
}

/* So many of one kind in a second, each of another name; the clock is the test's. */
static struct told tell(enum pin_egress_event_kind kind, unsigned seconds, unsigned per_second) {
    int ends[2];
    struct report report;
    struct told told = {0};
    uint64_t now = PIN_NS_PER_S;
    assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends), 0);
    report_open(&report, ends[0]);
    for (unsigned i = 0; i < seconds * per_second; i++, now += PIN_NS_PER_S / per_second) {
        struct pin_egress_event event = {.kind = kind, .rule = PIN_EGRESS_NO_RULE};
        event.name_size = (uint32_t)snprintf(event.name, sizeof(event.name), "x%u.example.com", i);
        report_event(&report, &event, now);
        report_tick(&report, now);
        take(ends[1], &told);
    }
    report_close(&report);
    take(ends[1], &told);
    (void)close(ends[0]);
    (void)close(ends[1]);
    return told;
}

static void a_loop_of_refusals_is_told_of_in_sums_after_a_while(void **state) {
    (void)state;
    struct told told = tell(PIN_EGRESS_EVENT_REFUSE, 400, 100);
    assert_int_equal(told.times, 40000);
    assert_in_range(told.records, 10000, 10000 + 400 * (10 + 1) + 100); /* 1: the sums */
}

static void connections_are_told_of_one_by_one_up_to_their_rate(void **state) {
    (void)state;
    struct told slow = tell(PIN_EGRESS_EVENT_CONNECT, 400, 100);
    assert_int_equal(slow.times, 40000);
    assert_int_equal(slow.records, 40000);
    struct told fast = tell(PIN_EGRESS_EVENT_CONNECT, 20, 2000);
    assert_int_equal(fast.times, 40000);
    assert_in_range(fast.records, 200 * 20, 1000 + 20 * (200 + 1) + 100);
}

static void what_happens_again_is_one_record_with_a_count(void **state) {
    (void)state;
    int ends[2];
    struct report report;
    struct told told = {0};
    assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends), 0);
    report_open(&report, ends[0]);
    for (unsigned i = 0; i < 5; i++) {
        struct pin_egress_event event = {
            .kind = PIN_EGRESS_EVENT_REFUSE, .rule = PIN_EGRESS_NO_RULE, .repeated = i == 0 ? 0 : 10};
        report_event(&report, &event, PIN_NS_PER_S + i);
    }
    report_close(&report);
    take(ends[1], &told);
    assert_int_equal(told.records, 2);
    assert_int_equal(told.times, 41);
    (void)close(ends[0]);
    (void)close(ends[1]);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_loop_of_refusals_is_told_of_in_sums_after_a_while),
        cmocka_unit_test(connections_are_told_of_one_by_one_up_to_their_rate),
        cmocka_unit_test(what_happens_again_is_one_record_with_a_count),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
