#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>
#include <linux/filter.h>
#include <linux/seccomp.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/names.h"
#include "base/units.h"
#include "runtime/supervise/loop.h"
#include "tests/unit/loop_fixture.h"

struct reader {
    struct pin_source *source;
    uint8_t *data;
    size_t size, largest;
    unsigned calls;
    bool ended, pause_each, remove_at_first;
    int error;
};

static void on_bytes(void *self, const uint8_t *data, size_t size, int error) {
    struct reader *reader = self;
    reader->calls++;
    if (reader->remove_at_first)
        pin_source_remove(&reader->source);
    if (size == 0) {
        reader->ended = true;
        reader->error = error;
        return;
    }
    reader->data = realloc(reader->data, reader->size + size);
    memcpy(reader->data + reader->size, data, size);
    reader->size += size;
    reader->largest = size > reader->largest ? size : reader->largest;
    if (reader->pause_each)
        pin_source_pause(reader->source);
}

static void read_from(struct pin_loop *loop, struct reader *reader, int fd) {
    struct pin_error err = {0};
    reader->source = pin_loop_read(loop, fd, on_bytes, reader, &err);
    assert_non_null(reader->source);
}

static void fill(uint8_t *data, size_t size) {
    uint64_t x = 88172645463325252u;
    for (size_t i = 0; i < size; i++) {
        x ^= x << 13, x ^= x >> 7, x ^= x << 17;
        data[i] = (uint8_t)x;
    }
}

static pid_t write_by_child(int fd, const uint8_t *data, size_t size) {
    pid_t pid = fork();
    if (pid != 0)
        return pid;
    for (size_t at = 0; at < size;) {
        size_t part = 1 + (at * 7919) % 70000;
        ssize_t wrote = write(fd, data + at, part < size - at ? part : size - at);
        if (wrote < 0)
            _exit(1);
        at += (size_t)wrote;
    }
    _exit(0);
}

#define STREAMS 4
#define STREAM_SIZE ((size_t)3 * 1024 * 1024 + 17)

/* Short and long reads, hot and trickling streams, blocking and not: every byte in order, none mixed. */
static void streams_come_whole_and_in_order(void **state) {
    static uint8_t data[STREAMS][STREAM_SIZE];
    struct reader readers[STREAMS] = {0};
    pid_t pids[STREAMS];
    int fds[STREAMS];
    within(*state, 60 * PIN_NS_PER_S);
    for (int i = 0; i < STREAMS; i++) {
        int ends[2];
        fill(data[i], STREAM_SIZE);
        data[i][0] = (uint8_t)i;
        assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
        assert_true(fcntl(ends[0], F_SETFL, i % 2 ? O_NONBLOCK : 0) == 0);
        pids[i] = write_by_child(ends[1], data[i], STREAM_SIZE);
        (void)close(ends[1]);
        read_from(*state, &readers[i], fds[i] = ends[0]);
    }
    for (int i = 0; i < STREAMS; i++)
        while (!readers[i].ended)
            step(*state);
    for (int i = 0; i < STREAMS; i++) {
        assert_int_equal(readers[i].error, 0);
        assert_int_equal(readers[i].size, STREAM_SIZE);
        assert_memory_equal(readers[i].data, data[i], STREAM_SIZE);
        pin_source_remove(&readers[i].source);
        assert_int_equal(waitpid(pids[i], NULL, 0), pids[i]);
        (void)close(fds[i]);
        free(readers[i].data);
    }
}

#define CROWD 100
#define CROWD_SIZE ((size_t)40000)

/* All are ready before the first step: many more completions than the queue of a ring has room for, and than
 * there are buffers. */
static void read_crowd(struct pin_loop *loop) {
    static uint8_t data[CROWD_SIZE + CROWD];
    static struct reader readers[CROWD];
    int fds[CROWD];
    fill(data, sizeof(data));
    memset(readers, 0, sizeof(readers));
    for (int i = 0; i < CROWD; i++) {
        int ends[2];
        assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
        assert_int_equal(write(ends[1], data + i, CROWD_SIZE), CROWD_SIZE); /* each another part of it */
        (void)close(ends[1]);
        read_from(loop, &readers[i], fds[i] = ends[0]);
    }
    for (int i = 0; i < CROWD; i++)
        while (!readers[i].ended)
            step(loop);
    for (int i = 0; i < CROWD; i++) {
        assert_int_equal(readers[i].size, CROWD_SIZE);
        assert_memory_equal(readers[i].data, data + i, CROWD_SIZE);
        pin_source_remove(&readers[i].source);
        (void)close(fds[i]);
        free(readers[i].data);
    }
}

