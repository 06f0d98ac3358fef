/* A wait for what is expected: awake while it may come soon, asleep otherwise. Time goes on by what the loop
 * calls, and an event comes when the test says. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <time.h>

#include <cmocka.h>
#include <sys/eventfd.h>

#include "base/units.h"
#include "runtime/egress/broker/poll.h"

#define US UINT64_C(1000)
#define YIELD_TAKES (7 * US)

static struct scene {
    struct poll poll;
    struct watch watch;
    uint64_t now_ns, comes_at_ns;
    unsigned yields, sleeps, calls;
} scene;

int __wrap_clock_gettime(clockid_t clock, struct timespec *now);
int __wrap_clock_gettime(clockid_t clock, struct timespec *now) {
    (void)clock;
    *now = (struct timespec){.tv_sec = (time_t)(scene.now_ns / PIN_NS_PER_S),
                             .tv_nsec = (long)(scene.now_ns % PIN_NS_PER_S)};
    return 0;
}

int __wrap_sched_yield(void);
int __wrap_sched_yield(void) {
    scene.yields++;
    scene.now_ns += YIELD_TAKES;
    return 0;
}

int __wrap_epoll_wait(int epoll, struct epoll_event *events, int most, int timeout_ms);
int __wrap_epoll_wait(int epoll, struct epoll_event *events, int most, int timeout_ms) {
    (void)epoll;
    (void)most;
    if (scene.now_ns < scene.comes_at_ns && timeout_ms == 0)
        return 0;
    if (scene.now_ns < scene.comes_at_ns) {
        scene.sleeps++;
        scene.now_ns = scene.comes_at_ns;
    }
    *events = (struct epoll_event){.events = EPOLLIN, .data.ptr = &scene.watch};
    return 1;
}

static void count(struct watch *watch, uint32_t events) {
    (void)watch;
    (void)events;
    scene.calls++;
}

static int set_up(void **state) {
    (void)state;
    scene = (struct scene){
        .now_ns = PIN_NS_PER_S, .watch = {.fd = eventfd(0, EFD_CLOEXEC), .ready = count}
    };
    return scene.watch.fd >= 0 && poll_open(&scene.poll) ? 0 : -1;
}

static int tear_down(void **state) {
    (void)state;
    poll_close(&scene.watch);
    poll_shut(&scene.poll);
    return 0;
}

/* A round whose event comes after so long. */
static void round_of(uint64_t after_ns, bool expected) {
    scene.yields = scene.sleeps = scene.calls = 0;
    scene.comes_at_ns = scene.now_ns + after_ns;
    if (expected)
        poll_expect(&scene.poll);
    assert_true(poll_round(&scene.poll, -1));
    assert_int_equal(scene.calls, 1);
}

static void what_comes_soon_is_met_awake(void **state) {
    (void)state;
    for (int i = 0; i < 3; i++) {
        round_of(150 * US, true);
        assert_int_equal(scene.sleeps, 0);
        assert_int_equal(scene.yields, 22);
    }
}

static void what_nobody_expects_is_slept_for(void **state) {
    (void)state;
    round_of(150 * US, true);
    round_of(150 * US, false); /* once said, once done */
    assert_int_equal(scene.sleeps, 1);
    assert_int_equal(scene.yields, 0);
}

static void what_comes_late_is_slept_for_until_it_comes_soon_again(void **state) {
    (void)state;
    round_of(5000 * US, true);
    assert_int_equal(scene.sleeps, 1);
    assert_int_equal(scene.yields, 29); /* the first time, and no longer than this */
    assert_true(scene.yields * YIELD_TAKES <= POLL_AWAKE_NS + YIELD_TAKES);
    for (int i = 0; i < 3; i++) {
        round_of(5000 * US, true);
        assert_int_equal(scene.yields, 0);
        assert_int_equal(scene.sleeps, 1);
    }
    round_of(250 * US, true); /* part of which is being woken */
    assert_int_equal(scene.yields, 0);
    round_of(150 * US, true);
    assert_int_equal(scene.sleeps, 0);
}

static void who_has_spent_half_of_the_effort_sleeps(void **state) {
    (void)state;
    effort_spend(&scene.poll.effort, EFFORT_BURST_NS / 2, scene.now_ns);
    scene.poll.effort.left.at_ns = UINT64_MAX; /* and nothing comes back */
    round_of(150 * US, true);
    assert_int_equal(scene.yields, 0);
    assert_int_equal(scene.sleeps, 1);
}

/* Processor time passes as time does, here. */
static void being_awake_is_effort(void **state) {
    (void)state;
    scene.watch.labours = LABOURS_ALWAYS;
    round_of(0, false);
    scene.watch.labours = 0;
    round_of(150 * US, true);
    assert_int_equal(scene.yields, 22);
    uint64_t left = scene.poll.effort.left.level;
    assert_true(left <= EFFORT_BURST_NS - 22 * YIELD_TAKES);
}

static void a_look_stays_a_look(void **state) {
    (void)state;
    scene.comes_at_ns = UINT64_MAX;
    poll_expect(&scene.poll);
    assert_true(poll_round(&scene.poll, 0));
    assert_int_equal(scene.yields + scene.sleeps + scene.calls, 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(what_comes_soon_is_met_awake, set_up, tear_down),
        cmocka_unit_test_setup_teardown(what_nobody_expects_is_slept_for, set_up, tear_down),
        cmocka_unit_test_setup_teardown(what_comes_late_is_slept_for_until_it_comes_soon_again, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(who_has_spent_half_of_the_effort_sleeps, set_up, tear_down),
        cmocka_unit_test_setup_teardown(being_awake_is_effort, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_look_stays_a_look, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
