/* The way of the bytes: sinks, outlets and collectors, without any sandbox. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/names.h"
#include "base/units.h"
#include "runtime/supervise/collector.h"
#include "runtime/supervise/sink.h"

static enum pin_io uring = PIN_IO_URING, epoll = PIN_IO_EPOLL;

static struct pin_loop *make_loop(void **state) {
    struct pin_error err = {0};
    struct pin_loop *loop = pin_loop_new(*(const enum pin_io *)*state, &err);
    if (loop == NULL)
        fail_msg("%s", err.message);
    return loop;
}

static void step(struct pin_loop *loop) {
    struct pin_error err = {0};
    if (!pin_loop_step(loop, &err))
        fail_msg("%s", err.message);
}

static void too_late(void *self) {
    (void)self;
    fail_msg("nothing happened in time");
}

struct seen {
    int drained, broken, cut, ended, error;
};

static void on_drained(void *self) {
    ((struct seen *)self)->drained++;
}

static void on_broken(void *self, int error) {
    struct seen *seen = self;
    seen->broken++;
    seen->error = error;
}

static void on_cut(void *self) {
    ((struct seen *)self)->cut++;
}

static void on_end(void *self) {
    ((struct seen *)self)->ended++;
}

static void on_frame(void *self, const struct pin_frame_info *info, const uint8_t *payload) {
    (void)self, (void)info, (void)payload;
    fail_msg("a frame where none was sent");
}

static void fill(uint8_t *data, size_t size) {
    for (size_t i = 0; i < size; i++)
        data[i] = (uint8_t)(i * 2654435761u >> 13);
}

enum kind { A_PIPE, A_NONBLOCKING_PIPE, A_SOCKET, KIND_COUNT };

static void open_ends(enum kind kind, int ends[2]) {
    if (kind == A_SOCKET)
        assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
    else
        assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
    if (kind == A_NONBLOCKING_PIPE)
        assert_int_equal(fcntl(ends[1], F_SETFL, O_NONBLOCK), 0);
    assert_int_equal(fcntl(ends[0], F_SETFL, O_NONBLOCK), 0);
}

#define SIZE ((size_t)3 * 1024 * 1024)

static void a_sink_never_blocks_and_loses_nothing(void **state) {
    static uint8_t data[SIZE], back[SIZE + 1];
    fill(data, SIZE);
    for (int kind = 0; kind < KIND_COUNT; kind++) {
        struct pin_loop *loop = make_loop(state);
        struct pin_error err = {0};
        struct seen seen = {0};
        int ends[2];
        open_ends((enum kind)kind, ends);
        (void)pin_loop_at(loop, pin_now_ns() + 60 * PIN_NS_PER_S, too_late, NULL, &err);
        const struct pin_sink_events events = {&seen, on_drained, on_broken};
        struct pin_sink *sink = pin_sink_new(loop, ends[1], false, &events, &err);
        int flags = fcntl(ends[1], F_GETFL);
        pin_sink_write(sink, data, SIZE / 2);
        assert_true(pin_sink_is_full(sink));
        pin_sink_write(sink, data + SIZE / 2, SIZE - SIZE / 2);
        size_t size = 0;
        while (size < SIZE) {
            ssize_t got = read(ends[0], back + size, SIZE + 1 - size);
            if (got > 0)
                size += (size_t)got;
            else
                step(loop);
        }
        while (pin_sink_is_full(sink))
            step(loop);
        assert_memory_equal(back, data, SIZE);
        assert_int_equal(seen.drained, 1);
        assert_int_equal(seen.broken, 0);
        assert_int_equal(fcntl(ends[1], F_GETFL), flags);
        pin_sink_free(sink);
        pin_loop_free(loop);
        (void)close(ends[0]), (void)close(ends[1]);
    }
}

static void a_broken_sink_says_so_once_and_takes_everything(void **state) {
    struct pin_loop *loop = make_loop(state);
    struct pin_error err = {0};
    struct seen seen = {0};
    PIN_CLOSE int full = open("/dev/full", O_WRONLY | O_CLOEXEC);
    const struct pin_sink_events events = {&seen, on_drained, on_broken};
    struct pin_sink *sink = pin_sink_new(loop, full, false, &events, &err);
    for (int i = 0; i < 3; i++)
        pin_sink_write(sink, "lost", 4);
    assert_int_equal(seen.broken, 1);
    assert_int_equal(seen.error, ENOSPC);
    assert_false(pin_sink_is_full(sink));
    pin_sink_free(sink);
    pin_loop_free(loop);
}

static void a_reader_that_goes_while_the_sink_is_full_breaks_it(void **state) {
    static uint8_t data[SIZE];
    struct pin_loop *loop = make_loop(state);
    struct pin_error err = {0};
    struct seen seen = {0};
    int ends[2];
    (void)signal(SIGPIPE, SIG_IGN);
    open_ends(A_PIPE, ends);
    (void)pin_loop_at(loop, pin_now_ns() + 60 * PIN_NS_PER_S, too_late, NULL, &err);
    const struct pin_sink_events events = {&seen, on_drained, on_broken};
    struct pin_sink *sink = pin_sink_new(loop, ends[1], true, &events, &err);
    pin_sink_write(sink, data, SIZE);
    (void)close(ends[0]);
    while (seen.broken == 0)
        step(loop);
    assert_int_equal(seen.error, EPIPE);
    assert_false(pin_sink_is_full(sink));
    pin_sink_free(sink);
    pin_loop_free(loop);
}

struct collecting {
    struct pin_loop *loop;
    struct pin_text text;
    struct pin_outlet outlet;
    struct pin_collector *collector;
    struct seen seen;
    int writer;
};

static void start(struct collecting *one, void **state, uint64_t limit_bytes) {
    struct pin_error err = {0};
    int ends[2];
    *one = (struct collecting){.loop = make_loop(state)};
    assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
    one->writer = ends[1];
    one->outlet = (struct pin_outlet){.kind = PIN_OUTPUT_CAPTURE, .text = &one->text};
    const struct pin_collector_options options = {.fd = ends[0],
                                                  .limit_bytes = limit_bytes,
                                                  .outlet = &one->outlet,
                                                  .record = &one->text,
                                                  .self = &one->seen,
                                                  .on_frame = on_frame,
                                                  .on_cut = on_cut,
                                                  .on_end = on_end};
    one->collector = pin_collector_new(one->loop, &options, &err);
    assert_non_null(one->collector);
    (void)pin_loop_at(one->loop, pin_now_ns() + 60 * PIN_NS_PER_S, too_late, NULL, &err);
}

static void finish(struct collecting *one) {
    pin_collector_free(one->collector);
    pin_loop_free(one->loop);
    pin_close_fd(&one->writer);
    free(one->text.data);
}

static void text_is_kept_up_to_its_limit_exactly(void **state) {
    static const struct {
        size_t limit, kept;
        bool truncated;
    } rows[] = {
        {0,  0,  true },
        {1,  1,  true },
        {9,  9,  true },
        {10, 10, false},
        {11, 10, false},
    };
    for (size_t i = 0; i < PIN_COUNT(rows); i++) {
        struct collecting one;
        start(&one, state, rows[i].limit);
        assert_int_equal(write(one.writer, "0123456789", 10), 10);
        pin_close_fd(&one.writer);
        while (one.seen.ended == 0)
            step(one.loop);
        assert_int_equal(one.text.size, rows[i].kept);
        assert_int_equal(one.text.truncated, rows[i].truncated);
        assert_int_equal(one.seen.cut, rows[i].truncated);
        assert_int_equal(one.text.total_bytes, 10);
        finish(&one);
    }
}

static void a_pipe_grows_for_a_stream_that_runs_hot_and_only_for_it(void **state) {
    static uint8_t data[60000];
    struct collecting one;
    start(&one, state, PIN_MIB);
    int small = fcntl(one.writer, F_GETPIPE_SZ);
    assert_int_equal(write(one.writer, "trickle", 7), 7);
    while (one.text.total_bytes < 7)
        step(one.loop);
    assert_int_equal(fcntl(one.writer, F_GETPIPE_SZ), small);
    assert_int_equal(write(one.writer, data, sizeof(data)), sizeof(data));
    while (one.text.total_bytes < 7 + sizeof(data))
        step(one.loop);
    assert_true(fcntl(one.writer, F_GETPIPE_SZ) > small);
    finish(&one);
}

static void a_stopped_collector_leaves_the_writer_a_broken_pipe(void **state) {
    struct collecting one;
    (void)signal(SIGPIPE, SIG_IGN);
    start(&one, state, PIN_MIB);
    pin_collector_stop(one.collector);
    assert_true(pin_collector_has_ended(one.collector));
    assert_int_equal(one.seen.ended, 1);
    struct pollfd end = {.fd = one.writer};
    while (poll(&end, 1, 0) == 0) { /* a ring holds the file until its read is cancelled */
        struct pin_error err = {0};
        (void)pin_loop_at(one.loop, pin_now_ns(), on_end, &one.seen, &err);
        step(one.loop);
    }
    assert_int_equal(write(one.writer, "x", 1), -1);
    assert_int_equal(errno, EPIPE);
    finish(&one);
}