static void streams_that_are_all_ready_at_once_come_whole(void **state) {
    within(*state, 60 * PIN_NS_PER_S);
    read_crowd(*state);
}

static void without_memory_to_lock_streams_come_whole_all_the_same(void **state) {
    (void)state;
    static const enum pin_io kinds[] = {PIN_IO_AUTO, PIN_IO_EPOLL};
    for (size_t i = 0; i < PIN_COUNT(kinds); i++) {
        int status;
        pid_t pid = fork();
        if (pid == 0) {
            struct pin_error err = {0};
            static const struct rlimit none = {0, 0};
            if (setrlimit(RLIMIT_MEMLOCK, &none) != 0 || (geteuid() == 0 && setuid(65534) != 0))
                _exit(1);
            struct pin_loop *loop = pin_loop_new(kinds[i], &err);
            if (loop == NULL)
                _exit(2);
            read_crowd(loop);
            pin_loop_free(loop);
            _exit(0);
        }
        assert_int_equal(waitpid(pid, &status, 0), pid);
        assert_int_equal(status, 0);
    }
}

static void a_paused_stream_is_neither_read_nor_lost(void **state) {
    int ends[2];
    struct reader one = {0}, other = {.pause_each = true};
    assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
    read_from(*state, &other, ends[0]);
    assert_int_equal(write(ends[1], "first", 5), 5);
    within(*state, 60 * PIN_NS_PER_S);
    while (other.size < 5)
        step(*state);
    int ticks[2];
    assert_int_equal(pipe2(ticks, O_CLOEXEC), 0);
    read_from(*state, &one, ticks[0]);
    assert_int_equal(write(ends[1], "second", 6), 6);
    for (size_t i = 1; i <= 5; i++) { /* the loop goes round, and the paused one isn't called */
        assert_int_equal(write(ticks[1], ".", 1), 1);
        while (one.size < i)
            step(*state);
        assert_int_equal(other.size, 5);
    }
    pin_source_resume(other.source);
    while (other.size < 11)
        step(*state);
    assert_memory_equal(other.data, "firstsecond", 11);
    free(one.data);
    free(other.data);
    for (int i = 0; i < 2; i++)
        (void)close(ends[i]), (void)close(ticks[i]);
}

static void pausing_while_a_read_is_in_flight_keeps_its_bytes_for_later(void **state) {
    int ends[2], ticks[2];
    struct reader one = {0}, other = {0};
    assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
    assert_int_equal(pipe2(ticks, O_CLOEXEC), 0);
    read_from(*state, &other, ends[0]);
    read_from(*state, &one, ticks[0]);
    within(*state, 60 * PIN_NS_PER_S);
    for (size_t i = 1; i <= 4; i++) {
        assert_int_equal(write(ticks[1], ".", 1), 1);
        if (i == 2) { /* by now a read of the other is in flight on a ring */
            pin_source_pause(other.source);
            assert_int_equal(write(ends[1], "kept", 4), 4);
        }
        while (one.size < i)
            step(*state);
        assert_int_equal(other.size, 0);
    }
    pin_source_resume(other.source);
    while (other.size < 4)
        step(*state);
    assert_memory_equal(other.data, "kept", 4);
    free(one.data);
    free(other.data);
    for (int i = 0; i < 2; i++)
        (void)close(ends[i]), (void)close(ticks[i]);
}

struct delivery {
    struct pin_source *source;
    const uint8_t *data;
    size_t size;
    bool removes;
};

static void note_where(void *self, const uint8_t *data, size_t size, int error) {
    struct delivery *delivery = self;
    (void)error;
    delivery->data = data;
    delivery->size = size;
    assert_int_equal(data[size - 1], 'x');
    if (delivery->removes)
        pin_source_remove(&delivery->source);
}

