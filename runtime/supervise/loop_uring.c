#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <unistd.h>

#include <liburing.h>

#include "base/cleanup.h"
#include "base/io.h"
#include "base/names.h"
#include "base/units.h"
#include "runtime/supervise/loop_backend.h"

#define RING_ENTRIES 16
#define BUFFERS 8 /* a power of two, and more than a run has streams */
#define BUFFER_SIZE 16384
#define BUFFER_GROUP 0
#define CLOSE_TRIES 64

/* Streams that trickle read into provided buffers, of which only the pages in use are in memory. A stream
 * that fills one runs hot, and gets a large buffer of its own. */
struct uring_state {
    struct io_uring ring;
    struct io_uring_buf_ring *provided; /* NULL before Linux 5.19: every stream has its own buffer */
    uint8_t *buffers;
    size_t lent; /* of the provided buffers, to paused sources */
    size_t in_flight;
};

/* One thread submits and waits (6.1), or at least no interrupt is needed to complete (5.19). */
static const unsigned ring_flags[] = {
    IORING_SETUP_SINGLE_ISSUER | IORING_SETUP_DEFER_TASKRUN | IORING_SETUP_CLAMP,
    IORING_SETUP_COOP_TASKRUN | IORING_SETUP_CLAMP,
    IORING_SETUP_CLAMP,
};

static int open_ring(struct io_uring *ring) {
    int status = -EINVAL;
    for (size_t i = 0; i < PIN_COUNT(ring_flags) && status == -EINVAL; i++)
        status = io_uring_queue_init(RING_ENTRIES, ring, ring_flags[i]);
    return status;
}

static bool disabled_by_sysctl(void) {
    struct pin_error ignored = {0};
    size_t size;
    PIN_FREE char *text = pin_read_file_at(-1, "/proc/sys/kernel/io_uring_disabled", 16, &size, &ignored);
    return text != NULL && (text[0] == '2' || (text[0] == '1' && geteuid() != 0));
}

static bool refused(int cause, struct pin_error *err) {
    errno = cause;
    (void)pin_fail_errno(err, "make an io_uring loop");
    if (cause == ENOSYS)
        return pin_hint(err,
                        "this kernel, or a filter around this process, has no io_uring; use '--io epoll'");
    if (cause == ENOMEM)
        return pin_hint(err, "raise the limit of locked memory (ulimit -l), or use '--io epoll'");
    if (disabled_by_sysctl())
        return pin_hint(err, "set the sysctl kernel.io_uring_disabled to 0, or use '--io epoll'");
    return pin_hint(err, "a filter or a security module forbids io_uring; use '--io auto' or '--io epoll'");
}

static void add_buffer(struct uring_state *state, int number) {
    io_uring_buf_ring_add(state->provided, state->buffers + (size_t)number * BUFFER_SIZE, BUFFER_SIZE,
                          (unsigned short)number, io_uring_buf_ring_mask(BUFFERS), 0);
    io_uring_buf_ring_advance(state->provided, 1);
}

/* `size`: of what was read into it. */
static void give_back(struct uring_state *state, const struct pin_source *source, int number, size_t size) {
    if (source->wiped)
        explicit_bzero(state->buffers + (size_t)number * BUFFER_SIZE, size);
    add_buffer(state, number);
}

static uint8_t *map_memory(size_t size) {
    void *memory = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    return memory == MAP_FAILED ? NULL : memory;
}

