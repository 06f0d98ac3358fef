#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/units.h"
#include "runtime/kept/call.h"

#define MESSAGES_A_TURN 16 /* then it is somebody else's turn */
#define ACCEPT_AGAIN_NS (100 * PIN_NS_PER_MS)

static void close_fds(struct conn *conn) {
    for (size_t i = 0; i < conn->fd_count; i++)
        pin_close_fd(&conn->fds[i]);
    conn->fd_count = 0;
}

void pin_conn_free(struct conn *conn) {
    pin_source_remove(&conn->source);
    pin_sink_free(conn->sink);
    pin_wire_free(&conn->in);
    close_fds(conn);
    pin_close_fd(&conn->fd);
    free(conn);
}

/* What it has started ends with it, unless it said otherwise. */
void pin_conn_close(struct conn *conn) {
    struct pin_kept *kept = conn->kept;
    struct pin_error err = {0};
    if (conn->closed)
        return;
    conn->closed = true;
    pin_source_remove(&conn->source);
    if (conn->holds) {
        conn->holds = false;
        kept->holds--;
        if (!pin_verbs_set_frozen(kept, &err))
            pin_kept_fail(kept, &err); /* or it would stand still for ever */
    }
    pin_runner_forget(kept, conn);
    for (struct exec *exec = kept->execs; exec != NULL; exec = exec->next) {
        if (exec->conn != conn)
            continue;
        exec->conn = NULL;
        if (!exec->request.detach)
            pin_exec_kill(exec);
    }
    pin_attach_drop_conn(conn);
    size_t left = 0;
    for (size_t i = 0; i < kept->wait_count; i++)
        if (kept->waits[i].conn != conn)
            kept->waits[left++] = kept->waits[i];
    kept->wait_count = left;
}

/* Whoever doesn't read its replies isn't heard: what is kept for it is one reply to each of its requests. */
static void on_drained(void *self) {
    struct conn *conn = self;
    if (conn->source != NULL)
        pin_source_resume(conn->source);
}

static void on_broken(void *self, int error) {
    (void)error;
    pin_conn_close(self);
}

static void send_bytes(struct conn *conn, const uint8_t *bytes, size_t size) {
    if (conn->closed)
        return;
    if (bytes == NULL) {
        pin_conn_close(conn);
        return;
    }
    conn->used_ns = pin_now_ns();
    pin_sink_write(conn->sink, bytes, size);
    if (pin_sink_is_full(conn->sink) && conn->source != NULL)
        pin_source_pause(conn->source);
}

void pin_conn_send(struct conn *conn, json_t *json) {
    size_t size = 0;
    PIN_FREE uint8_t *bytes = pin_wire_print(json, &size);
    send_bytes(conn, bytes, size);
}

void pin_conn_send_both(struct conn *conn, json_t *first, json_t *then) {
    size_t before = 0, after = 0;
    PIN_FREE uint8_t *one = pin_wire_print(first, &before);
    PIN_FREE uint8_t *other = pin_wire_print(then, &after);
    PIN_FREE uint8_t *both = one == NULL || other == NULL ? NULL : malloc(before + after);
    if (both != NULL) {
        memcpy(both, one, before);
        memcpy(both + before, other, after);
    }
    send_bytes(conn, both, before + after);
    /* NOLINTNEXTLINE(clang-analyzer-unix.Malloc): PIN_FREE frees it, which the analyzer doesn't see */
}

/* With a descriptor: it goes with the first byte, at once or not at all. */
void pin_conn_send_fd(struct conn *conn, json_t *json, int fd) {
    size_t size = 0;
    PIN_FREE uint8_t *bytes = pin_wire_print(json, &size);
    struct iovec first = {bytes, 1};
    union {
        struct cmsghdr align;
        char room[CMSG_SPACE(sizeof(int))];
    } control = {0};
    struct msghdr message = {.msg_iov = &first,
                             .msg_iovlen = 1,
                             .msg_control = control.room,
                             .msg_controllen = sizeof(control.room)};
    struct cmsghdr *rights = CMSG_FIRSTHDR(&message);
    rights->cmsg_level = SOL_SOCKET;
    rights->cmsg_type = SCM_RIGHTS;
    rights->cmsg_len = CMSG_LEN(sizeof(int));
    memcpy(CMSG_DATA(rights), &fd, sizeof(int));
    if (conn->closed)
        return;
    if (bytes == NULL || pin_sink_is_full(conn->sink) ||
        sendmsg(conn->fd, &message, MSG_DONTWAIT | MSG_NOSIGNAL) != 1) {
        pin_conn_close(conn);
        return;
    }
    pin_sink_write(conn->sink, bytes + 1, size - 1);
}

