#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/units.h"
#include "runtime/kept/call.h"

#define FIRST_TICK_NS (PIN_NS_PER_MS / 2)
#define LAST_TICK_NS (20 * PIN_NS_PER_MS)
#define STUCK_NS (15 * PIN_NS_PER_S) /* after SIGKILL: a process in an uninterruptible wait may take long */

struct exec *pin_exec_find(struct pin_kept *kept, uint64_t id) {
    for (struct exec *exec = kept->execs; exec != NULL; exec = exec->next)
        if (exec->id == id && exec->state != EXEC_DONE)
            return exec;
    return NULL;
}

void pin_exec_free(struct exec *exec) {
    struct pin_timer **timers[] = {&exec->wall, &exec->cpu,   &exec->grace,
                                   &exec->tick, &exec->stuck, &exec->telling};
    for (size_t i = 0; i < sizeof(timers) / sizeof(timers[0]); i++)
        pin_timer_cancel(timers[i]);
    pin_exec_close_io(exec);
    pin_context_close(exec);
    pin_exec_leave(exec);
    pin_exec_free_secrets(exec);
    pin_kept_request_free(&exec->request);
    pin_result_free(&exec->result);
    free(exec->missing);
    free(exec);
}

static void on_stuck(void *self) {
    struct exec *exec = self;
    exec->stuck = NULL;
    exec->is_stuck = true;
}

bool pin_exec_signal(struct exec *exec, int number, struct pin_error *err) {
    if (exec->state != EXEC_RUNNING)
        return true; /* it isn't there yet, or no more */
    if (exec->request.hand) {
        if (number == SIGKILL)
            pin_exec_kill(exec);
        else if (number != SIGCONT)
            pin_context_interrupt(exec);
        return true;
    }
    bool ok = pin_link_signal(&exec->kept->link, exec->id, number, err);
    pin_kept_flush_link(exec->kept);
    return ok;
}

static void on_grace_over(void *self) {
    struct exec *exec = self;
    exec->grace = NULL;
    pin_exec_kill(exec);
}

void pin_exec_terminate(struct exec *exec, enum pin_status reason) {
    struct pin_error err = {0};
    uint64_t grace_ns = exec->kept->given->limits.grace_ns;
    if (!exec->has_reason) {
        exec->has_reason = true;
        exec->reason = reason;
    }
    if (!pin_exec_signal(exec, SIGTERM, &err) || !pin_exec_signal(exec, SIGCONT, &err) || grace_ns == 0) {
        pin_exec_kill(exec);
        return;
    }
    if (exec->grace == NULL)
        exec->grace =
            pin_loop_at(exec->kept->loop, pin_later(pin_now_ns(), grace_ns), on_grace_over, exec, &err);
    if (exec->grace == NULL)
        pin_exec_kill(exec);
}

static void on_tick(void *self) {
    struct exec *exec = self;
    exec->tick = NULL;
    exec->tick_over = true;
}

static void set_tick(struct exec *exec) {
    struct pin_error err = {0};
    if (exec->tick != NULL)
        return;
    exec->tick_over = false;
    exec->tick = pin_loop_at(exec->kept->loop, pin_now_ns() + exec->tick_ns, on_tick, exec, &err);
    exec->tick_ns = exec->tick_ns * 2 > LAST_TICK_NS ? LAST_TICK_NS : exec->tick_ns * 2;
    if (exec->tick == NULL)
        pin_kept_fail(exec->kept, &err);
}

/* Never read again as what it was: the next one begins anew. */
static void rewind_ticks(struct exec *exec) {
    pin_timer_cancel(&exec->tick);
    exec->tick_over = false;
    exec->tick_ns = FIRST_TICK_NS;
}

static void finish(struct exec *exec) {
    pin_exec_tell_end(exec);
    exec->state = exec->hangs ? EXEC_HANGING : EXEC_DONE;
    if (exec->hangs) {
        exec->conn = NULL;
        pin_exec_close_io(exec);
    }
    pin_context_cell_ends(exec);
    pin_kept_touch(exec->kept);
}

