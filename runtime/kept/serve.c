#include "runtime/kept/serve.h"

#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/units.h"
#include "runtime/kept/call.h"
#include "runtime/kept/home.h"

#define READY_NS (30 * PIN_NS_PER_S)
#define DIE_NS (5 * PIN_NS_PER_S)  /* to serve others meanwhile; who ends the sandbox waits longer */
#define LOOK_NS (5 * PIN_NS_PER_S) /* no watch: a user has few of inotify, and may have many sandboxes */
#define LAST_WORDS_NS (2 * PIN_NS_PER_S) /* for clients to take what there is at the end */

static const char gone[] = "init has gone";

void pin_kept_touch(struct pin_kept *kept) {
    kept->active_ns = pin_now_ns();
}

/* A process that hangs in the kernel keeps init from dying: who ends the sandbox says so. */
static void on_stuck(void *self) {
    struct pin_kept *kept = self;
    kept->stuck = NULL;
    kept->over = true;
}

static void kill_all(struct pin_kept *kept) {
    struct pin_error err = {0};
    const struct pin_sandbox *sandbox = kept->given->sandbox;
    if (sandbox->cgroup != NULL)
        (void)pin_cgroup_kill(sandbox->cgroup, &err);                       /* the next line ends them too */
    (void)syscall(SYS_pidfd_send_signal, sandbox->pidfd, SIGKILL, NULL, 0); /* it may be dead already */
    if (kept->stuck == NULL) /* without a timer it is waited for all the same, by who ends the sandbox */
        kept->stuck = pin_loop_at(kept->loop, pin_later(pin_now_ns(), DIE_NS), on_stuck, kept, &err);
    kept->over = kept->over || kept->stuck == NULL;
}

static void on_grace_over(void *self) {
    struct pin_kept *kept = self;
    kept->grace = NULL;
    kill_all(kept);
}

static bool ask_to_end(struct pin_kept *kept, struct pin_error *err) {
    if (kept->frozen && !pin_cgroup_thaw(kept->given->sandbox->cgroup, err))
        return false;
    if (!pin_link_signal(&kept->link, 0, SIGTERM, err) || !pin_link_signal(&kept->link, 0, SIGCONT, err))
        return false;
    pin_kept_flush_link(kept);
    return true;
}

/* Who asks once more doesn't take away what the first has granted: the earlier of the two ends counts. */
static bool grant(struct pin_kept *kept, uint64_t grace_ns, struct pin_error *err) {
    uint64_t end_ns = pin_later(pin_now_ns(), grace_ns);
    if (kept->grace != NULL && kept->grace_end_ns <= end_ns)
        return true;
    if (kept->grace == NULL && !ask_to_end(kept, err))
        return false;
    pin_timer_cancel(&kept->grace);
    kept->grace_end_ns = end_ns;
    kept->grace = pin_loop_at(kept->loop, end_ns, on_grace_over, kept, err);
    return kept->grace != NULL;
}

void pin_kept_end(struct pin_kept *kept, const char *why, uint64_t grace_ns) {
    struct pin_error err = {0};
    if (!kept->ending)
        kept->why = why;
    kept->ending = true;
    if (grace_ns == 0 || kept->exec_count == 0 || !grant(kept, grace_ns, &err))
        kill_all(kept);
}

void pin_kept_fail(struct pin_kept *kept, const struct pin_error *failure) {
    if (!pin_is_set(&kept->failure))
        kept->failure = *failure;
    kept->is_cut = true;
    pin_kept_end(kept, "failed", 0);
}

void pin_kept_flush_link(struct pin_kept *kept) {
    if (pin_link_wants_to_send(&kept->link) && kept->control_out != NULL)
        pin_source_resume(kept->control_out);
}

