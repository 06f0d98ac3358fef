#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/io.h"
#include "base/units.h"
#include "runtime/build/cgroup/leaf.h"
#include "runtime/kept/call.h"
#include "runtime/kept/scratch.h"

#define CALLS_MAX 256
#define FIRST_PID 2 /* what the filter's rules for the zygote name: tools/pinfold-kept/up.c */

enum runner_state { RUNNER_LOADING, RUNNER_READY, RUNNER_SPENT /* it has had its one call */ };

struct heard { /* from a runner that forks; "=Ii" in zygote.py */
    uint32_t call;
    int32_t status; /* of waitpid(2), one of the next two, or -errno: it couldn't fork */
};

#define HEARD_STARTED 0x10000 /* from here on the call may have run */
#define HEARD_WAITING 0x10001 /* a fork waits for the next call */

struct runner {
    struct pin_kept *kept;
    const struct pin_kept_runner *given;
    enum runner_state state;
    uint32_t id; /* init's number of its process */
    int socket;  /* to one that forks */
    struct pin_source *heard;
    struct pin_cgroup *leaf; /* of the call that runs */
    int entrances[PIN_CGROUP_LEAF_DIRS], entrance_count;
    bool leaf_spent; /* killed: on v1 nobody can fork in it any more */
    uint32_t last_call;
    struct call *calls; /* the first one runs, unless it is queued */
    size_t call_count;
    struct pin_cgroup_usage before; /* of the leaf, when its call began */
    struct pin_scratch scratch;
};

static void fail(struct runner *runner, const char *why) {
    struct pin_error err = {0};
    (void)pin_fail(&err, PIN_ERROR_SYSTEM, "the sandbox's runner %s", why);
    pin_kept_fail(runner->kept, &err);
}

static bool open_leaf(struct runner *runner, struct pin_error *err) {
    char name[24];
    (void)snprintf(name, sizeof(name), "call-%u", ++runner->last_call);
    const struct pin_cgroup *group = runner->kept->given->sandbox->cgroup;
    if (group == NULL)
        return pin_fail(err, PIN_ERROR_UNSUPPORTED, "a runner needs cgroups, and the sandbox has none");
    runner->leaf = pin_cgroup_leaf_create(group, name, err);
    int count = runner->leaf == NULL ? -1 : pin_cgroup_leaf_entrances(runner->leaf, runner->entrances, err);
    runner->entrance_count = count < 0 ? 0 : count;
    runner->leaf_spent = false;
    runner->before = (struct pin_cgroup_usage){0};
    return count >= 0;
}

static void close_leaf(struct runner *runner) {
    struct pin_error err = {0};
    if (runner->leaf != NULL)
        (void)pin_cgroup_remove(runner->leaf, 0, &err); /* or with the sandbox's */
    pin_cgroup_free(runner->leaf);
    runner->leaf = NULL;
    while (runner->entrance_count > 0)
        (void)close(runner->entrances[--runner->entrance_count]);
}

static struct call *running(const struct runner *runner) {
    struct call *first = runner->calls;
    return first != NULL && first->state != CALL_QUEUED && first->state != CALL_DONE ? first : NULL;
}

bool pin_runner_kill(struct runner *runner, struct pin_error *err) {
    runner->leaf_spent = true;
    return runner->leaf == NULL || pin_cgroup_kill(runner->leaf, err);
}

bool pin_runner_strike(struct runner *runner, bool *whole, struct pin_error *err) {
    runner->leaf_spent = true;
    *whole = false;
    return runner->leaf == NULL || pin_cgroup_strike(runner->leaf, whole, err);
}

bool pin_runner_is_empty(struct runner *runner, bool *empty, struct pin_error *err) {
    *empty = true;
    return runner->leaf == NULL || pin_cgroup_is_empty(runner->leaf, empty, err);
}

static bool read_leaf(const struct runner *runner, struct pin_cgroup_usage *usage) {
    struct pin_error err = {0};
    return runner->leaf != NULL && pin_cgroup_usage_read(runner->leaf, usage, &err);
}