/* Nothing ran: refused; or, as init found out, not found or not executable. */
static void finish_unstarted(struct exec *exec, bool by_init, const struct pin_error *err) {
    exec->result.error = *err;
    pin_exec_mask_error(exec, &exec->result.error);
    exec->result.status = PIN_STATUS_REFUSED;
    exec->result.exit_code = PIN_EXIT_REFUSED;
    if (by_init && (err->kind == PIN_ERROR_NOT_FOUND || err->kind == PIN_ERROR_NOT_EXECUTABLE)) {
        exec->result.status = PIN_STATUS_ERROR;
        exec->result.exit_code =
            err->kind == PIN_ERROR_NOT_FOUND ? PIN_EXIT_NOT_FOUND : PIN_EXIT_NOT_EXECUTABLE;
    }
    finish(exec);
}

/* The tree of this command and nothing else. Without a cgroup of its own only its process group is known. */
void pin_exec_kill(struct exec *exec) {
    struct pin_error err = {0};
    if (exec->state == EXEC_QUEUED || exec->state == EXEC_FINDING) {
        (void)pin_fail(&err, PIN_ERROR_BUSY, "the command was ended before it began");
        finish_unstarted(exec, false, &err);
    }
    if (exec->state == EXEC_DONE)
        return;
    exec->is_killed = true;
    if (exec->request.hand) { /* its processes are its context's */
        pin_context_interrupt(exec);
        pin_exec_cell_over(exec, SIGKILL);
        return;
    }
    if (exec->stuck == NULL && !exec->is_stuck) /* without a timer it is waited for as long as it takes */
        exec->stuck = pin_loop_at(exec->kept->loop, pin_later(pin_now_ns(), STUCK_NS), on_stuck, exec, &err);
    if (exec->leaf.group == NULL)
        (void)pin_link_signal(&exec->kept->link, exec->id, SIGKILL, &err);
    else if (!pin_exec_kill_leaf(exec, &err))
        pin_kept_fail(exec->kept, &err);
}

static void take_fds(struct exec *exec, struct conn *conn) {
    const bool wanted[CONN_FDS_MAX] = {exec->request.input, exec->request.out, exec->request.err};
    size_t at = 0;
    for (int i = 0; i < CONN_FDS_MAX; i++)
        exec->fds[i] = wanted[i] ? conn->fds[at++] : -1;
    conn->fd_count = 0;
}

static void append(struct pin_kept *kept, struct exec *exec) {
    struct exec **end = &kept->execs;
    while (*end != NULL)
        end = &(*end)->next;
    *end = exec;
    kept->exec_count++;
}

/* Takes the request over. */
void pin_exec_new(struct conn *conn, struct pin_kept_request *request) {
    struct pin_kept *kept = conn->kept;
    struct pin_error err = {0};
    struct pin_exec_user user = {0};
    struct exec *exec = NULL;
    if (pin_exec_check(conn, request, &user, &err) &&
        pin_conn_borrow(conn, request->lent, request->lent_count, &err) &&
        (exec = calloc(1, sizeof(*exec))) == NULL)
        (void)pin_fail_errno(&err, "make room for a command");
    if (exec == NULL) {
        pin_exec_tell_refusal(conn, request, &err);
        pin_conn_fail(conn, request->id, &err);
        return;
    }
    exec->kept = kept;
    exec->id = ++kept->last_exec;
    exec->request_id = request->id;
    exec->conn = conn;
    exec->peer = conn->peer;
    pin_exec_drop_known_secrets(kept, request);
    exec->request = *request;
    *request = (struct pin_kept_request){0};
    exec->master = exec->input = exec->finding_fd = exec->hand = -1;
    exec->state = EXEC_QUEUED;
    exec->started_ns = pin_now_ns();
    rewind_ticks(exec);
    take_fds(exec, conn);
    exec->user = user;
    append(kept, exec);
    pin_exec_seek_secrets(exec);
    pin_kept_sample(kept);
}

/* Before anything of it is there. */
static bool prepare(struct exec *exec, struct pin_error *err) {
    if (!pin_exec_find_secrets(exec, err))
        return false;
    return pin_exec_tell_log(exec, err) && pin_exec_prepare_frames(exec, err);
}