static void on_idle(void *self) {
    struct pin_kept *kept = self;
    struct pin_error err = {0};
    uint64_t now = pin_now_ns();
    kept->idle = NULL;
    if (pin_kept_is_busy(kept))
        kept->active_ns = now;
    if (pin_later(kept->active_ns, kept->idle_ns) <= now)
        pin_kept_end(kept, "idle", kept->given->limits.grace_ns);
    else if (!pin_kept_set_times(kept, &err))
        pin_kept_fail(kept, &err);
}

static void on_lifetime(void *self) {
    struct pin_kept *kept = self;
    kept->lifetime = NULL;
    pin_kept_end(kept, "lifetime", kept->given->limits.grace_ns);
}

bool pin_kept_set_times(struct pin_kept *kept, struct pin_error *err) {
    pin_timer_cancel(&kept->idle);
    pin_timer_cancel(&kept->lifetime);
    if (kept->idle_ns != PIN_UNLIMITED) {
        kept->idle = pin_loop_at(kept->loop, pin_later(kept->active_ns, kept->idle_ns), on_idle, kept, err);
        if (kept->idle == NULL)
            return false;
    }
    if (kept->lifetime_ns == PIN_UNLIMITED)
        return true;
    kept->lifetime =
        pin_loop_at(kept->loop, pin_later(kept->started_ns, kept->lifetime_ns), on_lifetime, kept, err);
    return kept->lifetime != NULL;
}

static void on_message(struct pin_kept *kept, struct pin_link_message *message) {
    if (message->head.type == PIN_INIT_BUILD_FAILED && !kept->ready)
        pin_kept_fail(kept, &message->failure);
    else if (message->head.type == PIN_INIT_READY && !kept->ready)
        kept->ready = true;
    else
        pin_exec_on_message(kept, message);
    if (message->fd >= 0)
        (void)close(message->fd);
}

static void on_control_in(void *self, unsigned events) {
    struct pin_kept *kept = self;
    (void)events;
    for (;;) {
        struct pin_error err = {0};
        struct pin_link_message message;
        switch (pin_link_receive(&kept->link, &message, &err)) {
        case PIN_LINK_NOTHING: return;
        case PIN_LINK_MESSAGE: on_message(kept, &message); break;
        case PIN_LINK_BROKEN: pin_kept_fail(kept, &err); /* fall through */
        case PIN_LINK_CLOSED:
            pin_source_remove(&kept->control_in);
            pin_source_remove(&kept->control_out);
            pin_kept_end(kept, gone, 0);
            return;
        }
    }
}

static void on_control_out(void *self, unsigned events) {
    struct pin_kept *kept = self;
    struct pin_error err = {0};
    (void)events;
    if (!pin_link_send(&kept->link, &err))
        pin_kept_fail(kept, &err);
    if (kept->control_out != NULL && !pin_link_wants_to_send(&kept->link))
        pin_source_pause(kept->control_out);
}

static void on_init_end(void *self, unsigned events) {
    struct pin_kept *kept = self;
    (void)events;
    if (!kept->ending || strcmp(kept->why, gone) == 0) {
        kept->out_of_memory = pin_kept_was_out_of_memory(kept);
        kept->why = kept->out_of_memory ? "memory" : gone;
    }
    kept->ending = kept->over = true;
    pin_source_remove(&kept->init_end);
}

static void on_signals(void *self, unsigned events) {
    struct pin_kept *kept = self;
    struct signalfd_siginfo info;
    (void)events;
    while (read(kept->signal_fd, &info, sizeof(info)) == (ssize_t)sizeof(info))
        pin_kept_end(kept, "its supervisor was told to end",
                     info.ssi_signo == SIGQUIT ? 0 : kept->given->limits.grace_ns);
}

static void on_client(void *self, unsigned events) {
    (void)events;
    pin_conn_accept(self);
}

static void take_egress(struct pin_kept *kept) {
    const struct pin_egress_ops *egress = &kept->given->egress;
    while (egress->next(egress->self, NULL))
        kept->egress_events++;
    if (egress->fd(egress->self) < 0)
        pin_source_remove(&kept->egress);
}