/* The leaf stays from call to call: what was there before isn't this one's. The peaks are of all so far. */
void pin_runner_usage(struct runner *runner, struct pin_usage *usage) {
    struct pin_cgroup_usage now;
    if (!read_leaf(runner, &now))
        return;
    usage->cpu_ns = now.cpu_ns - runner->before.cpu_ns;
    usage->memory_peak_bytes = now.memory_peak_bytes;
    usage->pids_peak = now.pids_peak;
    usage->oom_kills = now.oom_kills - runner->before.oom_kills;
    runner->kept->exec_oom_kills += usage->oom_kills;
    runner->before = now;
}

bool pin_runner_was_out_of_memory(struct runner *runner) {
    struct pin_cgroup_usage now;
    bool in_leaf = read_leaf(runner, &now) && now.oom_kills > runner->before.oom_kills;
    return pin_kept_was_out_of_memory(runner->kept) || in_leaf;
}

static bool hand_over(struct runner *runner, struct call *call, struct pin_error *err) {
    struct {
        uint32_t call;
        uint8_t nonce[PIN_FRAME_MARKER_SIZE];
    } message = {.call = call->id};
    int fds[CALL_FDS + PIN_CGROUP_LEAF_DIRS];
    size_t count = call->inside_count;
    union {
        struct cmsghdr align;
        char room[CMSG_SPACE(sizeof(fds))];
    } control = {0};
    struct iovec part = {&message, sizeof(message)};
    struct msghdr whole = {.msg_iov = &part,
                           .msg_iovlen = 1,
                           .msg_control = control.room,
                           .msg_controllen = sizeof(control.room)};
    memcpy(fds, call->inside, count * sizeof(int));
    for (int i = 0; i < runner->entrance_count; i++)
        fds[count++] = runner->entrances[i];
    whole.msg_controllen = CMSG_SPACE(count * sizeof(int));
    struct cmsghdr *rights = CMSG_FIRSTHDR(&whole);
    rights->cmsg_level = SOL_SOCKET;
    rights->cmsg_type = SCM_RIGHTS;
    rights->cmsg_len = CMSG_LEN(count * sizeof(int));
    memcpy(CMSG_DATA(rights), fds, count * sizeof(int));
    memcpy(message.nonce, call->nonce, sizeof(message.nonce));
    if (sendmsg(runner->socket, &whole, MSG_NOSIGNAL) != (ssize_t)sizeof(message))
        return pin_fail_errno(err, "hand a call to the runner");
    for (size_t i = 0; i < call->inside_count; i++)
        pin_close_fd(&call->inside[i]);
    return true;
}

static bool begin(struct runner *runner, struct call *call, struct pin_error *err) {
    if (runner->leaf_spent)
        close_leaf(runner);
    call->id = runner->last_call + 1;
    return (runner->leaf != NULL || open_leaf(runner, err)) && pin_call_open(call, err) &&
           hand_over(runner, call, err) && pin_call_run(call, err);
}

static void start_next(struct runner *runner) {
    struct call *call = runner->calls;
    struct pin_error err = {0};
    if (call == NULL || call->state != CALL_QUEUED || runner->state != RUNNER_READY || runner->kept->frozen)
        return;
    if (begin(runner, call, &err))
        return;
    if (call->conn != NULL)
        pin_conn_fail(call->conn, call->request_id, &err);
    call->state = CALL_DONE;
    pin_kept_fail(runner->kept, &err);
}

static void tell_clean(struct runner *runner) {
    struct pin_error err = {0};
    if (send(runner->socket, "", 1, MSG_NOSIGNAL) == 1)
        return;
    (void)pin_fail_errno(&err, "talk to the runner");
    pin_kept_fail(runner->kept, &err);
}

/* After the answer, before the next call. */
static void clean(struct runner *runner) {
    struct pin_error err = {0};
    if (!runner->given->forks) {
        runner->state = RUNNER_SPENT;
        pin_kept_end(runner->kept, "its one call is over", 0);
        return;
    }
    if (pin_scratch_clean(&runner->scratch, &err))
        tell_clean(runner);
    else
        pin_kept_end(runner->kept, "what a call has left can't be removed", 0);
}

