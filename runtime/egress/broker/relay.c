#include "runtime/egress/broker/relay.h"

#include <errno.h>
#include <netinet/in.h>
#include <sched.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include <linux/tcp.h>

#include "runtime/egress/tls_hello.h"
#include "runtime/egress/wire_name.h"

#define HELD_MAX (32u * 1024) /* a hello or a request head, and what came with it */
#define CHUNK_SMALL (16u * 1024)
#define BULK (RELAY_CHUNK_FIRST * 4) /* reads as large as that are a transfer at full speed */
#define LABOURS_FIRST 2 /* of each side: most that a connection costs which is made only to be closed */
#define ROUNDS 4        /* reads of one connection before the others' turn */

static struct side *other_of(struct side *side) {
    struct conn *conn = side->conn;
    return side == &conn->inner ? &conn->outer : &conn->inner;
}

static bool is_out(const struct side *from) {
    return from == &from->conn->inner;
}

static bool is_inspected(const struct side *from) {
    return from == &from->conn->inner && from->conn->inspection != PIN_INSPECT_NONE;
}

/* How many bytes the rates let through now. */
static uint64_t rate_level(const struct conn *conn) {
    bool limited = conn->payers.own->rate.per_second != 0 ||
                   (conn->payers.budget != NULL && conn->payers.budget->rate.per_second != 0);
    return limited ? payers_level(&conn->payers, now_ns()) : UINT64_MAX;
}

/* May more be read from this side now? */
static bool is_wanted(struct side *from) {
    struct conn *conn = from->conn;
    const struct side *to = other_of(from);
    if (from->read_ended || to->lost || to->pending_size > 0)
        return false;
    if (is_inspected(from) && conn->held_size >= HELD_MAX)
        return false;
    if (rate_level(conn) == 0) {
        conn->broker->throttled = true;
        return false;
    }
    return true;
}

static bool update_side(struct side *side) {
    uint32_t events =
        (is_wanted(side) ? EPOLLIN | EPOLLRDHUP : 0u) | (side->pending_size > 0 ? EPOLLOUT : 0u);
    return poll_want(&side->conn->broker->poll, &side->watch, events);
}

void relay_update(struct conn *conn) {
    if (!update_side(&conn->inner) || !update_side(&conn->outer))
        conn_abort(conn);
}

static bool keep(struct side *to, const uint8_t *data, size_t size) {
    uint8_t *copy = malloc(size);
    if (copy == NULL)
        return false;
    memcpy(copy, data, size);
    to->pending = copy;
    to->pending_at = 0;
    to->pending_size = size;
    to->conn->broker->pending_bytes += size;
    return true;
}

/* Appends to what waits already. */
static bool keep_more(struct side *to, const uint8_t *data, size_t size) {
    if (to->pending_size == 0)
        return keep(to, data, size);
    uint8_t *joined = malloc(to->pending_size + size);
    if (joined == NULL)
        return false;
    memcpy(joined, to->pending + to->pending_at, to->pending_size);
    memcpy(joined + to->pending_size, data, size);
    free(to->pending);
    to->pending = joined;
    to->pending_at = 0;
    to->pending_size += size;
    to->conn->broker->pending_bytes += size;
    return true;
}

/* It takes nothing any more. What it sent before is still there to be read: as a program that is connected
 * directly finds it, although a reset came behind it. False: all of that has been read. */
static bool lose(struct side *side) {
    side->conn->broker->pending_bytes -= side->pending_size;
    free(side->pending);
    side->pending = NULL;
    side->pending_size = 0;
    pipe_drop(&side->conn->broker->pipes, &side->pipe);
    side->lost = side->write_ended = true;
    return !side->read_ended;
}

static bool is_loss(ssize_t sent) {
    return sent < 0 && errno != EAGAIN && errno != ENOMEM && errno != ENOBUFS;
}

static void count_passed(const struct side *from, size_t size) {
    struct conn *conn = from->conn;
    bool out = from == &conn->inner;
    *(out ? &conn->bytes_out : &conn->bytes_in) += size;
    *(out ? &conn->broker->report.passed_out : &conn->broker->report.passed_in) += size;
}