/* One mapping: the ring of buffers, which must begin a page, and after it the buffers. */
#define RING_ROOM ((size_t)65536) /* the largest page */
static void provide_buffers(struct uring_state *state) {
    _Static_assert(BUFFERS * sizeof(struct io_uring_buf) <= RING_ROOM, "the buffer ring fits its room");
    uint8_t *memory = map_memory(RING_ROOM + (size_t)BUFFERS * BUFFER_SIZE);
    if (memory == NULL)
        return;
    struct io_uring_buf_reg registration = {
        .ring_addr = (uintptr_t)memory, .ring_entries = BUFFERS, .bgid = BUFFER_GROUP};
    if (io_uring_register_buf_ring(&state->ring, &registration, 0) != 0) {
        (void)munmap(memory, RING_ROOM + (size_t)BUFFERS * BUFFER_SIZE);
        return;
    }
    state->provided = (struct io_uring_buf_ring *)(void *)memory;
    state->buffers = memory + RING_ROOM;
    io_uring_buf_ring_init(state->provided);
    for (int i = 0; i < BUFFERS; i++)
        add_buffer(state, i);
}

static bool open_uring(struct pin_loop *loop, struct pin_error *err) {
    struct uring_state *state = calloc(1, sizeof(*state));
    if (state == NULL)
        return pin_fail_errno(err, "make an io_uring loop");
    int status = open_ring(&state->ring);
    if (status < 0) {
        free(state);
        return refused(-status, err);
    }
    provide_buffers(state);
    loop->state = state;
    return true;
}

static struct io_uring_sqe *next_sqe(struct uring_state *state) {
    struct io_uring_sqe *sqe = io_uring_get_sqe(&state->ring);
    if (sqe == NULL) { /* the queue is full: the kernel takes what is in it */
        (void)io_uring_submit(&state->ring);
        sqe = io_uring_get_sqe(&state->ring);
    }
    return sqe;
}

static void submit_read(struct uring_state *state, struct pin_source *source, struct io_uring_sqe *sqe) {
    if (source->uring.buffer == NULL && state->provided == NULL)
        source->uring.buffer = map_memory(PIN_LOOP_READ_MAX);
    if (source->uring.buffer != NULL) {
        io_uring_prep_read(sqe, source->fd, source->uring.buffer, (unsigned)PIN_LOOP_READ_MAX, UINT64_MAX);
        return;
    }
    io_uring_prep_read(sqe, source->fd, NULL, BUFFER_SIZE, UINT64_MAX); /* -1: the file's own position */
    sqe->flags |= IOSQE_BUFFER_SELECT;
    sqe->buf_group = BUFFER_GROUP;
}

static void arm(struct pin_loop *loop, struct pin_source *source) {
    struct uring_state *state = loop->state;
    if (source->uring.starved && state->lent >= BUFFERS)
        return;
    struct io_uring_sqe *sqe = next_sqe(state);
    if (sqe == NULL)
        return; /* tried again before the next wait */
    source->uring.starved = false;
    source->uring.polling = source->events != 0 || source->uring.poll_first;
    if (source->uring.strict)
        io_uring_prep_poll_add(sqe, source->uring.strict_fd, POLLIN);
    else if (source->uring.polling)
        io_uring_prep_poll_add(sqe, source->fd, source->events != 0 ? source->events : POLLIN);
    else
        submit_read(state, source, sqe);
    io_uring_sqe_set_data(sqe, source);
    source->busy = true;
    state->in_flight++;
}

static void cancel(struct pin_source *source) {
    struct io_uring_sqe *sqe = next_sqe(source->loop->state);
    if (sqe == NULL)
        return;
    io_uring_prep_cancel(sqe, source, 0);
    io_uring_sqe_set_data(sqe, NULL);
    source->uring.cancelling = true;
}

static void release(struct uring_state *state, struct pin_source *source) {
    if (source->uring.strict)
        pin_close_fd(&source->uring.strict_fd);
    source->uring.strict = false;
    if (source->uring.holds && source->uring.held_buffer >= 0) {
        give_back(state, source, source->uring.held_buffer, (size_t)source->uring.held_result);
        state->lent--;
    }
    source->uring.holds = false;
    if (source->uring.buffer != NULL)
        (void)munmap(source->uring.buffer, PIN_LOOP_READ_MAX);
    source->uring.buffer = NULL;
}