size_t pin_kept_lost(const struct pin_kept *kept, const char *names[PIN_EGRESS_LOST_MAX]) {
    const struct pin_egress_ops *egress = &kept->given->egress;
    return egress->lost != NULL ? egress->lost(egress->self, names) : 0;
}

/* The processes are gone: what they have sent goes out, and all of it is counted before the last bill. */
static void end_egress(struct pin_kept *kept) {
    const struct pin_egress_ops *egress = &kept->given->egress;
    if (egress->fd == NULL)
        return;
    while (kept->over && !egress->end(egress->self, !kept->is_cut))
        take_egress(kept);
    take_egress(kept);
    pin_source_remove(&kept->egress);
}

static void on_egress(void *self, unsigned events) {
    (void)events;
    take_egress(self);
}

void pin_kept_settle_egress(struct pin_kept *kept) {
    if (kept->egress == NULL)
        return;
    kept->given->egress.settle(kept->given->egress.self);
    take_egress(kept);
}

static bool take_signals(struct pin_kept *kept, struct pin_error *err) {
    static const int wanted[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT};
    sigset_t signals;
    (void)sigemptyset(&signals);
    for (size_t i = 0; i < sizeof(wanted) / sizeof(wanted[0]); i++)
        (void)sigaddset(&signals, wanted[i]);
    if (sigprocmask(SIG_BLOCK, &signals, NULL) < 0)
        return pin_fail_errno(err, "block signals");
    kept->signal_fd = signalfd(-1, &signals, SFD_CLOEXEC | SFD_NONBLOCK);
    if (kept->signal_fd < 0)
        return pin_fail_errno(err, "make a descriptor of signals");
    kept->signals = pin_loop_watch(kept->loop, kept->signal_fd, POLLIN, on_signals, kept, err);
    return kept->signals != NULL;
}

static bool watch(struct pin_kept *kept, struct pin_error *err) {
    const struct pin_kept_given *given = kept->given;
    const struct pin_sandbox *sandbox = given->sandbox;
    kept->init_end = pin_loop_watch(kept->loop, sandbox->pidfd, POLLIN, on_init_end, kept, err);
    if (kept->init_end == NULL || !take_signals(kept, err))
        return false;
    kept->control_in = pin_loop_watch(kept->loop, sandbox->control, POLLIN, on_control_in, kept, err);
    if (kept->control_in == NULL)
        return false;
    kept->control_out = pin_loop_watch(kept->loop, sandbox->control, POLLOUT, on_control_out, kept, err);
    if (kept->control_out == NULL)
        return false;
    pin_source_pause(kept->control_out);
    if (given->egress.fd == NULL)
        return true;
    kept->egress =
        pin_loop_watch(kept->loop, given->egress.fd(given->egress.self), POLLIN, on_egress, kept, err);
    return kept->egress != NULL;
}

static bool await_init(struct pin_kept *kept, struct pin_error *err) {
    kept->grace = pin_loop_at(kept->loop, pin_later(pin_now_ns(), READY_NS), on_grace_over, kept, err);
    if (kept->grace == NULL)
        return false;
    while (!kept->ready && !kept->over)
        if (!pin_loop_step(kept->loop, err))
            return false;
    if (kept->ready && !kept->ending && !pin_runner_start(kept, err))
        return false;
    while (!pin_runner_may_open(kept) && !kept->over)
        if (!pin_loop_step(kept->loop, err))
            return false;
    pin_timer_cancel(&kept->grace);
    if (kept->ready && !kept->ending)
        return true;
    if (pin_is_set(&kept->failure))
        *err = kept->failure;
    else
        (void)pin_fail(err, PIN_ERROR_SYSTEM, "the sandbox ended before it was ready");
    return false;
}

static bool look_again(struct pin_kept *kept, struct pin_error *err);