static bool start(struct exec *exec, struct pin_error *err) {
    const struct pin_kept_given *given = exec->kept->given;
    if (!prepare(exec, err))
        return false;
    struct pin_link_command command = {
        .id = exec->id,
        .flags = exec->request.tty ? PIN_INIT_TTY : 0,
        .umask = given->umask,
        .rows = (uint16_t)exec->request.rows,
        .columns = (uint16_t)exec->request.columns,
        .cwd = exec->request.cwd != NULL ? exec->request.cwd : given->cwd,
        .argv = exec->request.args,
        .envp = given->envp,
        .more_env = pin_exec_environment(exec),
    };
    if (exec->user.other) {
        command.flags |= PIN_INIT_USER;
        command.uid = exec->user.uid;
        command.gid = exec->user.gid;
    }
    if (pin_exec_open_output(exec, err) && pin_exec_open_pipes(exec, &command, err) &&
        (!exec->request.context || pin_context_open(exec, &command, err)) &&
        pin_exec_take_leaf(exec, &command, err) && pin_exec_set_limits(exec, err))
        return pin_link_execute(&exec->kept->link, &command, err);
    for (size_t i = 0; i < command.fd_count; i++)
        (void)close(command.fds[i]);
    return false;
}

static bool start_handed(struct exec *cell, struct pin_error *err) {
    struct pin_link_command command = {0};
    bool ok = prepare(cell, err) && pin_exec_open_output(cell, err) &&
              pin_exec_open_pipes(cell, &command, err) && pin_exec_set_limits(cell, err) &&
              pin_context_hand(cell, command.fds, command.fd_count, err);
    for (size_t i = 0; i < command.fd_count; i++)
        (void)close(command.fds[i]);
    return ok;
}

static void on_started(struct exec *exec, struct pin_link_message *message) {
    struct pin_error err = {0};
    exec->state = EXEC_RUNNING;
    if (message->fd >= 0 && !pin_exec_open_terminal(exec, message->fd, &err)) {
        exec->result.error = err;
        pin_exec_kill(exec);
    }
    message->fd = -1;
    if (exec->is_killed || (exec->conn == NULL && !exec->request.detach))
        pin_exec_kill(exec); /* its client went away while it started, or it was ended then */
    if (exec->conn != NULL)
        pin_exec_tell_started(exec);
    if (exec->request.detach)
        exec->conn = NULL;
}

static void set_outcome(struct exec *exec, int status) {
    struct pin_result *result = &exec->result;
    pin_result_set_exit(result, status);
    if (result->signal == SIGKILL && !exec->has_reason && pin_exec_was_out_of_memory(exec)) {
        exec->has_reason = true;
        exec->reason = PIN_STATUS_MEMORY;
    }
    if (exec->has_reason && exec->reason != PIN_STATUS_KILLED)
        result->status = exec->reason;
    if (exec->has_reason && exec->reason == PIN_STATUS_TIMEOUT)
        result->exit_code = PIN_EXIT_TIMEOUT;
    if (exec->has_reason && (exec->reason == PIN_STATUS_MEMORY || exec->reason == PIN_STATUS_OUTPUT))
        result->exit_code = PIN_EXIT_MEMORY;
}

void pin_exec_start_next(struct pin_kept *kept) {
    struct exec *exec = kept->execs;
    struct pin_error err = {0};
    while (exec != NULL && exec->state != EXEC_QUEUED)
        exec = exec->next;
    if (exec == NULL || kept->starting != NULL || kept->frozen || pin_link_wants_to_send(&kept->link))
        return;
    bool handed = exec->request.hand;
    if (!(handed ? start_handed(exec, &err) : start(exec, &err))) {
        finish_unstarted(exec, false, &err);
        if (pin_link_wants_to_send(&kept->link)) /* init has a part of the request */
            pin_kept_fail(kept, &err);
        return;
    }
    pin_context_cell_begins(exec);
    if (handed) {
        struct pin_link_message none = {.fd = -1};
        on_started(exec, &none);
        return;
    }
    exec->state = EXEC_STARTING;
    kept->starting = exec;
    pin_kept_flush_link(kept);
}

static void on_exited(struct exec *exec, int status) {
    if (exec->hangs) {
        exec->hangs = false;
        exec->state = exec->state == EXEC_HANGING ? EXEC_DONE : exec->state;
        return;
    }
    /* On v1 who is to be killed can't fork any more, and may give up of itself before the signal comes. */
    set_outcome(exec, exec->is_killed && !WIFSIGNALED(status) ? SIGKILL : status);
    pin_timer_cancel(&exec->wall);
    pin_timer_cancel(&exec->cpu);
    pin_timer_cancel(&exec->grace);
    rewind_ticks(exec);
    exec->state = EXEC_EMPTYING;
}