static void a_pipe_that_somebody_still_holds_is_seen_to_be_dry(void **state) {
    struct collecting one;
    start(&one, state, PIN_MIB);
    assert_int_equal(write(one.writer, "abc", 3), 3);
    assert_false(pin_collector_is_dry(one.collector));
    while (one.text.total_bytes < 3)
        step(one.loop);
    assert_true(pin_collector_is_dry(one.collector));
    finish(&one);
}

/* False when the pipe is full. */
static bool push(struct collecting *one) {
    static uint8_t data[60000];
    struct pin_error err = {0};
    bool wrote = write(one->writer, data, sizeof(data)) > 0;
    (void)pin_loop_at(one->loop, pin_now_ns(), on_end, &one->seen, &err);
    step(one->loop);
    return wrote;
}

/* What another stream's reader does is no reason to read this one on: memory would grow with every turn. */
static void a_collector_whose_reader_is_stuck_isnt_resumed_by_another(void **state) {
    struct collecting one;
    struct pin_error err = {0};
    const struct pin_sink_events events = {&one.seen, on_drained, on_broken};
    int stuck[2];
    start(&one, state, PIN_GIB);
    open_ends(A_PIPE, stuck);
    one.outlet = (struct pin_outlet){.kind = PIN_OUTPUT_PASS,
                                     .sink = pin_sink_new(one.loop, stuck[1], false, &events, &err)};
    assert_int_equal(fcntl(one.writer, F_SETFL, O_NONBLOCK), 0);
    while (push(&one) || !pin_sink_is_full(one.outlet.sink)) /* until both pipes are full */
        if (!pin_sink_is_full(one.outlet.sink))
            pin_collector_resume(one.collector);
    uint64_t before = pin_collector_progress(one.collector);
    for (int i = 0; i < 5; i++) {
        pin_collector_resume(one.collector);
        (void)push(&one);
    }
    assert_int_equal(pin_collector_progress(one.collector), before);
    pin_collector_free(one.collector);
    one.collector = NULL;
    pin_sink_free(one.outlet.sink);
    (void)close(stuck[0]), (void)close(stuck[1]);
    finish(&one);
}

#define ON_BOTH(test)                                                                                        \
    {#test " (uring)", test, NULL, NULL, &uring}, {                                                          \
#test " (epoll)", test, NULL, NULL, &epoll                                                           \
    }

int main(void) {
    const struct CMUnitTest tests[] = {
        ON_BOTH(a_sink_never_blocks_and_loses_nothing),
        ON_BOTH(a_broken_sink_says_so_once_and_takes_everything),
        ON_BOTH(a_reader_that_goes_while_the_sink_is_full_breaks_it),
        ON_BOTH(text_is_kept_up_to_its_limit_exactly),
        ON_BOTH(a_pipe_grows_for_a_stream_that_runs_hot_and_only_for_it),
        ON_BOTH(a_stopped_collector_leaves_the_writer_a_broken_pipe),
        ON_BOTH(a_pipe_that_somebody_still_holds_is_seen_to_be_dry),
        ON_BOTH(a_collector_whose_reader_is_stuck_isnt_resumed_by_another),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