static void changed(struct pin_source *source) {
    if (!source->removed)
        return;
    if (source->busy && !source->uring.cancelling)
        cancel(source);
    if (!source->busy && !source->uring.delivering)
        release(source->loop->state, source);
}

static bool add(struct pin_loop *loop, struct pin_source *source, struct pin_error *err) {
    (void)loop, (void)source, (void)err; /* armed before the next wait */
    return true;
}

static void deliver(struct uring_state *state, struct pin_source *source, int buffer, int result) {
    uint8_t *data = buffer >= 0 ? state->buffers + (size_t)buffer * BUFFER_SIZE : source->uring.buffer;
    source->uring.delivering = true; /* the callback may remove the source, and the bytes outlive that */
    if (result > 0)
        pin_source_bytes(source, data, (size_t)result, 0);
    else
        pin_source_bytes(source, NULL, 0, -result);
    source->uring.delivering = false;
    if (buffer >= 0)
        give_back(state, source, buffer, (size_t)result);
    else if (source->wiped && result > 0)
        explicit_bzero(data, (size_t)result);
    if (source->removed)
        release(state, source);
    else if (buffer >= 0 && result == BUFFER_SIZE)
        source->uring.buffer = map_memory(PIN_LOOP_READ_MAX); /* no memory: it goes on with small ones */
}

static void complete_read(struct uring_state *state, struct pin_source *source, int buffer, int result) {
    if (result == -EINTR || result == -ECANCELED)
        return;
    if (result ==
        -EAGAIN) { /* non-blocking, and a kernel that doesn't wait for this kind of file by itself */
        source->uring.poll_first = true;
        return;
    }
    if (result == -ENOBUFS) {
        source->uring.starved = true;
        return;
    }
    if (source->paused) {
        source->uring.holds = true;
        source->uring.held_buffer = buffer;
        source->uring.held_result = result;
        state->lent += buffer >= 0;
        return;
    }
    deliver(state, source, buffer, result);
}

/* The mask of every poll of io_uring's has POLLRDHUP in it (IO_POLL_UNMASK in the kernel's io_uring/poll.c).
 * A peer that has said all would end each of them at once, with nothing of what is waited for, for as long as
 * that takes: such a descriptor is watched by an epoll of its own, which tells what it was asked for, and
 * that by the ring. */
static void watch_strictly(struct pin_source *source) {
    PIN_CLOSE int fd = epoll_create1(EPOLL_CLOEXEC);
    struct epoll_event wanted = {.events = source->events};
    if (fd < 0 || epoll_ctl(fd, EPOLL_CTL_ADD, source->fd, &wanted) != 0)
        return; /* no descriptor is left: the ring is asked again and again until there is one */
    source->uring.strict_fd = pin_steal_fd(&fd);
    source->uring.strict = true;
}

static void complete_watch(struct pin_source *source, unsigned events) {
    struct epoll_event now = {.events = events};
    if (source->uring.strict && epoll_wait(source->uring.strict_fd, &now, 1, 0) != 1)
        return;
    events = now.events & (source->events | POLLERR | POLLHUP | POLLNVAL);
    if (events != 0)
        pin_source_ready(source, events);
    else if (!source->uring.strict)
        watch_strictly(source);
}

static void complete_poll(struct pin_source *source, int result) {
    if (source->events == 0) {
        source->uring.poll_first = false; /* readable: now read */
        if (result < 0 && result != -ECANCELED && result != -EINTR)
            pin_source_bytes(source, NULL, 0, -result);
        return;
    }
    if (result >= 0)
        complete_watch(source, (unsigned)result);
    else if (result != -ECANCELED && result != -EINTR)
        pin_source_ready(source, POLLERR);
}