/* Without its directory nobody finds it any more: it would hold memory and ids until its times are over. */
static void on_look(void *self) {
    struct pin_kept *kept = self;
    struct pin_error err = {0};
    kept->look = NULL;
    if (pin_home_socket(kept->given->folder) != kept->door)
        pin_kept_end(kept, "its directory was removed", kept->given->limits.grace_ns);
    else if (!look_again(kept, &err))
        pin_kept_fail(kept, &err);
}

static bool look_again(struct pin_kept *kept, struct pin_error *err) {
    kept->look = pin_loop_at(kept->loop, pin_later(pin_now_ns(), LOOK_NS), on_look, kept, err);
    return kept->look != NULL;
}

static bool open_doors(struct pin_kept *kept, struct pin_error *err) {
    const struct pin_kept_given *given = kept->given;
    if (!pin_log_open(&kept->log, given->folder, PIN_LOG_FILE_MAX, err))
        return false;
    kept->listener = pin_home_listen(given->folder, err);
    if (kept->listener < 0)
        return false;
    kept->door = pin_home_socket(given->folder);
    kept->accepting = pin_loop_watch(kept->loop, kept->listener, POLLIN, on_client, kept, err);
    return kept->accepting != NULL && pin_kept_set_times(kept, err) && look_again(kept, err) &&
           pin_home_write(given->folder, "sandbox.json", given->facts, err);
}

/* What callbacks have marked is freed here, where no callback is on the stack. */
static void sweep(struct pin_kept *kept) {
    for (struct exec *exec = kept->execs; exec != NULL; exec = exec->next)
        pin_exec_advance(exec);
    for (struct exec **slot = &kept->execs; *slot != NULL;) {
        struct exec *exec = *slot;
        if (exec->state != EXEC_DONE) {
            slot = &exec->next;
            continue;
        }
        *slot = exec->next;
        kept->exec_count--;
        pin_exec_free(exec);
        pin_kept_sample(kept);
    }
    pin_attach_advance(kept);
    pin_runner_advance(kept);
    for (struct conn **slot = &kept->conns; *slot != NULL;) {
        struct conn *conn = *slot;
        if (!conn->closed) {
            slot = &conn->next;
            continue;
        }
        *slot = conn->next;
        kept->conn_count--;
        pin_conn_free(conn);
    }
}

static bool step(struct pin_kept *kept, struct pin_error *err) {
    if (!pin_loop_step(kept->loop, err))
        return false;
    sweep(kept);
    if (!kept->ending) {
        pin_exec_start_next(kept);
    } else if (kept->grace != NULL && kept->exec_count == 0) { /* there is nobody left to wait for */
        pin_timer_cancel(&kept->grace);
        kill_all(kept);
    }
    return true;
}

static bool live(struct pin_kept *kept, struct pin_error *err) {
    if (!watch(kept, err) || !await_init(kept, err) || !open_doors(kept, err))
        return false;
    pin_kept_sample(kept);
    if (!kept->given->ready(kept->given->self, err))
        return false;
    while (!kept->over)
        if (!step(kept, err))
            return false;
    return true;
}

static bool are_replies_out(const struct pin_kept *kept) {
    for (const struct conn *conn = kept->conns; conn != NULL; conn = conn->next)
        if (!conn->closed && pin_sink_is_full(conn->sink))
            return false;
    return kept->execs == NULL && !pin_attach_any_busy(kept);
}

static void on_patience_over(void *self) {
    *(bool *)self = true;
}

/* First without having cleared: whoever waits for the end from outside sees that it has begun. */
static json_t *write_end(const struct pin_kept *kept, bool cleared) {
    struct pin_error unsaid = {0}; /* `show` does without it */
    json_t *end =
        json_pack("{s:s, s:b}", "why", kept->why != NULL ? kept->why : "failed", "cleared", (int)cleared);
    if (kept->log.file.fd >= 0)
        (void)pin_home_write(kept->given->folder, "end.json", end, &unsaid);
    return end;
}

