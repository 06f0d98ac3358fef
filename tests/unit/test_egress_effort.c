/* The broker's loop while programs inside ask for more than it may do: what asks waits, all else goes on. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
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

/* The processor's clock, where a test turns it: then only what a source takes, and the loop is said to take,
 * is spent. */
static struct turned_clock {
    bool is_turned;
    uint64_t now_ns, charged_ns;
} clock_of_test;

static void turn_clock(void) {
    clock_of_test = (struct turned_clock){.is_turned = true, .now_ns = S};
}

uint64_t __real_effort_clock(void);
uint64_t __wrap_effort_clock(void);
uint64_t __wrap_effort_clock(void) {
    return clock_of_test.is_turned ? clock_of_test.now_ns : __real_effort_clock();
}

void __real_effort_spend(struct effort *effort, uint64_t spent_ns, uint64_t now);
void __wrap_effort_spend(struct effort *effort, uint64_t spent_ns, uint64_t now);
void __wrap_effort_spend(struct effort *effort, uint64_t spent_ns, uint64_t now) {
    clock_of_test.charged_ns += spent_ns;
    __real_effort_spend(effort, spent_ns, now);
}

/* Takes its time, each time that it is called. */
struct worker {
    struct source source;
    uint64_t takes_ns;
    bool lingers; /* so that by the clock on the wall, too, it is time to charge for it */
};

static void work(struct watch *watch, uint32_t events) {
    const struct worker *worker =
        container_of(container_of(watch, struct source, watch), struct worker, source);
    uint64_t begun = now_ns();
    count(watch, events);
    clock_of_test.now_ns += worker->takes_ns;
    while (worker->lingers && now_ns() - begun < MS)
        continue;
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
    poll_shut(&poll);
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
    poll_shut(&poll);
}

static struct worker worker(uint8_t labours, bool inlet, uint64_t takes_ns) {
    struct worker made = {.source = ready_source(inlet), .takes_ns = takes_ns};
    made.source.watch.ready = work;
    made.source.watch.labours = labours;
    return made;
}

/* A round, and what the loop takes of the processor until the next one. */
static void turn(struct poll *poll, uint64_t waiting_takes_ns) {
    assert_true(poll_round(poll, 0));
    clock_of_test.now_ns += waiting_takes_ns;
}

/* What has been charged since it was asked last; the loop charges at the start of a round without labour. */
static uint64_t charged(struct poll *poll, struct watch *only) {
    if (only != NULL)
        assert_true(poll_want(poll, only, 0));
    assert_true(poll_round(poll, 0));
    uint64_t sum = clock_of_test.charged_ns;
    clock_of_test.charged_ns = 0;
    return sum;
}

static void a_loop_of_questions_pays_for_all_of_its_rounds(void **state) {
    (void)state;
    struct poll poll = {.handled = 0};
    struct worker asks = worker(LABOURS_ALWAYS, true, 3 * MS);
    turn_clock();
    assert_true(poll_open(&poll) && poll_want(&poll, &asks.source.watch, EPOLLIN));
    for (int i = 0; i < 10; i++)
        turn(&poll, 2 * MS);
    assert_int_equal(asks.source.calls, 10);
    assert_int_equal(charged(&poll, &asks.source.watch), 10 * (3 + 2) * MS); /* the waiting's own cost, too */
    turn(&poll, 2 * MS);
    assert_int_equal(charged(&poll, NULL), 0); /* a round without any isn't one */
    clock_of_test.is_turned = false;
    poll_close(&asks.source.watch);
    poll_shut(&poll);
}

static void moving_bytes_is_no_effort_but_for_the_first_calls_of_a_connection(void **state) {
    (void)state;
    struct poll poll = {.handled = 0};
    struct worker moves = worker(2, false, 7 * MS);
    turn_clock();
    assert_true(poll_open(&poll) && poll_want(&poll, &moves.source.watch, EPOLLIN));
    for (int i = 0; i < 5; i++)
        turn(&poll, MS);
    assert_int_equal(moves.source.calls, 5);
    assert_int_equal(charged(&poll, &moves.source.watch), 2 * (7 + 1) * MS);
    clock_of_test.is_turned = false;
    poll_close(&moves.source.watch);
    poll_shut(&poll);
}