/* Of what a step delivered: how much is still in the loop's buffer. */
static size_t left_of(struct pin_loop *loop, struct delivery *delivery, int to, size_t size) {
    static uint8_t data[40000];
    size_t left = 0;
    memset(data, 'x', size);
    delivery->size = 0;
    assert_int_equal(write(to, data, size), size);
    while (delivery->size == 0)
        step(loop);
    assert_int_equal(delivery->size, size);
    const struct iovec here = {data, size}, there = {(void *)(uintptr_t)delivery->data, size};
    if (process_vm_readv(getpid(), &here, 1, &there, 1, 0) < 0)
        return 0; /* its memory is gone as a whole */
    for (size_t i = 0; i < size; i++)
        left += data[i] == 'x';
    return left;
}

/* Small pieces, one that makes the stream hot, and a large one after it; at last the source goes away in the
 * middle of its callback. */
static void what_a_wiped_stream_delivered_is_in_no_buffer(void **state) {
    static const size_t sizes[] = {1, 1000, 16384, 40000, 5};
    struct pin_error err = {0};
    struct delivery delivery = {0};
    int ends[2];
    within(*state, 60 * PIN_NS_PER_S);
    assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
    delivery.source = pin_loop_read(*state, ends[0], note_where, &delivery, &err);
    assert_non_null(delivery.source);
    assert_int_equal(left_of(*state, &delivery, ends[1], 1000), 1000);
    pin_source_wipe(delivery.source);
    for (size_t i = 0; i < PIN_COUNT(sizes); i++)
        assert_int_equal(left_of(*state, &delivery, ends[1], sizes[i]), 0);
    pin_source_remove(&delivery.source);
    delivery.source = pin_loop_read(*state, ends[0], note_where, &delivery, &err);
    assert_non_null(delivery.source);
    pin_source_wipe(delivery.source);
    delivery.removes = true;
    assert_int_equal(left_of(*state, &delivery, ends[1], 1000), 0);
    (void)close(ends[0]);
    (void)close(ends[1]);
}

static void a_source_may_remove_itself_in_its_callback(void **state) {
    int ends[2];
    struct reader reader = {.remove_at_first = true};
    assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
    read_from(*state, &reader, ends[0]);
    assert_int_equal(write(ends[1], "x", 1), 1);
    within(*state, 60 * PIN_NS_PER_S);
    while (reader.calls == 0)
        step(*state);
    assert_int_equal(reader.size, 1);
    assert_null(reader.source);
    free(reader.data);
    (void)close(ends[0]), (void)close(ends[1]);
}

static void regular_files_are_read_to_their_end(void **state) {
    PIN_CLOSE int fd = memfd_create("file", MFD_CLOEXEC);
    static uint8_t data[600 * 1024];
    struct reader reader = {0};
    fill(data, sizeof(data));
    assert_int_equal(write(fd, data, sizeof(data)), sizeof(data));
    assert_int_equal(lseek(fd, 100, SEEK_SET), 100); /* from where the file stands */
    read_from(*state, &reader, fd);
    within(*state, 60 * PIN_NS_PER_S);
    while (!reader.ended)
        step(*state);
    assert_int_equal(reader.size, sizeof(data) - 100);
    assert_memory_equal(reader.data, data + 100, reader.size);
    free(reader.data);
}