/* Nothing is lost on the way to this host itself, and its own algorithm may pace what it sends (BBR). */
static void stop_pacing(int fd) {
    static const char steady[] = "reno"; /* every kernel has it, for every user */
    if (dial_is_at_host(fd))
        (void)setsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, steady,
                         sizeof(steady) - 1); /* slower, if it fails */
}

/* A side whose pieces are taken whole by the other one is read from in larger ones. */
static void adapt(struct side *from, size_t size, bool is_taken) {
    if (is_taken && size == from->chunk && from->chunk < BROKER_BUFFER) {
        if (from->chunk == RELAY_CHUNK_FIRST)
            stop_pacing(other_of(from)->watch.fd);
        from->chunk *= 2;
    } else if (!is_taken && from->chunk > RELAY_CHUNK_FIRST) {
        from->chunk /= 2;
    }
}

/* Sends as much as goes and keeps the rest. False: the connection can't go on. */
static bool forward(struct side *from, const uint8_t *data, size_t size) {
    struct side *to = other_of(from);
    ssize_t sent = to->lost || to->pending_size > 0 ? 0 : send(to->watch.fd, data, size, MSG_NOSIGNAL);
    if (is_loss(sent))
        return lose(to);
    if (to->lost)
        return true;
    if (sent < 0 && errno != EAGAIN)
        return false;
    size_t taken = sent > 0 ? (size_t)sent : 0;
    count_passed(from, size);
    adapt(from, size, taken == size);
    return taken == size || keep_more(to, data + taken, size - taken);
}

static bool is_our_name(const struct conn *conn, const struct pin_tls_hello *hello) {
    char name[PIN_HOST_MAX];
    if (hello->hidden && (conn->accept & PIN_ACCEPT_ENCRYPTED_HELLO) == 0)
        return false;
    if (hello->name_size == 0)
        return (conn->accept & PIN_ACCEPT_NO_NAME) != 0;
    return pin_wire_name(name, hello->name, hello->name_size) && strcmp(name, conn->to.host) == 0;
}

/* Nothing more is looked at. */
static bool pass_rest(struct conn *conn, size_t *passed) {
    *passed = conn->held_size;
    conn->inspection = PIN_INSPECT_NONE;
    return true;
}

/* All of `held` may go, or none yet. False: the connection has ended. */
static bool check_tls(struct conn *conn, size_t *passed) {
    struct pin_tls_hello hello;
    *passed = 0;
    switch (pin_tls_read_hello(conn->held, conn->held_size, &hello)) {
    case PIN_TLS_MORE:
        if (conn->held_size < HELD_MAX)
            return true;
        break;
    case PIN_TLS_WHOLE:
        if (!is_our_name(conn, &hello)) {
            conn_refuse(conn, PIN_EGRESS_TLS_NAME);
            return false;
        }
        return pass_rest(conn, passed);
    case PIN_TLS_NOT_TLS:
        if ((conn->accept & PIN_ACCEPT_PLAIN_TEXT) != 0)
            return pass_rest(conn, passed);
        break;
    case PIN_TLS_FAULTY: break;
    }
    conn_refuse(conn, PIN_EGRESS_NOT_TLS);
    return false;
}

/* Before anything was answered, the program is told why. */
static void answer_bad_request(struct conn *conn) {
    static const char answer[] = "HTTP/1.1 400 Bad Request\r\nConnection: close\r\nContent-Length: 0\r\n\r\n";
    if (conn->bytes_in == 0)
        (void)send(conn->inner.watch.fd, answer, sizeof(answer) - 1, MSG_NOSIGNAL); /* or a reset alone */
}

static bool check_http(struct conn *conn, size_t *passed) {
    enum pin_http_reading reading = pin_http_read(&conn->guard, conn->held, conn->held_size, passed);
    if (reading == PIN_HTTP_PASS)
        return true;
    answer_bad_request(conn);
    conn_refuse(conn, reading == PIN_HTTP_OTHER_HOST ? PIN_EGRESS_HTTP_HOST : PIN_EGRESS_NOT_HTTP);
    return false;
}

