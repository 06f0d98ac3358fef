#include "runtime/egress/broker/entry.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stddef.h>
#include <string.h>
#include <sys/socket.h>

#include "runtime/egress/broker/openings.h"

/* What the rules and the budgets say of a new connection; a refusal is counted and told of here. */
static struct pin_verdict judge(struct broker *broker, struct pin_destination *to, bool is_place) {
    struct pin_verdict verdict = {.reason = PIN_EGRESS_NOT_LISTED};
    if (is_place)
        verdict = dial_judge(broker, to);
    struct payers payers = accounts_of(&broker->accounts, verdict.rule);
    if (verdict.allowed && !payers_admit(&payers))
        verdict = (struct pin_verdict){.reason = PIN_EGRESS_BUDGET, .rule = verdict.rule};
    if (!verdict.allowed) {
        payers_refuse(&payers);
        broker_refuse(broker, to, &verdict);
    }
    return verdict;
}

/* The newest: one that was reset may not have ended yet when its ends come anew. */
static struct conn *find(const struct broker *broker, const struct pin_ip_end *from,
                         const struct pin_ip_end *to) {
    struct conn *conn = broker->conns;
    while (conn != NULL && !pin_opening_is(&conn->opening, from, to))
        conn = conn->following;
    return conn;
}

static bool is_reset(int fd) {
    struct tcp_info info = {.tcpi_state = TCP_CLOSE};
    socklen_t size = sizeof(info);
    return getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &size) < 0 || info.tcpi_state == TCP_CLOSE;
}

void entry_open(struct broker *broker, const struct pin_opening *opening) {
    struct conn *conn = find(broker, &opening->from, &opening->to);
    if (conn != NULL && conn->awaits) { /* sent again: the program's kernel doesn't wait as long as we do */
        if (conn->is_open)
            openings_let_in(broker, opening);
        return;
    }
    if (conn != NULL && !is_reset(conn->inner.watch.fd))
        return; /* it came to the listener while this waited here: more at once than are held back go there */
    struct pin_destination to = {.protocol = PIN_PROTOCOL_TCP};
    struct sockaddr_storage dialled;
    (void)dial_sockaddr(&dialled, opening->to.address, opening->to.port);
    bool is_place = broker_destination(broker, &dialled, &to);
    struct pin_verdict verdict = judge(broker, &to, is_place);
    conn = verdict.allowed ? conn_make(broker, &to, &verdict) : NULL;
    if (conn == NULL) {
        openings_fail(broker, opening, ECONNREFUSED);
        return;
    }
    conn->awaits = true;
    conn->opening = *opening;
    conn_dial(conn);
}

static void admit(struct broker *broker, int fd, const struct sockaddr_storage *peer) {
    struct pin_destination to = {.protocol = PIN_PROTOCOL_TCP};
    struct sockaddr_storage local = {.ss_family = AF_UNSPEC}; /* what the program dialled: see tproxy.txt */
    socklen_t size = sizeof(local);
    struct pin_opening ends = {0};
    bool is_known = getsockname(fd, (struct sockaddr *)&local, &size) == 0;
    if (is_known) {
        dial_read_end(peer, &ends.from);
        dial_read_end(&local, &ends.to);
    }
    struct conn *conn = is_known ? find(broker, &ends.from, &ends.to) : NULL;
    if (conn != NULL && conn->awaits) {
        conn_adopt(conn, fd);
        return;
    }
    struct pin_verdict verdict = judge(broker, &to, is_known && broker_destination(broker, &local, &to));
    conn = verdict.allowed ? conn_make(broker, &to, &verdict) : NULL;
    if (conn == NULL) {
        conn_refuse_socket(fd);
        return;
    }
    conn->opening = ends;
    conn->inner.watch.fd = fd;
    conn_dial(conn);
}

bool entry_take(struct broker *broker, int fd, const struct sockaddr_storage *peer) {
    struct pin_destination to = {.protocol = PIN_PROTOCOL_TCP};
    struct sockaddr_storage local = {.ss_family = AF_UNSPEC};
    socklen_t size = sizeof(local);
    bool is_named = getsockname(fd, (struct sockaddr *)&local, &size) == 0 &&
                    broker_destination(broker, &local, &to) && dial_judge(broker, &to).allowed;
    if (is_named)
        admit(broker, fd, peer);
    return is_named;
}

void entry_accept(struct broker *broker, int listener, unsigned most) {
    for (unsigned i = 0; i < most; i++) {
        struct sockaddr_storage peer = {.ss_family = AF_UNSPEC};
        socklen_t size = sizeof(peer);
        int fd = accept4(listener, (struct sockaddr *)&peer, &size, SOCK_CLOEXEC | SOCK_NONBLOCK);
        if (fd < 0 && (errno == EMFILE || errno == ENFILE || errno == ENOMEM || errno == ENOBUFS)) {
            broker->accept_paused = true;
            return;
        }
        if (fd < 0)
            return;
        admit(broker, fd, &peer);
    }
}
