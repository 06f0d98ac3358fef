#include "runtime/egress/broker/conn.h"

#include <errno.h>
#include <netinet/in.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <linux/tcp.h>

#include "base/units.h"
#include "policy/egress_terms.h"
#include "runtime/egress/broker/openings.h"
#include "runtime/egress/broker/relay.h"
#include "runtime/egress/broker/status.h"

#define AWAIT_NS (5 * PIN_NS_PER_S) /* for the program's side, once the other is there */
#define DISCARD_MAX (1u << 30)
#define DISCARD_ROUNDS 64
#define LEFT_ROUNDS 16               /* of answers that nobody reads */
#define CHECK_NS (20 * PIN_NS_PER_S) /* for the bytes that are checked to be whole */

static void reset_on_close(int fd) {
    struct linger now = {.l_onoff = 1, .l_linger = 0};
    if (fd >= 0)
        (void)setsockopt(fd, SOL_SOCKET, SO_LINGER, &now, sizeof(now)); /* else it closes in the other way */
}

void conn_refuse_socket(int fd) {
    reset_on_close(fd);
    (void)close(fd);
}

static void report(const struct conn *conn, enum pin_egress_event_kind kind, enum pin_egress_reason reason,
                   int os_errno) {
    struct pin_verdict verdict = {.reason = reason, .rule = conn->verdict.rule};
    struct pin_egress_event event = broker_event(conn->broker, kind, &conn->to, &verdict);
    uint64_t now = now_ns();
    event.os_errno = os_errno;
    event.id = conn->id;
    event.bytes_out = conn->bytes_out;
    event.bytes_in = conn->bytes_in;
    event.undelivered = conn->undelivered;
    event.duration_ns = now - conn->started_ns;
    report_event(&conn->broker->report, &event, now);
}

static void link_conn(struct conn *conn) {
    struct broker *broker = conn->broker;
    conn->following = broker->conns;
    conn->link = &broker->conns;
    if (conn->following != NULL)
        conn->following->link = &conn->following;
    broker->conns = conn;
    payers_enter(&conn->payers);
}

static void unlink_conn(struct conn *conn) {
    *conn->link = conn->following;
    if (conn->following != NULL)
        conn->following->link = conn->link;
    conn->link = NULL;
    payers_leave(&conn->payers);
}

static void release(struct grave *grave) {
    struct conn *conn = container_of(grave, struct conn, grave);
    free(conn->inner.pending);
    free(conn->outer.pending);
    free(conn->held);
    free(conn);
}

void conn_close(struct conn *conn) {
    if (conn->link == NULL)
        return; /* closed already, in this round */
    struct broker *broker = conn->broker;
    unlink_conn(conn);
    if (conn->is_dialling)
        dial_cancel(&conn->dial);
    pipe_drop(&broker->pipes, &conn->inner.pipe);
    pipe_drop(&broker->pipes, &conn->outer.pipe);
    poll_close(&conn->inner.watch);
    poll_close(&conn->outer.watch);
    broker->pending_bytes -= conn->inner.pending_size + conn->outer.pending_size;
    if (conn->is_open)
        report(conn, PIN_EGRESS_EVENT_CLOSE, PIN_EGRESS_ALLOWED, 0);
    poll_bury(&broker->poll, &conn->grave, release);
}

/* close(2) of a socket with unread bytes resets it, and drops what waits to be sent. */
void conn_leave(struct conn *conn) {
    for (int i = 0; i < LEFT_ROUNDS; i++)
        if (recv(conn->outer.watch.fd, conn->broker->buffer, BROKER_BUFFER, MSG_DONTWAIT) <= 0)
            break;
    conn_close(conn);
}

/* What the program's connect(2) fails with, if it waits still. */
static void answer_opening(struct conn *conn, int os_errno) {
    if (conn->awaits)
        openings_fail(conn->broker, &conn->opening, os_errno);
    conn->awaits = false;
}

void conn_abort(struct conn *conn) {
    answer_opening(conn, ECONNREFUSED);
    reset_on_close(conn->inner.watch.fd);
    reset_on_close(conn->outer.watch.fd);
    conn_close(conn);
}

void conn_refuse(struct conn *conn, enum pin_egress_reason reason) {
    payers_refuse(&conn->payers);
    report(conn, PIN_EGRESS_EVENT_REFUSE, reason, 0);
    conn_abort(conn);
}

static void announce(struct conn *conn) {
    conn->is_open = true;
    conn->active_ns = now_ns();
    conn->held_since_ns = conn->inspection == PIN_INSPECT_TLS ? conn->active_ns : 0;
    report(conn, PIN_EGRESS_EVENT_CONNECT, PIN_EGRESS_ALLOWED, 0);
}