static bool check_held(struct conn *conn) {
    size_t passed;
    bool good = conn->inspection == PIN_INSPECT_TLS ? check_tls(conn, &passed) : check_http(conn, &passed);
    if (!good)
        return false;
    if (passed > 0 && !forward(&conn->inner, conn->held, passed)) {
        conn_abort(conn);
        return false;
    }
    memmove(conn->held, conn->held + passed, conn->held_size - passed);
    conn->held_size -= passed;
    if (passed > 0)
        conn->held_since_ns = conn->held_size > 0 ? now_ns() : 0;
    if (conn->held_size == 0) {
        free(conn->held);
        conn->held = NULL;
    }
    return true;
}

static bool hold(struct conn *conn, const uint8_t *data, size_t size) {
    uint8_t *held = realloc(conn->held, conn->held_size + size);
    if (held == NULL) {
        conn_abort(conn);
        return false;
    }
    memcpy(held + conn->held_size, data, size);
    conn->held = held;
    conn->held_size += size;
    if (conn->held_since_ns == 0)
        conn->held_since_ns = now_ns();
    return check_held(conn);
}

/* False: the connection has ended. */
static bool take(struct side *from, const uint8_t *data, size_t size) {
    struct conn *conn = from->conn;
    if (is_inspected(from))
        return hold(conn, data, size);
    bool offered = from == &conn->outer && conn->inspection == PIN_INSPECT_HTTP &&
                   pin_http_saw_reply(&conn->guard, data, size);
    if (!forward(from, data, size)) {
        conn_abort(conn);
        return false;
    }
    return !offered || conn->held_size == 0 || check_held(conn);
}

/* No more comes from this side: the other one is told when it has all of it. False: that was the end. */
static bool end_if_drained(struct side *from) {
    struct side *to = other_of(from);
    struct conn *conn = from->conn;
    bool unchecked = from == &conn->inner && conn->held_size > 0;
    if (!from->read_ended || to->pending_size > 0)
        return true;
    if (from->lost) {
        conn_abort(conn);
        return false;
    }
    if (to->write_ended)
        return true;
    if (unchecked) {
        conn_refuse(conn, conn->inspection == PIN_INSPECT_TLS ? PIN_EGRESS_NOT_TLS : PIN_EGRESS_NOT_HTTP);
        return false;
    }
    to->write_ended = true;
    if (from->write_ended) {
        conn_close(conn);
        return false;
    }
    (void)shutdown(to->watch.fd, SHUT_WR); /* not connected any more: the next read says so */
    if (conn->broker->is_draining && from == &conn->inner) {
        conn_leave(conn);
        return false;
    }
    return true;
}

static size_t read_size(const struct side *from) {
    struct broker *broker = from->conn->broker;
    size_t size = is_inspected(from) ? CHUNK_SMALL : from->chunk;
    if (broker->pending_bytes > RELAY_PENDING_MAX && size > CHUNK_SMALL)
        size = CHUNK_SMALL;
    uint64_t level = rate_level(from->conn), left = payers_left(&from->conn->payers, is_out(from));
    if (left < level)
        level = left > 0 ? left : 1; /* the one that shows that there is more than may go */
    return level < size ? (size_t)level : size;
}

/* A transfer at full speed: who fills the socket gets the processor first, if it waits for one. Larger reads
 * then take fewer wake-ups, which cost more than the bytes. Nobody else waits: nothing is lost. */
static void let_others_fill(const struct side *from, size_t size) {
    if (size >= BULK && !is_inspected(from))
        (void)sched_yield();
}

static ssize_t send_pending(const struct side *to) {
    if (to->pipe.read >= 0)
        return pipe_empty(&to->pipe, to->watch.fd, to->pending_size);
    return send(to->watch.fd, to->pending + to->pending_at, to->pending_size, MSG_NOSIGNAL);
}

