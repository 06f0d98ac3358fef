#include "runtime/egress/start.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "base/cleanup.h"
#include "base/io.h"

#define STATUS_WITHIN_MS 500
#define SETTLED_WITHIN_MS 20
#define HIGH_FD                                                                                              \
    64 /* above every number that the broker expects: no dup2() lands on what is still to be moved */

/* Copies of everything that is handed over, out of the way of the numbers that they'll have. */
struct parcel {
    int fds[PIN_BROKER_FD_END];
};

static void close_parcel(struct parcel *parcel) {
    for (int i = 0; i < PIN_BROKER_FD_END; i++)
        pin_close_fd(&parcel->fds[i]);
}

static bool pack(struct parcel *parcel, int number, int fd, struct pin_error *err) {
    if (fd < 0)
        return true;
    parcel->fds[number] = fcntl(fd, F_DUPFD_CLOEXEC, HIGH_FD);
    if (parcel->fds[number] < 0)
        return pin_fail_errno(err, "start the egress broker");
    return true;
}

static bool pack_all(struct parcel *parcel, const struct pin_broker_options *options,
                     const struct pin_egress_sockets *sockets, int control, int rules,
                     struct pin_error *err) {
    bool packed = pack(parcel, PIN_BROKER_CONTROL_FD, control, err) &&
                  pack(parcel, PIN_BROKER_RULES_FD, rules, err) &&
                  pack(parcel, PIN_BROKER_LIFE_FD, options->life, err) &&
                  pack(parcel, PIN_BROKER_DOOR_FD, options->door, err);
    for (size_t i = 0; packed && options->door >= 0 && i < options->setup->rules.allow_count; i++)
        packed = pack(parcel, PIN_BROKER_LISTENER_FD + (int)i, options->listeners[i], err);
    for (int i = 0; packed && i < PIN_EGRESS_SOCKET_COUNT; i++)
        packed = pack(parcel, PIN_BROKER_SOCKET_FD + i, sockets->fds[i], err);
    return packed;
}

static int unpack_in_child(posix_spawn_file_actions_t *actions, const struct parcel *parcel) {
    int code = 0;
    for (int i = 0; code == 0 && i < PIN_BROKER_CONTROL_FD;
         i++) /* the caller's terminal is no business of it */
        code = posix_spawn_file_actions_addopen(actions, i, "/dev/null", O_RDWR, 0);
    for (int i = PIN_BROKER_CONTROL_FD; code == 0 && i < PIN_BROKER_FD_END; i++)
        if (parcel->fds[i] >= 0)
            code = posix_spawn_file_actions_adddup2(actions, parcel->fds[i], i);
        else
            code = posix_spawn_file_actions_addclose(actions, i); /* an inherited one would pass for ours */
    return code;
}

static bool spawn(const struct pin_broker_options *options, const struct parcel *parcel, pid_t *pid,
                  struct pin_error *err) {
    char resolv[4096] = "";
    char *const argv[] = {(char[]){"pinfold-broker"}, NULL};
    char *const environment[] = {resolv, NULL};
    if (options->resolv_conf != NULL)
        (void)snprintf(resolv, sizeof(resolv), "PINFOLD_RESOLV_CONF=%s", options->resolv_conf);
    posix_spawn_file_actions_t actions;
    posix_spawnattr_t attributes;
    (void)posix_spawn_file_actions_init(&actions);
    (void)posix_spawnattr_init(&attributes);
    sigset_t none;
    (void)sigemptyset(&none);
    (void)posix_spawnattr_setsigmask(&attributes, &none);
    (void)posix_spawnattr_setpgroup(&attributes, 0); /* a terminal's ^C is for the sandbox */
    (void)posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETPGROUP);
    int code = unpack_in_child(&actions, parcel);
    if (code == 0)
        code = posix_spawn(pid, options->program, &actions, &attributes, argv, environment);
    (void)posix_spawn_file_actions_destroy(&actions);
    (void)posix_spawnattr_destroy(&attributes);
    errno = code;
    return code == 0 || pin_fail_errno(err, "start '%s'", options->program);
}

static bool open_pidfd(struct pin_broker *broker, struct pin_error *err) {
    broker->pidfd = (int)syscall(SYS_pidfd_open, broker->pid, 0);
    if (broker->pidfd >= 0)
        return true;
    (void)pin_fail_errno(err, "start the egress broker");
    (void)kill(broker->pid, SIGKILL);
    (void)waitpid(broker->pid, NULL, 0);
    return false;
}

static bool start(const struct pin_broker_options *options, const struct pin_egress_sockets *sockets,
                  struct pin_broker *broker, struct pin_error *err) {
    PIN_CLOSE int rules = pin_rules_blob_write(options->setup, err);
    int ends[2];
    if (rules < 0)
        return false;
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends) != 0)
        return pin_fail_errno(err, "start the egress broker");
    PIN_CLOSE int ours = ends[0];
    PIN_CLOSE int theirs = ends[1];
    struct parcel parcel;
    memset(parcel.fds, -1, sizeof(parcel.fds));
    struct pin_broker made = {.control = ours};
    bool started = pack_all(&parcel, options, sockets, theirs, rules, err) &&
                   spawn(options, &parcel, &made.pid, err) && open_pidfd(&made, err);
    close_parcel(&parcel);
    if (!started)
        return false;
    made.control = pin_steal_fd(&ours);
    *broker = made;
    return true;
}