/* A name without an address is no host that one could reach; what the rules refuse, refuses. */
static int errno_of(const struct pin_verdict *verdict, int os_errno) {
    if (verdict->reason == PIN_EGRESS_NOT_RESOLVED)
        return EHOSTUNREACH;
    return verdict->allowed ? os_errno : ECONNREFUSED;
}

static void dialled(struct dial *dial, int fd, const struct pin_verdict *verdict, int os_errno) {
    struct conn *conn = container_of(dial, struct conn, dial);
    conn->is_dialling = false;
    memcpy(conn->to.address, dial->to.address, sizeof(conn->to.address));
    conn->verdict = *verdict;
    if (fd < 0) {
        if (!verdict->allowed)
            payers_refuse(&conn->payers);
        bool failed = verdict->allowed || verdict->reason == PIN_EGRESS_NOT_RESOLVED;
        report(conn, failed ? PIN_EGRESS_EVENT_FAIL : PIN_EGRESS_EVENT_REFUSE, verdict->reason, os_errno);
        answer_opening(conn, errno_of(verdict, os_errno));
        conn_abort(conn);
        return;
    }
    conn->outer.watch.fd = fd;
    if (!conn->awaits) {
        conn_open(conn);
        return;
    }
    announce(conn);
    openings_let_in(conn->broker, &conn->opening);
}

void conn_open(struct conn *conn) {
    announce(conn);
    relay_start(conn);
}

void conn_adopt(struct conn *conn, int fd) {
    conn->awaits = false;
    conn->inner.watch.fd = fd;
    if (!conn->is_open)
        return; /* goes on when the other side is there */
    conn->active_ns = now_ns();
    conn->held_since_ns = conn->inspection == PIN_INSPECT_TLS ? conn->active_ns : 0;
    relay_start(conn);
}

void conn_fail(struct conn *conn, int os_errno) {
    report(conn, PIN_EGRESS_EVENT_FAIL, PIN_EGRESS_ALLOWED, os_errno);
    conn_abort(conn);
}

struct conn *conn_make(struct broker *broker, const struct pin_destination *to,
                       const struct pin_verdict *verdict) {
    struct conn *conn = calloc(1, sizeof(*conn));
    if (conn == NULL)
        return NULL;
    conn->broker = broker;
    conn->to = *to;
    conn->verdict = *verdict;
    conn->id = ++broker->next_id;
    conn->started_ns = now_ns();
    conn->inner =
        (struct side){.watch = {.fd = -1}, .conn = conn, .chunk = RELAY_CHUNK_FIRST, .pipe = PIPE_NONE};
    conn->outer =
        (struct side){.watch = {.fd = -1}, .conn = conn, .chunk = RELAY_CHUNK_FIRST, .pipe = PIPE_NONE};
    conn->inspection = PIN_INSPECT_NONE;
    conn->payers = accounts_of(&broker->accounts, verdict->rule);
    link_conn(conn);
    return conn;
}

/* The name's rule sets the terms, whichever rule then opens the address. */
static void take_terms(struct conn *conn, const struct pin_egress_rule *rule) {
    conn->inspection = pin_egress_inspection(rule, conn->to.port);
    conn->accept = rule->accept;
    conn->guard = (struct pin_http_guard){.host = conn->to.host, .port = conn->to.port};
}

void conn_dial(struct conn *conn) {
    take_terms(conn, conn->verdict.rule);
    conn->is_dialling = true;
    conn->dial = (struct dial){.done = dialled, .to = conn->to, .verdict = conn->verdict};
    dial_start(conn->broker, &conn->dial);
}

static bool is_late(const struct conn *conn, uint64_t now) {
    return conn->is_open && payers_are_late(&conn->payers, elapsed_ns(now, conn->active_ns),
                                            elapsed_ns(now, conn->started_ns));
}

void conn_tick(struct broker *broker, uint64_t now) {
    bool was_throttled = broker->throttled;
    broker->throttled = false;
    for (struct conn *conn = broker->conns, *following; conn != NULL; conn = following) {
        following = conn->following;
        bool checking = conn->is_open && conn->inspection != PIN_INSPECT_NONE && conn->held_since_ns != 0;
        if (checking && elapsed_ns(now, conn->held_since_ns) > CHECK_NS)
            conn_refuse(conn, conn->inspection == PIN_INSPECT_TLS ? PIN_EGRESS_NOT_TLS : PIN_EGRESS_NOT_HTTP);
        else if (conn->awaits && conn->is_open && elapsed_ns(now, conn->active_ns) > AWAIT_NS)
            conn_close(conn); /* the program has given up */
        else if (!conn->is_open && conn->dial_until_ns != 0 && now > conn->dial_until_ns)
            conn_fail(conn, ETIMEDOUT);
        else if (is_late(conn, now))
            conn_refuse(conn, PIN_EGRESS_BUDGET);
        else if (was_throttled && conn->is_open && !conn->awaits)
            relay_update(conn);
    }
}