/* False: the connection has ended. */
static bool flush(struct side *to) {
    struct conn *conn = to->conn;
    ssize_t sent = send_pending(to);
    if (sent < 0 && errno != EAGAIN && (!is_loss(sent) || !lose(to))) {
        conn_abort(conn);
        return false;
    }
    if (to->lost)
        return true;
    size_t taken = sent > 0 ? (size_t)sent : 0;
    to->pending_at += taken;
    to->pending_size -= taken;
    conn->broker->pending_bytes -= taken;
    if (taken > 0)
        conn->active_ns = now_ns();
    if (to->pending_size > 0)
        return true;
    free(to->pending);
    to->pending = NULL;
    if (to->pipe.read >= 0)
        pipe_return(&conn->broker->pipes, &to->pipe);
    return end_if_drained(other_of(to));
}

/* What isn't looked at stays in the kernel, at full speed. */
static bool is_moved(const struct side *from, size_t size) {
    return size >= BULK && from->conn->inspection == PIN_INSPECT_NONE;
}

/* Into the other side's pipe, which it then has, or into the buffer. */
static ssize_t read_some(struct side *from, size_t size) {
    struct broker *broker = from->conn->broker;
    struct side *to = other_of(from);
    if (!is_moved(from, size) || !pipe_take(&broker->pipes, &to->pipe))
        return recv(from->watch.fd, broker->buffer, size, 0);
    ssize_t got = pipe_fill(&to->pipe, from->watch.fd, size);
    if (got > 0)
        return got;
    int cause = errno;
    pipe_return(&broker->pipes, &to->pipe);
    if (got == 0 || cause == EAGAIN) /* the end, or urgent data, or nothing: this says which */
        return recv(from->watch.fd, broker->buffer, size, 0);
    errno = cause;
    return got;
}

/* False: the connection has ended. */
static bool pass_on(struct side *from, size_t size) {
    struct side *to = other_of(from);
    if (to->pipe.read < 0)
        return take(from, from->conn->broker->buffer, size);
    count_passed(from, size);
    to->pending_size = size;
    from->conn->broker->pending_bytes += size;
    if (!flush(to))
        return false;
    if (!to->lost)
        adapt(from, size, to->pending_size == 0);
    return true;
}

/* False: the connection has ended. */
static bool pump(struct side *from) {
    struct conn *conn = from->conn;
    for (int round = 0; round < ROUNDS && is_wanted(from); round++) {
        size_t size = read_size(from);
        let_others_fill(from, size);
        ssize_t got = read_some(from, size);
        if (got < 0 && errno == EAGAIN)
            break;
        if (got <= 0) {
            from->read_ended = true;
            from->lost = from->lost || got < 0;
            return end_if_drained(from);
        }
        conn->active_ns = now_ns();
        bool out = is_out(from);
        if (payers_left(&conn->payers, out) < (uint64_t)got) {
            conn_refuse(conn, PIN_EGRESS_BUDGET);
            return false;
        }
        payers_count(&conn->payers, out ? (uint64_t)got : 0, out ? 0 : (uint64_t)got, conn->active_ns);
        if (!pass_on(from, (size_t)got))
            return false;
        if ((size_t)got < size)
            break;
    }
    return true;
}

static void side_ready(struct watch *watch, uint32_t events) {
    struct side *side = container_of(watch, struct side, watch);
    if (side->pending_size > 0 && (events & (EPOLLOUT | EPOLLERR | EPOLLHUP)) != 0 && !flush(side))
        return;
    if ((events & (EPOLLIN | EPOLLERR | EPOLLHUP)) != 0 && !pump(side))
        return;
    relay_update(side->conn);
}

/* What has come already goes on at once: a round of its own would only cost time. So would sleeping: one of
 * the two ends speaks first, and at once, if they are near. */
void relay_start(struct conn *conn) {
    conn->inner.watch.ready = side_ready;
    conn->outer.watch.ready = side_ready;
    conn->inner.watch.labours = conn->outer.watch.labours = LABOURS_FIRST;
    poll_expect(&conn->broker->poll);
    if (pump(&conn->outer) && pump(&conn->inner))
        relay_update(conn);
}
