/* Who has a connection, and who has to give one up: slow, dead and hostile clients leave room for others. */
#include <sys/resource.h>
#include <sys/socket.h>

#include "runtime/kept/call.h"

#define HALVES_MAX ((size_t)64 * 1024 * 1024) /* bytes of messages that have begun and not ended */
#define SPARE 64                              /* descriptors: for what commands need */
#define EVERYBODY ((pid_t)-1)
#define SMALL ((size_t)64 * 1024) /* what a connection may have of them whatever the others have */

/* Three quarters: the last one is for somebody else, who wants to look, or to end it. */
static size_t share(size_t all) {
    return all - all / 4;
}

bool pin_peer_may(size_t held, size_t all, const char *what, struct pin_error *err) {
    if (held < share(all))
        return true;
    (void)pin_fail(err, PIN_ERROR_EXHAUSTED, "one process has %zu %s of this sandbox already", held, what);
    return pin_hint(err, "of %zu that there are, one process may have %zu", all, share(all));
}

/* It has asked, and its turn to be heard is still to come: within this step of the loop. Whoever takes no
 * replies isn't heard, and may leave its questions there for ever. */
static bool has_asked(const struct conn *conn) {
    char first;
    return conn->lent == 0 && !pin_sink_is_full(conn->sink) &&
           recv(conn->fd, &first, 1, MSG_PEEK | MSG_DONTWAIT) > 0;
}

/* It is owed something that it has asked for. */
static bool is_owed(const struct conn *conn) {
    const struct pin_kept *kept = conn->kept;
    for (const struct exec *exec = kept->execs; exec != NULL; exec = exec->next)
        if (exec->conn == conn)
            return true;
    for (size_t i = 0; i < kept->wait_count; i++)
        if (kept->waits[i].conn == conn)
            return true;
    return conn->holds || pin_attach_serves(conn) || pin_runner_serves(kept, conn) || has_asked(conn);
}

static bool is_of(const struct conn *conn, pid_t peer) {
    return !conn->closed && (peer == EVERYBODY || conn->peer == peer);
}

/* The one that has been silent longest; NULL: each of them is owed something. */
static struct conn *find_idlest(const struct pin_kept *kept, pid_t peer) {
    struct conn *idlest = NULL;
    for (struct conn *conn = kept->conns; conn != NULL; conn = conn->next)
        if (is_of(conn, peer) && (idlest == NULL || conn->used_ns <= idlest->used_ns) && !is_owed(conn))
            idlest = conn;
    return idlest;
}

static size_t count_of(const struct pin_kept *kept, pid_t peer) {
    size_t count = 0;
    for (const struct conn *conn = kept->conns; conn != NULL; conn = conn->next)
        count += is_of(conn, peer);
    return count;
}

static bool give_up_idlest(const struct pin_kept *kept, pid_t peer) {
    struct conn *idlest = find_idlest(kept, peer);
    if (idlest != NULL)
        pin_conn_close(idlest);
    return idlest != NULL;
}

bool pin_conn_make_room(struct pin_kept *kept, pid_t peer, struct pin_error *err) {
    if (!pin_peer_may(count_of(kept, peer), CONNS_MAX, "connections", err)) {
        if (!give_up_idlest(kept, peer))
            return false;
        pin_error_clear(err);
    }
    return count_of(kept, EVERYBODY) < CONNS_MAX || give_up_idlest(kept, EVERYBODY) ||
           pin_fail(err, PIN_ERROR_EXHAUSTED, "%d clients of this sandbox wait for something already",
                    CONNS_MAX);
}

bool pin_conn_make_descriptors(const struct pin_kept *kept, int fd, struct pin_error *err) {
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit) != 0 || (rlim_t)fd + SPARE < limit.rlim_cur ||
        give_up_idlest(kept, EVERYBODY))
        return true;
    return pin_fail(err, PIN_ERROR_EXHAUSTED, "the sandbox's supervisor has no descriptors left");
}

void pin_conn_bound_halves(const struct conn *conn) {
    size_t all = 0;
    struct conn *idlest = NULL;
    if (conn->in.size <= SMALL)
        return;
    for (struct conn *other = conn->kept->conns; other != NULL; other = other->next) {
        if (other->closed || other->in.size <= SMALL)
            continue;
        all += other->in.size;
        if (idlest == NULL || other->used_ns < idlest->used_ns)
            idlest = other;
    }
    if (all > HALVES_MAX && idlest != NULL)
        pin_conn_close(idlest);
}