/* What is written still comes out, and whoever waits is told; for a while, whoever doesn't listen. */
static void say_goodbye(struct pin_kept *kept, bool destroyed) {
    struct pin_error err = {0};
    bool over = false;
    struct pin_timer *patience =
        pin_loop_at(kept->loop, pin_later(pin_now_ns(), LAST_WORDS_NS), on_patience_over, &over, &err);
    for (struct exec *exec = kept->execs; exec != NULL; exec = exec->next)
        pin_exec_give_up(exec);
    pin_runner_give_up(kept);
    sweep(kept);
    while ((kept->execs != NULL || pin_runner_is_busy(kept)) && !over && patience != NULL && step(kept, &err))
        ;
    json_t *end = write_end(kept, destroyed);
    pin_verbs_wake(kept, 0, end);
    json_decref(end);
    sweep(kept);
    while (!are_replies_out(kept) && !over && patience != NULL && step(kept, &err))
        ;
    if (!over)
        pin_timer_cancel(&patience);
}

static void clean_up(struct pin_kept *kept) {
    struct pin_timer **timers[] = {&kept->idle,     &kept->lifetime,     &kept->grace, &kept->stuck,
                                   &kept->sampling, &kept->accept_again, &kept->look};
    struct pin_source **sources[] = {&kept->accepting, &kept->control_in, &kept->control_out,
                                     &kept->init_end,  &kept->signals,    &kept->egress};
    for (struct exec *exec = kept->execs; exec != NULL; exec = exec->next)
        exec->state = EXEC_DONE;
    for (struct conn *conn = kept->conns; conn != NULL; conn = conn->next)
        pin_conn_close(conn);
    sweep(kept);
    pin_runner_free(kept);
    for (size_t i = 0; i < sizeof(timers) / sizeof(timers[0]); i++)
        pin_timer_cancel(timers[i]);
    for (size_t i = 0; i < sizeof(sources) / sizeof(sources[0]); i++)
        pin_source_remove(sources[i]);
    pin_link_release(&kept->link);
    pin_loop_free(kept->loop);
    pin_attach_free_all(kept);
    pin_kept_forget_secrets(kept);
    pin_kept_free_leaves(kept);
    pin_log_close(&kept->log);
    pin_close_fd(&kept->listener);
    pin_close_fd(&kept->signal_fd);
}

bool pin_kept_serve(const struct pin_kept_given *given, const char **why, struct pin_error *err) {
    struct pin_error ignored = {0};
    struct pin_kept *kept = calloc(1, sizeof(*kept));
    if (kept == NULL) {
        (void)pin_fail_errno(err, "make room for a supervisor");
        (void)given->destroy(given->self, &ignored);
        return false;
    }
    kept->given = given;
    kept->listener = kept->signal_fd = kept->log.file.fd = kept->log.older.fd = -1;
    kept->idle_ns = given->idle_ns;
    kept->lifetime_ns = given->lifetime_ns;
    kept->started_ns = kept->active_ns = pin_now_ns();
    pin_link_init(&kept->link, given->sandbox->control);
    kept->loop = pin_loop_new(PIN_IO_AUTO, err);
    bool ok = kept->loop != NULL && live(kept, err);
    pin_source_remove(&kept->accepting);
    pin_source_remove(&kept->init_end);
    pin_source_remove(&kept->control_in);
    pin_source_remove(&kept->control_out);
    end_egress(kept);
    if (kept->memory.at_ns != 0)
        pin_kept_bill(kept); /* while there is a cgroup that can be asked */
    json_decref(write_end(kept, false));
    bool destroyed =
        given->destroy(given->self, &ignored); /* what is left, the next command's sweep takes up */
    kept->ending = true;
    if (kept->loop != NULL) {
        say_goodbye(kept, destroyed);
        clean_up(kept);
    }
    *why = kept->why != NULL ? kept->why : "failed";
    free(kept);
    return ok;
}