static void bytes_that_are_moved_beside_questions_are_not_theirs(void **state) {
    (void)state;
    struct poll poll = {.handled = 0};
    struct worker asks = worker(LABOURS_ALWAYS, true, 3 * MS), moves = worker(0, false, 50 * MS);
    turn_clock();
    assert_true(poll_open(&poll) && poll_want(&poll, &asks.source.watch, EPOLLIN) &&
                poll_want(&poll, &moves.source.watch, EPOLLIN));
    for (int i = 0; i < 4; i++)
        turn(&poll, MS);
    assert_int_equal(moves.source.calls, 4);
    assert_int_equal(charged(&poll, &asks.source.watch), 4 * (3 + 1) * MS);
    clock_of_test.is_turned = false;
    poll_close(&asks.source.watch);
    poll_close(&moves.source.watch);
    poll_shut(&poll);
}

static void what_is_asked_while_nothing_is_left_is_neither_done_nor_charged(void **state) {
    (void)state;
    struct poll poll = {.handled = 0};
    struct worker asks = worker(LABOURS_ALWAYS, true, 600 * MS); /* more than there is at first */
    asks.lingers = true;
    turn_clock();
    assert_true(poll_open(&poll) && poll_want(&poll, &asks.source.watch, EPOLLIN));
    turn(&poll, 0);
    assert_int_equal(asks.source.calls, 1);
    poll.effort.left.at_ns = UINT64_MAX; /* and nothing comes back */
    for (int i = 0; i < 3; i++)
        turn(&poll, MS);
    assert_int_equal(asks.source.calls, 1);
    assert_true(poll.parked == &asks.source.watch);
    assert_int_equal(charged(&poll, NULL), 600 * MS);
    clock_of_test.is_turned = false;
    poll_close(&asks.source.watch);
    poll_shut(&poll);
}

static void one_alarm_stands_for_all_waits_before_it(void **state) {
    (void)state;
    struct poll poll = {.handled = 0};
    struct source source = ready_source(false);
    assert_true(poll_open(&poll) && poll_want(&poll, &source.watch, EPOLLIN));
    assert_true(poll_round(&poll, 3600 * 1000) && source.calls == 1 && poll.handled == 1);
    uint64_t first = poll.alarm_ns;
    assert_true(first > now_ns());
    assert_true(poll_round(&poll, 7200 * 1000) && poll.alarm_ns == first);
    assert_true(poll_round(&poll, 1800 * 1000) && poll.alarm_ns < first);
    assert_int_equal(source.calls, 3);
    poll_close(&source.watch);
    for (int i = 0; i < 3; i++) { /* each time anew, and it is nobody's event */
        uint64_t before = now_ns();
        assert_true(poll_round(&poll, 2));
        assert_int_equal(poll.handled, 0);
        assert_true(now_ns() - before >= 2 * MS);
    }
    poll_shut(&poll);
}

static unsigned calls_so_far;

static void number(struct watch *watch, uint32_t events) {
    (void)events;
    container_of(watch, struct source, watch)->calls = ++calls_so_far;
}

static void what_ends_waits_for_what_goes_on(void **state) {
    (void)state;
    struct poll poll = {.handled = 0};
    struct source ending = {.watch = {.fd = -1}}, going_on = {.watch = {.fd = -1}};
    int ended[2], open[2];
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ended), 0);
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, open), 0);
    ending.watch = (struct watch){.fd = ended[0], .ready = number};
    going_on.watch = (struct watch){.fd = open[0], .ready = number};
    assert_true(poll_open(&poll) && poll_want(&poll, &ending.watch, EPOLLIN | EPOLLRDHUP) &&
                poll_want(&poll, &going_on.watch, EPOLLIN | EPOLLRDHUP));
    assert_int_equal(shutdown(ended[1], SHUT_WR), 0); /* the first to be ready */
    assert_int_equal(write(open[1], "x", 1), 1);
    assert_true(poll_round(&poll, 0));
    assert_int_equal(going_on.calls, 1);
    assert_int_equal(ending.calls, 2);
    poll_close(&ending.watch);
    poll_close(&going_on.watch);
    (void)close(ended[1]);
    (void)close(open[1]);
    poll_shut(&poll);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(half_a_processor_is_what_comes_back),
        cmocka_unit_test(what_programs_ask_for_waits_and_the_rest_goes_on),
        cmocka_unit_test(one_that_waits_can_go_away),
        cmocka_unit_test(one_alarm_stands_for_all_waits_before_it),
        cmocka_unit_test(what_ends_waits_for_what_goes_on),
        cmocka_unit_test(a_loop_of_questions_pays_for_all_of_its_rounds),
        cmocka_unit_test(moving_bytes_is_no_effort_but_for_the_first_calls_of_a_connection),
        cmocka_unit_test(bytes_that_are_moved_beside_questions_are_not_theirs),
        cmocka_unit_test(what_is_asked_while_nothing_is_left_is_neither_done_nor_charged),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