void pin_runner_advance(struct pin_kept *kept) {
    struct runner *runner = kept->runner;
    if (runner == NULL)
        return;
    if (running(runner) != NULL)
        pin_call_advance(runner->calls);
    for (struct call **slot = &runner->calls; *slot != NULL;) {
        struct call *call = *slot;
        if (call->state != CALL_DONE) {
            slot = &call->next;
            continue;
        }
        bool had_run = call->id != 0;
        *slot = call->next;
        runner->call_count--;
        pin_call_free(call);
        pin_kept_touch(kept);
        if (had_run && !kept->ending)
            clean(runner);
    }
    if (!kept->ending)
        start_next(runner);
}

void pin_runner_give_up(struct pin_kept *kept) {
    for (struct call *call = kept->runner == NULL ? NULL : kept->runner->calls; call != NULL;
         call = call->next)
        pin_call_give_up(call);
}

bool pin_runner_is_busy(const struct pin_kept *kept) {
    const struct call *first = kept->runner == NULL ? NULL : kept->runner->calls;
    return first != NULL && first->state != CALL_AHEAD;
}

void pin_runner_forget(struct pin_kept *kept, const struct conn *conn) {
    for (struct call *call = kept->runner == NULL ? NULL : kept->runner->calls; call != NULL;
         call = call->next)
        if (call->conn == conn) {
            call->conn = NULL;
            pin_call_end(call, PIN_STATUS_KILLED);
        }
}

bool pin_runner_serves(const struct pin_kept *kept, const struct conn *conn) {
    for (const struct call *call = kept->runner == NULL ? NULL : kept->runner->calls; call != NULL;
         call = call->next)
        if (call->conn == conn)
            return true;
    return false;
}

/* What asks for it, and doesn't get it: kept->ended and pauses are as for commands. */
static bool check(const struct conn *conn, const struct pin_kept_request *request, struct pin_error *err) {
    const struct pin_kept *kept = conn->kept;
    const struct runner *runner = kept->runner;
    uint64_t most_ns = kept->given->limits.wall_time_ns;
    if (runner == NULL)
        return pin_fail(err, PIN_ERROR_UNSUPPORTED, "this sandbox has no runner for calls");
    if (conn->fd_count != (request->sealed > 0 ? 2 : 1))
        return pin_fail(err, PIN_ERROR_INVALID,
                        "a descriptor has to come with a call: its packet; and one for its secrets, if any");
    if (request->sealed > 0 && runner->given->forks)
        return pin_fail(err, PIN_ERROR_UNSUPPORTED, "no secrets are handed to a runner that stays");
    if (kept->ending || runner->state == RUNNER_SPENT)
        return pin_fail(err, PIN_ERROR_BUSY, "the sandbox is ending");
    if (kept->paused)
        return pin_fail(err, PIN_ERROR_BUSY, "the sandbox is paused");
    if ((request->if_idle || !runner->given->forks) && kept->frozen)
        return pin_fail(err, PIN_ERROR_BUSY, "the sandbox is frozen");
    if ((request->if_idle || !runner->given->forks) && pin_runner_is_busy(kept))
        return pin_fail(err, PIN_ERROR_BUSY, "another call runs");
    if (runner->call_count >= CALLS_MAX)
        return pin_fail(err, PIN_ERROR_EXHAUSTED, "%d calls wait for this sandbox already", CALLS_MAX);
    if (request->has_timeout && most_ns != PIN_UNLIMITED && request->timeout_ms > most_ns / PIN_NS_PER_MS)
        return pin_fail(err, PIN_ERROR_REFUSED, "the policy grants a call %llu ms at most",
                        (unsigned long long)(most_ns / PIN_NS_PER_MS));
    return true;
}

static void append(struct runner *runner, struct call *call) {
    struct call **end = &runner->calls;
    while (*end != NULL)
        end = &(*end)->next;
    *end = call;
    runner->call_count++;
}