static void a_read_that_fails_ends_the_stream_with_its_errno(void **state) {
    PIN_CLOSE int fd = open("/", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    struct reader reader = {0};
    read_from(*state, &reader, fd);
    within(*state, 60 * PIN_NS_PER_S);
    while (!reader.ended)
        step(*state);
    assert_int_equal(reader.error, EISDIR);
}

static void one_descriptor_can_be_read_and_watched(void **state) {
    struct pin_error err = {0};
    struct reader reader = {0};
    struct watcher watcher = {0};
    int ends[2];
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
    read_from(*state, &reader, ends[0]);
    watcher.source = pin_loop_watch(*state, ends[0], POLLOUT, on_ready, &watcher, &err);
    assert_non_null(watcher.source);
    within(*state, 60 * PIN_NS_PER_S);
    while (watcher.calls == 0)
        step(*state);
    pin_source_pause(watcher.source);
    assert_int_equal(write(ends[1], "abc", 3), 3);
    while (reader.size < 3)
        step(*state);
    pin_source_remove(&reader.source);
    pin_source_remove(&watcher.source);
    free(reader.data);
    (void)close(ends[0]), (void)close(ends[1]);
}

struct ticks {
    char order[8];
    size_t count;
    uint64_t at_ns;
};

static void tick_a(void *self) {
    struct ticks *ticks = self;
    ticks->order[ticks->count++] = 'a';
    ticks->at_ns = pin_now_ns();
}

static void tick_b(void *self) {
    struct ticks *ticks = self;
    ticks->order[ticks->count++] = 'b';
}

static void timers_call_once_in_their_order_and_not_early(void **state) {
    struct pin_error err = {0};
    struct ticks ticks = {0};
    uint64_t now = pin_now_ns();
    assert_non_null(pin_loop_at(*state, now + 20 * PIN_NS_PER_MS, tick_a, &ticks, &err));
    assert_non_null(pin_loop_at(*state, now + 2 * PIN_NS_PER_MS, tick_b, &ticks, &err));
    struct pin_timer *cancelled = pin_loop_at(*state, now + PIN_NS_PER_MS, too_late, NULL, &err);
    pin_timer_cancel(&cancelled);
    pin_timer_cancel(&cancelled);
    while (ticks.count < 2)
        step(*state);
    assert_string_equal(ticks.order, "ba");
    assert_true(ticks.at_ns >= now + 20 * PIN_NS_PER_MS);
}

static void freeing_a_loop_with_work_in_flight_leaves_nothing(void **state) {
    (void)state;
    static const enum pin_io kinds[] = {PIN_IO_AUTO, PIN_IO_EPOLL};
    int before = open_descriptors();
    for (size_t i = 0; i < PIN_COUNT(kinds); i++) {
        struct pin_error err = {0};
        struct pin_loop *loop = pin_loop_new(kinds[i], &err);
        struct reader reader = {0};
        struct watcher watcher = {0};
        int ends[2];
        assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
        read_from(loop, &reader, ends[0]);
        (void)pin_loop_watch(loop, ends[0], POLLIN, on_ready, &watcher, &err);
        (void)pin_loop_at(loop, pin_now_ns() + PIN_NS_PER_MS, tick_b, &(struct ticks){0}, &err);
        step(loop);
        pin_loop_free(loop);
        (void)close(ends[0]), (void)close(ends[1]);
    }
    assert_int_equal(open_descriptors(), before);
}

static bool forbid_rings(unsigned error) {
    struct sock_filter code[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_io_uring_setup, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | error),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    const struct sock_fprog program = {PIN_COUNT(code), code};
    return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
           syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &program) == 0;
}

/* In a child: a filter stays for good. Exit status 0: as expected. */
static int try_refused(unsigned error) {
    struct pin_error err = {0};
    if (!forbid_rings(error))
        return 2;
    struct pin_loop *loop = pin_loop_new(PIN_IO_AUTO, &err);
    if (loop == NULL || pin_loop_backend(loop) != PIN_IO_EPOLL)
        return 3;
    pin_loop_free(loop);
    if (pin_loop_new(PIN_IO_URING, &err) != NULL)
        return 4;
    return err.os_errno == (int)error && strstr(err.hint, "--io epoll") != NULL ? 0 : 5;
}

static void a_refused_ring_means_epoll_or_an_error_that_says_how_to_mend_it(void **state) {
    (void)state;
    static const unsigned errors[] = {EPERM, ENOSYS, ENOMEM};
    for (size_t i = 0; i < PIN_COUNT(errors); i++) {
        int status;
        pid_t pid = fork();
        if (pid == 0)
            _exit(try_refused(errors[i]));
        assert_int_equal(waitpid(pid, &status, 0), pid);
        assert_int_equal(status, 0);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        ON_BOTH(streams_come_whole_and_in_order),
        ON_BOTH(streams_that_are_all_ready_at_once_come_whole),
        ON_BOTH(a_paused_stream_is_neither_read_nor_lost),
        ON_BOTH(pausing_while_a_read_is_in_flight_keeps_its_bytes_for_later),
        ON_BOTH(what_a_wiped_stream_delivered_is_in_no_buffer),
        ON_BOTH(a_source_may_remove_itself_in_its_callback),
        ON_BOTH(regular_files_are_read_to_their_end),
        ON_BOTH(a_read_that_fails_ends_the_stream_with_its_errno),
        ON_BOTH(one_descriptor_can_be_read_and_watched),
        ON_BOTH(timers_call_once_in_their_order_and_not_early),
        cmocka_unit_test(without_memory_to_lock_streams_come_whole_all_the_same),
        cmocka_unit_test(freeing_a_loop_with_work_in_flight_leaves_nothing),
        cmocka_unit_test(a_refused_ring_means_epoll_or_an_error_that_says_how_to_mend_it),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
