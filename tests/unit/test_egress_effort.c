/* The broker's loop while programs inside ask for more than it may do: what asks waits, all else goes on. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/units.h"
#include "runtime/egress/broker/poll.h"

#define S PIN_NS_PER_S
#define MS PIN_NS_PER_MS

struct source {
    struct watch watch;
    unsigned calls;
};

static void count(struct watch *watch, uint32_t events) {
    (void)events;
    container_of(watch, struct source, watch)->calls++;
}

static struct source ready_source(bool inlet) {
    return (struct source){
        .watch = {.fd = eventfd(1, EFD_CLOEXEC),
                  .ready = count,
                  .inlet = inlet,
                  .labours = inlet ? LABOURS_ALWAYS : 0}
    };
}

/* As if so much had been done since the last look. */
static void exhaust(struct poll *poll) {
    (void)pin_bucket_level(&poll->effort.left, now_ns());
    poll->effort.left.level = 0;
    effort_spend(&poll->effort, 0, now_ns());
}

static void half_a_processor_is_what_comes_back(void **state) {
    (void)state;
    struct effort effort;
    effort_open(&effort);
    effort_spend(&effort, 1, S);
    assert_false(effort_is_spent(&effort, S));
    effort.left.level = 0;
    effort_spend(&effort, 1, S);
    assert_true(effort_is_spent(&effort, S));
    assert_int_equal(effort_timeout(&effort, S, -1), 11);
    assert_int_equal(effort_timeout(&effort, S, 7), 7);
    assert_true(effort_is_spent(&effort, S + 9 * MS));
    assert_false(effort_is_spent(&effort, S + 10 * MS));
    assert_int_equal(effort.left.level, 5 * MS);
    assert_int_equal(pin_bucket_level(&effort.left, S + 110 * MS), 55 * MS);
    assert_int_equal(pin_bucket_level(&effort.left, 100 * S), 500 * MS);
    assert_int_equal(effort_timeout(&effort, 100 * S, -1), -1);
}

static void what_programs_ask_for_waits_and_the_rest_goes_on(void **state) {
    (void)state;
    struct poll poll = {.handled = 0};
    struct source inlet = ready_source(true), other = ready_source(false);
    assert_true(poll_open(&poll) && poll_want(&poll, &inlet.watch, EPOLLIN) &&
                poll_want(&poll, &other.watch, EPOLLIN));
    assert_true(poll_round(&poll, 0) && inlet.calls == 1 && other.calls == 1);
    assert_int_equal(poll_timeout(&poll, now_ns(), -1), -1);
    do { /* one who is kept from running for long finds it filled again */
        inlet.calls = other.calls = 0;
        exhaust(&poll);
        assert_true(poll_round(&poll, 0));
    } while (inlet.calls > 0);
    assert_int_equal(other.calls, 1);
    assert_true(poll.parked == &inlet.watch);
    assert_in_range(poll_timeout(&poll, now_ns(), -1), 0, 50);
    while (inlet.calls == 0)
        assert_true(poll_round(&poll, poll_timeout(&poll, now_ns(), -1)));
    assert_null(poll.parked);
    poll_close(&inlet.watch);
    poll_close(&other.watch);
    (void)close(poll.epoll);
}

static void one_that_waits_can_go_away(void **state) {
    (void)state;
    struct poll poll = {.handled = 0};
    struct source inlets[3] = {ready_source(true), ready_source(true), ready_source(true)};
    assert_true(poll_open(&poll));
    for (size_t i = 0; i < 3; i++)
        assert_true(poll_want(&poll, &inlets[i].watch, EPOLLIN));
    while (poll.parked == NULL || inlets[0].watch.parked_link == NULL ||
           inlets[1].watch.parked_link == NULL || inlets[2].watch.parked_link == NULL) {
        exhaust(&poll);
        assert_true(poll_round(&poll, 0));
    }
    poll_close(&inlets[1].watch);
    poll_close(&inlets[0].watch);
    assert_true(poll.parked == &inlets[2].watch && inlets[2].watch.parked_next == NULL);
    inlets[0].calls = inlets[1].calls = inlets[2].calls = 0;
    poll_lift(&poll);
    assert_true(poll_round(&poll, 0));
    assert_int_equal(inlets[2].calls, 1);
    exhaust(&poll);
    assert_true(poll_round(&poll, 0));
    assert_int_equal(inlets[2].calls, 2); /* nothing holds it any more */
    assert_int_equal(inlets[0].calls + inlets[1].calls, 0);
    poll_close(&inlets[2].watch);
    (void)close(poll.epoll);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(half_a_processor_is_what_comes_back),
        cmocka_unit_test(what_programs_ask_for_waits_and_the_rest_goes_on),
        cmocka_unit_test(one_that_waits_can_go_away),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