static void fill(struct call *call, struct conn *conn, const struct pin_kept_request *request) {
    call->conn = conn;
    call->request_id = request->id;
    call->has_timeout = request->has_timeout;
    call->timeout_ns = request->timeout_ms * PIN_NS_PER_MS;
    call->packet = conn->fds[0];
    call->sealed = request->sealed > 0 ? conn->fds[1] : -1;
    call->sealed_count = request->sealed;
    conn->fd_count = 0;
    (void)snprintf(call->key, sizeof(call->key), "%s", request->key);
}

void pin_runner_begin(struct runner *runner) {
    struct call *call = runner->calls;
    struct pin_error err = {0};
    (void)read_leaf(runner, &runner->before);
    pin_call_started(call);
    if (pin_call_run(call, &err))
        return;
    pin_conn_fail(call->conn, call->request_id, &err);
    pin_kept_fail(runner->kept, &err);
}

/* What has been handed in already is never anybody else's. */
void pin_runner_decline(struct runner *runner, const struct pin_error *why) {
    if (runner->calls->conn != NULL)
        pin_conn_fail(runner->calls->conn, runner->calls->request_id, why);
    runner->calls->conn = NULL;
    pin_kept_end(runner->kept, "its one call couldn't have its secrets", 0);
}

void pin_runner_serve(struct conn *conn, struct pin_kept_request *request) {
    struct runner *runner = conn->kept->runner;
    struct pin_error err = {0};
    struct call *call = NULL;
    if (check(conn, request, &err))
        call = runner->given->forks ? pin_call_new(conn->kept, &err) : runner->calls;
    if (call == NULL) {
        pin_conn_fail(conn, request->id, &err);
        return;
    }
    fill(call, conn, request);
    if (runner->given->forks) {
        call->state = CALL_QUEUED;
        append(runner, call);
        start_next(runner);
        return;
    }
    if (request->sealed == 0)
        pin_runner_begin(runner);
    else if (!pin_call_await_secrets(call, &err))
        pin_runner_decline(runner, &err);
}

void pin_runner_is_ready(struct runner *runner) {
    if (runner->state == RUNNER_LOADING)
        runner->state = RUNNER_READY;
}

bool pin_runner_may_open(const struct pin_kept *kept) {
    return kept->runner == NULL || kept->runner->state != RUNNER_LOADING;
}

static void take(struct runner *runner, const struct heard *heard) {
    struct call *call = running(runner);
    if (heard->status == HEARD_WAITING) {
        pin_runner_is_ready(runner);
    } else if (heard->status < 0) {
        fail(runner, "can't fork");
    } else if (call == NULL || call->state != CALL_RUNNING) {
        fail(runner, "speaks out of its order");
    } else if (heard->status == HEARD_STARTED) {
        pin_call_started(call);
    } else {
        pin_call_exited(call, heard->status);
    }
}

static void on_heard(void *self, unsigned events) {
    struct runner *runner = self;
    struct heard heard;
    (void)events;
    for (;;) {
        ssize_t got = recv(runner->socket, &heard, sizeof(heard), MSG_DONTWAIT | MSG_TRUNC);
        if (got < 0 && (errno == EAGAIN || errno == EINTR))
            return;
        if (got == (ssize_t)sizeof(heard)) {
            take(runner, &heard);
            continue;
        }
        pin_source_remove(&runner->heard);
        if (!runner->kept->ending)
            fail(runner, "has ended");
        return;
    }
}

bool pin_runner_on_message(struct pin_kept *kept, const struct pin_link_message *message) {
    struct runner *runner = kept->runner;
    struct pin_error err = {0};
    if (runner == NULL || message->head.id != runner->id)
        return false;
    switch (message->head.type) {
    case PIN_INIT_STARTED:
        if (runner->given->forks && message->head.value != FIRST_PID)
            fail(runner, "isn't the process that the filter shields");
        return true;
    case PIN_INIT_NOT_STARTED:
        pin_link_say_why(message, runner->given->argv[0], kept->given->cwd, &err);
        pin_kept_fail(kept, &err);
        return true;
    case PIN_INIT_EXITED:
        if (!runner->given->forks && runner->calls != NULL && runner->calls->state == CALL_RUNNING)
            pin_call_exited(runner->calls, message->head.value);
        else if (!kept->ending && !(runner->calls != NULL && runner->calls->is_struck))
            fail(runner, "has ended");
        return true;
    default: return false;
    }
}

