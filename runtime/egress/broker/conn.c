#include "runtime/egress/broker/conn.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/units.h"
#include "policy/egress_terms.h"
#include "runtime/egress/broker/relay.h"
#include "runtime/egress/broker/status.h"

#define ACCEPT_ROUND 32              /* then the others have their turn */
#define CHECK_NS (20 * PIN_NS_PER_S) /* for the bytes that are checked to be whole */

static void reset_on_close(int fd) {
    struct linger now = {.l_onoff = 1, .l_linger = 0};
    if (fd >= 0)
        (void)setsockopt(fd, SOL_SOCKET, SO_LINGER, &now, sizeof(now)); /* else it closes in the other way */
}

static void refuse_socket(int fd) {
    reset_on_close(fd);
    (void)close(fd);
}

/* What the program dialled is the address of the accepted socket: see tproxy.txt. */
static bool read_destination(struct broker *broker, int fd, struct pin_destination *to) {
    struct sockaddr_storage local;
    socklen_t size = sizeof(local);
    *to = (struct pin_destination){.protocol = PIN_PROTOCOL_TCP};
    return getsockname(fd, (struct sockaddr *)&local, &size) == 0 && broker_destination(broker, &local, to);
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
    poll_close(&broker->poll, &conn->inner.watch);
    poll_close(&broker->poll, &conn->outer.watch);
    broker->pending_bytes -= conn->inner.pending_size + conn->outer.pending_size;
    if (conn->is_open)
        report(conn, PIN_EGRESS_EVENT_CLOSE, PIN_EGRESS_ALLOWED, 0);
    poll_bury(&broker->poll, &conn->grave, release);
}

void conn_abort(struct conn *conn) {
    reset_on_close(conn->inner.watch.fd);
    reset_on_close(conn->outer.watch.fd);
    conn_close(conn);
}

void conn_refuse(struct conn *conn, enum pin_egress_reason reason) {
    payers_refuse(&conn->payers);
    report(conn, PIN_EGRESS_EVENT_REFUSE, reason, 0);
    conn_abort(conn);
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
        conn_abort(conn);
        return;
    }
    conn->outer.watch.fd = fd;
    conn->is_open = true;
    conn->active_ns = now_ns();
    conn->held_since_ns = conn->inspection == PIN_INSPECT_TLS ? conn->active_ns : 0;
    report(conn, PIN_EGRESS_EVENT_CONNECT, PIN_EGRESS_ALLOWED, 0);
    relay_start(conn);
}

static void conn_begin(struct broker *broker, int fd, const struct pin_destination *to,
                       const struct pin_verdict *verdict) {
    struct conn *conn = calloc(1, sizeof(*conn));
    if (conn == NULL) {
        refuse_socket(fd);
        return;
    }
    conn->broker = broker;
    conn->to = *to;
    conn->verdict = *verdict;
    conn->id = ++broker->next_id;
    conn->started_ns = now_ns();
    conn->inner = (struct side){.watch = {.fd = fd}, .conn = conn, .chunk = RELAY_CHUNK_FIRST};
    conn->outer = (struct side){.watch = {.fd = -1}, .conn = conn, .chunk = RELAY_CHUNK_FIRST};
    /* The name's rule sets the terms, whichever rule then opens the address. */
    conn->inspection = pin_egress_inspection(verdict->rule, to->port);
    conn->accept = verdict->rule->accept;
    conn->guard = (struct pin_http_guard){.host = to->host, .port = to->port};
    conn->payers = accounts_of(&broker->accounts, verdict->rule);
    link_conn(conn);
    conn->is_dialling = true;
    conn->dial = (struct dial){.done = dialled, .to = *to, .verdict = *verdict};
    dial_start(broker, &conn->dial);
}

static void admit(struct broker *broker, int fd) {
    struct pin_destination to;
    struct pin_verdict verdict = {.reason = PIN_EGRESS_NOT_LISTED};
    if (read_destination(broker, fd, &to))
        verdict = pin_egress_judge(&broker->rules, &to);
    struct payers payers = accounts_of(&broker->accounts, verdict.rule);
    if (verdict.allowed && !payers_admit(&payers))
        verdict = (struct pin_verdict){.reason = PIN_EGRESS_BUDGET, .rule = verdict.rule};
    if (!verdict.allowed) {
        payers_refuse(&payers);
        broker_refuse(broker, &to, &verdict);
        refuse_socket(fd);
        return;
    }
    (void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &(int){1}, sizeof(int)); /* a delay more, if it fails */
    conn_begin(broker, fd, &to, &verdict);
}

void conn_accept(struct broker *broker, int listener) {
    for (int i = 0; i < ACCEPT_ROUND; i++) {
        int fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
        if (fd < 0 && (errno == EMFILE || errno == ENFILE || errno == ENOMEM || errno == ENOBUFS)) {
            broker->accept_paused = true;
            return;
        }
        if (fd < 0)
            return;
        admit(broker, fd);
    }
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
        else if (is_late(conn, now))
            conn_refuse(conn, PIN_EGRESS_BUDGET);
        else if (was_throttled && conn->is_open)
            relay_update(conn);
    }
}

void conn_end_all(struct broker *broker) {
    while (broker->conns != NULL)
        conn_abort(broker->conns);
}

/* The rule that now names it may have another budget; what is counted stays where it was counted. */
static void change_payers(struct conn *conn) {
    struct pin_destination named = conn->to;
    if (conn->to.host != NULL)
        memset(named.address, 0, sizeof(named.address));
    struct pin_verdict verdict = pin_egress_judge(&conn->broker->rules, &named);
    payers_move(&conn->payers, accounts_of(&conn->broker->accounts, verdict.rule));
}

void conn_judge_again(struct broker *broker) {
    for (struct conn *conn = broker->conns, *following; conn != NULL; conn = following) {
        following = conn->following;
        bool by_name =
            !conn->is_open || conn->to.host == NULL || conn->dial.is_proxied; /* no address is known */
        struct pin_verdict verdict = by_name ? pin_egress_judge(&broker->rules, &conn->to)
                                             : pin_egress_judge_resolved(&broker->rules, &conn->to);
        conn->verdict = verdict;
        conn->dial.verdict = verdict;
        if (!verdict.allowed) {
            conn_refuse(conn, verdict.reason);
            continue;
        }
        change_payers(conn);
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