static void complete(struct uring_state *state, const struct io_uring_cqe *cqe) {
    struct pin_source *source = io_uring_cqe_get_data(cqe);
    if (source == NULL)
        return;
    int buffer = cqe->flags & IORING_CQE_F_BUFFER ? (int)(cqe->flags >> IORING_CQE_BUFFER_SHIFT) : -1;
    state->in_flight--;
    source->busy = false;
    if (source->removed) {
        if (buffer >= 0)
            give_back(state, source, buffer, cqe->res > 0 ? (size_t)cqe->res : 0);
        release(state, source);
        return;
    }
    if (buffer >= 0 && cqe->res <= 0) {
        add_buffer(state, buffer);
        buffer = -1;
    }
    if (source->uring.polling)
        complete_poll(source, cqe->res);
    else
        complete_read(state, source, buffer, cqe->res);
}

static void deliver_held(struct uring_state *state, struct pin_source *source) {
    source->uring.holds = false;
    state->lent -= source->uring.held_buffer >= 0;
    deliver(state, source, source->uring.held_buffer, source->uring.held_result);
}

/* True when something was delivered, so that there is nothing to wait for. */
static bool arm_all(struct pin_loop *loop) {
    bool delivered = false;
    for (struct pin_source *source = loop->sources; source != NULL; source = source->next) {
        if (source->removed && source->busy && !source->uring.cancelling)
            cancel(source);
        if (!source->paused && !source->removed && source->uring.holds) {
            deliver_held(loop->state, source);
            delivered = true;
        }
        if (!source->paused && !source->removed && !source->busy)
            arm(loop, source);
    }
    return delivered;
}

static int submit_and_wait(struct io_uring *ring, uint64_t timeout_ns) {
    if (timeout_ns == UINT64_MAX)
        return io_uring_submit_and_wait(ring, 1);
    struct io_uring_cqe *first;
    struct __kernel_timespec timeout = {(long long)(timeout_ns / PIN_NS_PER_S),
                                        (long long)(timeout_ns % PIN_NS_PER_S)};
    return io_uring_submit_and_wait_timeout(ring, &first, 1, &timeout, NULL);
}

static void complete_all(struct uring_state *state) {
    struct io_uring_cqe *cqe;
    while (io_uring_peek_cqe(&state->ring, &cqe) == 0) {
        struct io_uring_cqe copy = {.user_data = cqe->user_data, .res = cqe->res, .flags = cqe->flags};
        io_uring_cqe_seen(&state->ring, cqe);
        complete(state, &copy);
    }
}

static bool wait(struct pin_loop *loop, uint64_t timeout_ns, struct pin_error *err) {
    struct uring_state *state = loop->state;
    bool delivered = arm_all(loop);
    int status = submit_and_wait(&state->ring, delivered ? 0 : timeout_ns);
    if (status < 0 && status != -ETIME && status != -EINTR && status != -EAGAIN && status != -EBUSY) {
        errno = -status;
        return pin_fail_errno(err, "wait for events");
    }
    if (io_uring_sq_ready(&state->ring) >
        0) /* a callback may close a descriptor that is still to be taken up */
        (void)io_uring_submit(&state->ring);
    complete_all(state);
    return true;
}

/* The kernel may still write into a buffer of a read in flight: those are waited for, and if one doesn't come
 * back, its memory stays mapped for good rather than be given to somebody else. */
static void close_uring(struct pin_loop *loop) {
    struct uring_state *state = loop->state;
    for (int i = 0; i < CLOSE_TRIES && state->in_flight > 0; i++) {
        (void)arm_all(loop);
        (void)submit_and_wait(&state->ring, 10 * PIN_NS_PER_MS);
        complete_all(state);
    }
    io_uring_queue_exit(&state->ring);
    if (state->provided != NULL && state->in_flight == 0)
        (void)munmap(state->provided, RING_ROOM + (size_t)BUFFERS * BUFFER_SIZE);
    free(state);
}

const struct pin_backend pin_backend_uring = {
    .io = PIN_IO_URING,
    .open = open_uring,
    .close = close_uring,
    .add = add,
    .changed = changed,
    .wait = wait,
};