static bool open_scratch(struct runner *runner, struct pin_error *err) {
    char path[64];
    (void)snprintf(path, sizeof(path), "/proc/%d/root", (int)runner->kept->given->sandbox->init);
    PIN_CLOSE int root = open(path, O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (root < 0)
        return pin_fail_errno(err, "open the sandbox's root");
    return pin_scratch_open(&runner->scratch, root, runner->given->scratch, runner->given->scratch_count,
                            err);
}

static bool open_socket(struct runner *runner, struct pin_link_command *command, struct pin_error *err) {
    int ends[2];
    if (!open_leaf(runner, err)) /* of the first call: without one, no call is known to have ended */
        return false;
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) != 0)
        return pin_fail_errno(err, "make a socket for the runner");
    runner->socket = ends[0];
    command->flags = PIN_INIT_FRAME;
    command->fds[command->fd_count++] = ends[1];
    runner->heard = pin_loop_watch(runner->kept->loop, ends[0], POLLIN, on_heard, runner, err);
    return runner->heard != NULL;
}

/* The call's own pipes, and its cgroup, from birth. */
static bool open_ahead(struct runner *runner, struct pin_link_command *command, char nonce[64],
                       struct pin_error *err) {
    struct call *call = pin_call_new(runner->kept, err);
    if (call == NULL)
        return false;
    append(runner, call);
    call->id = 1;
    if (!open_leaf(runner, err) || !pin_call_open(call, err))
        return false;
    command->flags = PIN_INIT_STDIN | PIN_INIT_STDOUT | PIN_INIT_STDERR | PIN_INIT_FRAME;
    for (size_t i = 0; i < call->inside_count; i++) {
        command->fds[command->fd_count++] = call->inside[i];
        call->inside[i] = -1;
    }
    for (int i = 0; i < runner->entrance_count; i++)
        command->fds[command->fd_count++] = runner->entrances[i];
    command->entrances = (uint32_t)runner->entrance_count;
    runner->entrance_count = 0;
    int length = snprintf(nonce, 64, "PINFOLD_FRAME_NONCE=");
    for (size_t i = 0; i < sizeof(call->nonce); i++)
        length += snprintf(nonce + length, 3, "%02x", call->nonce[i]);
    return true;
}

bool pin_runner_start(struct pin_kept *kept, struct pin_error *err) {
    const struct pin_kept_given *given = kept->given;
    char nonce[64] = "";
    const char *ahead[] = {"PINFOLD_FRAME_FD=3", nonce, NULL}, *none[] = {NULL};
    if (given->runner == NULL)
        return true;
    struct runner *runner = calloc(1, sizeof(*runner));
    if (runner == NULL)
        return pin_fail_errno(err, "make room for a runner");
    *runner = (struct runner){.kept = kept, .given = given->runner, .socket = -1};
    kept->runner = runner;
    runner->id = ++kept->last_exec;
    struct pin_link_command command = {
        .id = runner->id,
        .umask = given->umask,
        .cwd = given->cwd,
        .argv = given->runner->argv,
        .envp = given->envp,
        .more_env = given->runner->forks ? none : ahead,
    };
    bool ready =
        open_scratch(runner, err) && (given->runner->forks ? open_socket(runner, &command, err)
                                                           : open_ahead(runner, &command, nonce, err));
    if (ready && pin_link_execute(&kept->link, &command, err)) {
        pin_kept_flush_link(kept);
        return true;
    }
    for (size_t i = 0; !ready && i < command.fd_count; i++)
        (void)close(command.fds[i]);
    return false;
}

void pin_runner_free(struct pin_kept *kept) {
    struct runner *runner = kept->runner;
    if (runner == NULL)
        return;
    for (struct call *call = runner->calls, *next; call != NULL; call = next) {
        next = call->next;
        pin_call_free(call);
    }
    close_leaf(runner);
    pin_source_remove(&runner->heard);
    pin_close_fd(&runner->socket);
    pin_scratch_close(&runner->scratch);
    free(runner);
    kept->runner = NULL;
}