/* Reading it makes room for more of it; nothing is copied: tcp(7). */
static uint64_t discard_unread(int fd) {
    uint64_t discarded = 0;
    ssize_t size = fd < 0 ? 0 : 1;
    for (int i = 0; size > 0 && i < DISCARD_ROUNDS; i++) {
        size = recv(fd, NULL, DISCARD_MAX, MSG_TRUNC | MSG_DONTWAIT);
        discarded += size > 0 ? (uint64_t)size : 0;
    }
    return discarded;
}

/* What is held here, what nobody has read yet, and what the kernel hasn't sent and drops with a reset. What
 * it has sent may have arrived. */
static uint64_t count_undelivered(const struct conn *conn) {
    struct tcp_info info = {.tcpi_notsent_bytes = 0};
    socklen_t size = sizeof(info);
    uint64_t left = conn->outer.pending_size + conn->held_size + discard_unread(conn->inner.watch.fd);
    if (getsockopt(conn->outer.watch.fd, IPPROTO_TCP, TCP_INFO, &info, &size) == 0)
        left += info.tcpi_notsent_bytes;
    return left;
}

void conn_end_all(struct broker *broker) {
    while (broker->conns != NULL) {
        struct conn *conn = broker->conns;
        if (conn->is_open)
            conn->undelivered = count_undelivered(conn);
        conn_abort(conn);
    }
}

void conn_leave_answers(struct broker *broker) {
    for (struct conn *conn = broker->conns, *following; conn != NULL; conn = following) {
        following = conn->following;
        if (conn->inner.read_ended && conn->outer.write_ended)
            conn_leave(conn);
    }
}

/* One that is held back has sent nothing. */
bool conn_is_under_way(const struct broker *broker) {
    const struct conn *conn = broker->conns;
    while (conn != NULL && conn->inner.watch.fd < 0)
        conn = conn->following;
    return conn != NULL;
}

/* The rule that now names it may have another budget; what is counted stays where it was counted. What hasn't
 * begun to pass anything on is held to what the rule asks for. */
static void change_terms(struct conn *conn) {
    struct pin_destination named = conn->to;
    if (conn->to.host != NULL)
        memset(named.address, 0, sizeof(named.address));
    struct pin_verdict verdict = pin_egress_judge(&conn->broker->rules, &named);
    payers_move(&conn->payers, accounts_of(&conn->broker->accounts, verdict.rule));
    if (verdict.allowed && (!conn->is_open || conn->awaits))
        take_terms(conn, verdict.rule);
}

void conn_move(struct conn *conn, const struct pin_egress_rule *rule) {
    conn->verdict.rule = rule;
    payers_move(&conn->payers, accounts_of(&conn->broker->accounts, rule));
}

void conn_judge_again(struct broker *broker) {
    for (struct conn *conn = broker->conns, *following; conn != NULL; conn = following) {
        following = conn->following;
        bool by_name = !conn->is_open || conn->dial.is_proxied; /* no address of it is known */
        struct pin_verdict verdict = by_name ? dial_judge(broker, &conn->to)
                                             : dial_judge_open(broker, &conn->to, conn->outer.watch.fd);
        conn->verdict = verdict;
        conn->dial.verdict = verdict;
        if (!verdict.allowed) {
            conn_refuse(conn, verdict.reason);
            continue;
        }
        change_terms(conn);
        /* Addresses of a dial under way were screened by the old rules: start it again. */
        if (conn->is_dialling) {
            dial_cancel(&conn->dial);
            conn->dial = (struct dial){.done = dialled, .to = conn->to, .verdict = verdict};
            dial_start(broker, &conn->dial);
        }
    }
}

size_t conn_show(const struct broker *broker, int stream, size_t most) {
    size_t shown = 0;
    for (const struct conn *conn = broker->conns; conn != NULL && shown < most;
         conn = conn->following, shown++) {
        struct opened opened = {&conn->to,       &conn->payers,  conn->id,
                                conn->bytes_out, conn->bytes_in, conn->started_ns};
        status_put_open(stream, broker, &opened);
    }
    return shown;
}