void pin_exec_cell_over(struct exec *cell, int status) {
    if (cell->state == EXEC_RUNNING)
        on_exited(cell, status);
}

/* Whose cells get no answer any more. */
static void end_cells(const struct exec *context) {
    for (struct exec *cell = context->kept->execs; cell != NULL; cell = cell->next)
        if (cell->request.hand && cell->request.cell_of == context->id)
            pin_exec_cell_over(cell, 1 << 8);
}

static bool in_order(const struct pin_kept *kept, const struct exec *exec, uint32_t type) {
    if (type == PIN_INIT_STARTED || type == PIN_INIT_NOT_STARTED)
        return exec != NULL && exec == kept->starting;
    return type == PIN_INIT_EXITED && exec != NULL && (exec->state == EXEC_RUNNING || exec->hangs);
}

void pin_exec_on_message(struct pin_kept *kept, struct pin_link_message *message) {
    struct exec *exec = pin_exec_find(kept, message->head.id);
    struct pin_error err = {0};
    if (pin_runner_on_message(kept, message))
        return;
    if (!in_order(kept, exec, message->head.type)) {
        (void)pin_fail(&err, PIN_ERROR_INTERNAL, "init sent message %u out of its order", message->head.type);
        pin_kept_fail(kept, &err);
        return;
    }
    if (message->head.type == PIN_INIT_EXITED) {
        on_exited(exec, message->head.value);
        if (exec->request.context)
            end_cells(exec);
        return;
    }
    kept->starting = NULL;
    if (message->head.type == PIN_INIT_STARTED) {
        on_started(exec, message);
        return;
    }
    pin_link_say_why(message, exec->request.args[0],
                     exec->request.cwd != NULL ? exec->request.cwd : kept->given->cwd, &err);
    finish_unstarted(exec, true, &err);
}

/* What the command has left behind ends with it; nothing is told before the kernel says that nobody is there.
 */
static void empty(struct exec *exec) {
    struct pin_error err = {0};
    bool gone = true;
    if (exec->tick != NULL)
        return;
    if (!pin_exec_is_empty(exec, &gone, &err)) {
        pin_kept_fail(exec->kept, &err);
        return;
    }
    if (!gone) {
        pin_exec_kill(exec);
        set_tick(exec);
        return;
    }
    rewind_ticks(exec);
    pin_exec_read_usage(exec);
    exec->state = EXEC_DRAINING;
}

static void drain(struct exec *exec) {
    if (pin_exec_is_drained(exec))
        finish(exec);
    else
        set_tick(exec);
}

/* What it has written is told, and that the kernel doesn't let it die; the sandbox goes on. */
static void give_up_stuck(struct exec *exec) {
    struct pin_error stuck = {0};
    exec->hangs = exec->state == EXEC_RUNNING;
    if (exec->hangs)
        set_outcome(exec, SIGKILL);
    (void)pin_fail(&stuck, PIN_ERROR_BUSY, "the command doesn't die: a process of it hangs in the kernel");
    (void)pin_hint(&stuck, "look for a process in state D, and at what it waits for; then end the sandbox");
    pin_result_note(&exec->result, &stuck);
    rewind_ticks(exec);
    pin_exec_read_usage(exec);
    exec->state = EXEC_DRAINING;
}

void pin_exec_advance(struct exec *exec) {
    if (exec->is_stuck && (exec->state == EXEC_RUNNING || exec->state == EXEC_EMPTYING))
        give_up_stuck(exec);
    if (exec->state == EXEC_EMPTYING)
        empty(exec);
    if (exec->state == EXEC_DRAINING)
        drain(exec);
}

void pin_exec_give_up(struct exec *exec) {
    if (exec->state == EXEC_HANGING)
        exec->state = EXEC_DONE;
    if (exec->state == EXEC_DONE || exec->state == EXEC_DRAINING)
        return;
    if (exec->state != EXEC_EMPTYING) {
        exec->result.status = exec->kept->out_of_memory ? PIN_STATUS_MEMORY : PIN_STATUS_KILLED;
        exec->result.signal = SIGKILL;
        exec->result.exit_code = 128 + SIGKILL;
    }
    rewind_ticks(exec);
    exec->state = EXEC_DRAINING;
}