bool pin_broker_start(const struct pin_broker_options *options, struct pin_egress_sockets *sockets,
                      struct pin_broker *broker, struct pin_error *err) {
    bool started = start(options, sockets, broker, err);
    pin_egress_close(sockets);
    return started;
}

enum pin_broker_news pin_broker_next(const struct pin_broker *broker, size_t rule_count,
                                     struct pin_egress_event *event) {
    ssize_t size = recv(broker->control, event, sizeof(*event), MSG_DONTWAIT);
    if (size < 0 && (errno == EAGAIN || errno == EINTR))
        return PIN_BROKER_NOTHING;
    bool good = size > 0 && pin_egress_event_valid(event, (size_t)size, rule_count);
    return good ? PIN_BROKER_EVENT : PIN_BROKER_GONE;
}

static bool request(const struct pin_broker *broker, enum pin_broker_request what, int fd,
                    struct pin_error *err) {
    _Alignas(struct cmsghdr) char control[CMSG_SPACE(sizeof(int))] = {0};
    char byte = (char)what;
    struct iovec data = {&byte, 1};
    struct msghdr message = {
        .msg_iov = &data, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof(control)};
    struct cmsghdr *header = CMSG_FIRSTHDR(&message);
    *header = (struct cmsghdr){
        .cmsg_len = CMSG_LEN(sizeof(int)), .cmsg_level = SOL_SOCKET, .cmsg_type = SCM_RIGHTS};
    memcpy(CMSG_DATA(header), &fd, sizeof(fd));
    if (sendmsg(broker->control, &message, MSG_NOSIGNAL | MSG_DONTWAIT) != 1)
        return pin_fail_errno(err, "ask the egress broker");
    return true;
}

bool pin_broker_replace(const struct pin_broker *broker, const struct pin_egress_setup *setup,
                        struct pin_error *err) {
    PIN_CLOSE int blob = pin_rules_blob_write(setup, err);
    return blob >= 0 && request(broker, PIN_BROKER_REPLACE, blob, err);
}

void pin_broker_end(const struct pin_broker *broker, bool drains) {
    const char word = drains ? PIN_BROKER_END : PIN_BROKER_CUT;
    bool told =
        send(broker->control, &word, 1, MSG_NOSIGNAL | MSG_DONTWAIT) == 1; /* else it is gone already */
    if (!drains || !told)
        (void)shutdown(broker->control, SHUT_WR);
}

void pin_broker_settle(const struct pin_broker *broker) {
    struct pin_error unasked = {0}; /* then it tells later */
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) != 0)
        return;
    PIN_CLOSE int ours = ends[0];
    PIN_CLOSE int theirs = ends[1];
    struct pollfd told = {.fd = ours};
    if (!request(broker, PIN_BROKER_SETTLE, theirs, &unasked))
        return;
    pin_close_fd(&theirs);
    (void)poll(&told, 1, SETTLED_WITHIN_MS); /* POLLHUP alone */
}

/* Until the broker has closed its end. */
static bool read_all(int stream, char *to, size_t room, size_t *size, struct pin_error *err) {
    *size = 0;
    while (*size < room) {
        struct pollfd ready = {.fd = stream, .events = POLLIN};
        if (poll(&ready, 1, STATUS_WITHIN_MS) != 1)
            return pin_fail(err, PIN_ERROR_BUSY, "the egress broker doesn't answer");
        ssize_t got = recv(stream, to + *size, room - *size, MSG_DONTWAIT);
        if (got < 0 && errno != EAGAIN && errno != EINTR)
            return pin_fail_errno(err, "read the egress broker's answer");
        if (got == 0)
            return true;
        *size += got > 0 ? (size_t)got : 0;
    }
    return true;
}

bool pin_broker_status(const struct pin_broker *broker, size_t rule_count, struct pin_egress_status *list,
                       size_t *count, struct pin_error *err) {
    int ends[2], room = (int)(PIN_EGRESS_STATUS_MAX * sizeof(*list));
    size_t size;
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0)
        return pin_fail_errno(err, "ask the egress broker");
    PIN_CLOSE int ours = ends[0];
    PIN_CLOSE int theirs = ends[1];
    pin_ignore(setsockopt(theirs, SOL_SOCKET, SO_SNDBUF, &room, sizeof(room))); /* fewer records then */
    if (!request(broker, PIN_BROKER_STATUS, theirs, err))
        return false;
    pin_close_fd(&theirs);
    if (!read_all(ours, (char *)list, (size_t)room, &size, err))
        return false;
    *count = size / sizeof(*list);
    for (size_t i = 0; i < *count; i++)
        if (!pin_egress_status_valid(&list[i], rule_count))
            return pin_fail(err, PIN_ERROR_INVALID, "the egress broker's answer can't be right");
    return true;
}