void pin_conn_fail(struct conn *conn, uint64_t request_id, const struct pin_error *err) {
    json_t *reply = pin_error_json(err);
    (void)json_object_set_new(reply, "id", json_integer((json_int_t)request_id));
    pin_conn_send(conn, reply);
}

static bool take_descriptors(struct conn *conn, struct msghdr *message) {
    for (struct cmsghdr *part = CMSG_FIRSTHDR(message); part != NULL; part = CMSG_NXTHDR(message, part)) {
        if (part->cmsg_level != SOL_SOCKET || part->cmsg_type != SCM_RIGHTS)
            continue;
        size_t count = (part->cmsg_len - CMSG_LEN(0)) / sizeof(int);
        for (size_t i = 0; i < count; i++) {
            struct pin_error err = {0};
            int fd;
            memcpy(&fd, CMSG_DATA(part) + i * sizeof(int), sizeof(int));
            (void)pin_conn_make_descriptors(conn->kept, fd, &err); /* this one has its own already */
            if (conn->fd_count < CONN_FDS_MAX)
                conn->fds[conn->fd_count++] = fd;
            else
                (void)close(fd);
        }
    }
    return (message->msg_flags & MSG_CTRUNC) == 0;
}

/* What the socket has of one message; false when there is nothing more now. */
static bool receive(struct conn *conn) {
    union {
        struct cmsghdr align;
        char room[CMSG_SPACE(CONN_FDS_MAX * sizeof(int))];
    } control;
    size_t room = 0;
    struct pin_error err = {0};
    uint8_t *to = pin_wire_room(&conn->in, &room);
    struct iovec part = {to, room};
    struct msghdr message = {.msg_iov = &part,
                             .msg_iovlen = 1,
                             .msg_control = control.room,
                             .msg_controllen = sizeof(control.room)};
    ssize_t got = to == NULL ? 0 : recvmsg(conn->fd, &message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
    if (got < 0 && (errno == EAGAIN || errno == EINTR))
        return false;
    if (got <= 0 || !take_descriptors(conn, &message)) {
        pin_conn_close(conn);
        return false;
    }
    conn->used_ns = pin_now_ns();
    pin_conn_bound_halves(conn);
    if (conn->closed)
        return false;
    if (pin_wire_put(&conn->in, (size_t)got, &err))
        return true;
    pin_conn_fail(conn, 0, &err); /* where the next message begins can't be told any more */
    pin_conn_close(conn);
    return false;
}

static void serve(struct conn *conn, const char *text, size_t size) {
    struct pin_kept_request request;
    struct pin_error err = {0};
    if (pin_kept_request_parse(text, size, &request, &err))
        pin_verbs_serve(conn, &request);
    else
        pin_conn_fail(conn, request.id, &err);
    pin_kept_request_free(&request);
    close_fds(conn); /* those that nobody has taken */
}

static void on_input(void *self, unsigned events) {
    struct conn *conn = self;
    const char *text;
    size_t size;
    (void)events;
    for (int i = 0; i < MESSAGES_A_TURN && !conn->closed && conn->lent == 0 && !pin_sink_is_full(conn->sink);
         i++) {
        while (!pin_wire_is_whole(&conn->in, &text, &size))
            if (!receive(conn))
                return;
        serve(conn, text, size);
        pin_wire_next(&conn->in);
    }
}

/* Not when the client has said all: that may still be borrowed. */
static void on_hangup(void *self, unsigned events) {
    (void)events;
    pin_conn_close(self);
}

bool pin_conn_lend(struct conn *conn, struct pin_error *err) {
    struct pin_source *hangup = pin_loop_watch(conn->kept->loop, conn->fd, POLLHUP, on_hangup, conn, err);
    if (hangup == NULL)
        return false;
    pin_source_remove(&conn->source);
    conn->source = hangup;
    conn->lent = ++conn->kept->last_lent;
    return true;
}

static struct conn *find_lent(const struct pin_kept *kept, uint64_t number) {
    for (struct conn *conn = kept->conns; conn != NULL; conn = conn->next)
        if (number != 0 && conn->lent == number && !conn->closed && !pin_sink_is_full(conn->sink))
            return conn;
    return NULL;
}

bool pin_conn_borrow(struct conn *conn, const uint64_t *numbers, size_t count, struct pin_error *err) {
    for (size_t i = 0; i < count; i++) {
        struct conn *lent = find_lent(conn->kept, numbers[i]);
        if (lent == NULL) {
            (void)pin_fail(err, PIN_ERROR_NOT_FOUND, "no connection is lent as %llu",
                           (unsigned long long)numbers[i]);
            return pin_point(err, "/lent/%zu", i);
        }
        int fd = fcntl(lent->fd, F_DUPFD_CLOEXEC, 0);
        if (fd < 0)
            return pin_fail_errno(err, "take a connection that is lent");
        conn->fds[conn->fd_count++] = fd;
        pin_conn_close(lent); /* as a connection: what was taken lives on */
    }
    return true;
}

/* The directory lets nobody else in; this is for a socket that was handed on. */
static bool is_ours(int fd, struct ucred *peer) {
    socklen_t size = sizeof(*peer);
    return getsockopt(fd, SOL_SOCKET, SO_PEERCRED, peer, &size) == 0 &&
           (peer->uid == geteuid() || peer->uid == 0);
}

static bool open_conn(struct conn *conn, struct pin_kept *kept) {
    struct pin_error err = {0};
    const struct pin_sink_events events = {conn, on_drained, on_broken};
    conn->sink = pin_sink_new(kept->loop, conn->fd, false, &events, &err);
    conn->source =
        conn->sink == NULL ? NULL : pin_loop_watch(kept->loop, conn->fd, POLLIN, on_input, conn, &err);
    return conn->source != NULL;
}

static void on_accept_again(void *self) {
    struct pin_kept *kept = self;
    kept->accept_again = NULL;
    if (kept->accepting != NULL)
        pin_source_resume(kept->accepting);
}

/* Who waits to be let in is still there, and would be seen again at once, without an end. */
static void pause_accepting(struct pin_kept *kept) {
    struct pin_error err = {0};
    if (kept->accept_again == NULL)
        kept->accept_again =
            pin_loop_at(kept->loop, pin_now_ns() + ACCEPT_AGAIN_NS, on_accept_again, kept, &err);
    if (kept->accept_again != NULL)
        pin_source_pause(kept->accepting);
}

/* Told in one write, or not at all: nobody waits for somebody who isn't let in. */
static void turn_away(int fd, const struct pin_error *why) {
    size_t size = 0;
    json_t *reply = pin_error_json(why);
    (void)json_object_set_new(reply, "id", json_integer(0));
    PIN_FREE uint8_t *bytes = pin_wire_print(reply, &size);
    if (bytes != NULL)
        (void)send(fd, bytes, size, MSG_DONTWAIT | MSG_NOSIGNAL);
}

void pin_conn_accept(struct pin_kept *kept) {
    struct ucred peer;
    struct pin_error err = {0};
    PIN_CLOSE int fd = accept4(kept->listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
    if (fd < 0 && errno != EAGAIN && errno != EINTR && errno != ECONNABORTED)
        pause_accepting(kept);
    if (fd < 0 || !is_ours(fd, &peer))
        return;
    if (!pin_conn_make_descriptors(kept, fd, &err) || !pin_conn_make_room(kept, peer.pid, &err)) {
        turn_away(fd, &err);
        return;
    }
    struct conn *conn = calloc(1, sizeof(*conn));
    if (conn == NULL)
        return;
    conn->kept = kept;
    conn->peer = peer.pid;
    conn->used_ns = pin_now_ns();
    conn->in.limit = PIN_WIRE_REQUEST_MAX;
    conn->fd = pin_steal_fd(&fd);
    if (!open_conn(conn, kept)) {
        pin_conn_free(conn);
        return;
    }
    conn->next = kept->conns;
    kept->conns = conn;
    kept->conn_count++;
}
