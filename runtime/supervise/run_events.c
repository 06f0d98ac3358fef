#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/text.h"
#include "runtime/secrets/mask.h"
#include "runtime/supervise/run.h"

static void tell_stream(struct run *run, const char *type, json_t *fields) {
    struct pin_error err = {0};
    if (!pin_stream_event(run->given->stream, type, fields, &err))
        pin_run_fail(run, &err);
}

void pin_run_tell_limit(struct run *run, const char *limit, const char *unit, uint64_t value) {
    if (run->given->output == PIN_OUTPUT_STREAM) {
        json_t *fields = json_pack("{s:s}", "limit", limit);
        if (unit != NULL)
            (void)json_object_set_new(fields, unit, json_integer((json_int_t)value));
        tell_stream(run, "limit", fields);
    }
    if (run->given->output == PIN_OUTPUT_PASS && unit != NULL && strcmp(unit, "bytes") == 0) {
        char line[128];
        int length = snprintf(line, sizeof(line), "\npinfold: %s is cut here, after %llu bytes\n", limit,
                              (unsigned long long)value);
        pin_sink_write(run->sinks[STREAM_ERR], line, (size_t)length);
    }
}

static void take_frame(struct run *run, const struct pin_frame_info *info, const uint8_t *payload,
                       bool from_fd) {
    bool streams = run->given->output == PIN_OUTPUT_STREAM;
    if (streams)
        tell_stream(run, payload != NULL && info->kind == PIN_FRAME_PROGRESS ? "progress" : "frame",
                    pin_frame_json(info, from_fd, payload));
    if (!streams || (payload != NULL && info->kind == PIN_FRAME_RESULT))
        pin_result_add_frame(run->result, info, payload, from_fd, run->given->limits.frame_bytes);
}

void pin_run_on_frame(void *self, const struct pin_frame_info *info, const uint8_t *payload, bool from_fd) {
    struct run *run = self;
    struct pin_frame_info masked_info = *info;
    size_t size = 0;
    if (run->given->mask == NULL || payload == NULL) {
        take_frame(run, info, payload, from_fd);
        return;
    }
    PIN_FREE uint8_t *masked = pin_mask_bytes(run->given->mask, payload, info->length, &size);
    if (masked == NULL || size > UINT32_MAX) {
        struct pin_error err = {0};
        (void)pin_fail(&err, PIN_ERROR_EXHAUSTED, "no memory to mask a frame");
        pin_run_fail(run, &err);
        return;
    }
    masked_info.length = (uint32_t)size; /* of what is handed on */
    take_frame(run, &masked_info, masked, from_fd);
}

static void on_not_started(struct run *run, const struct pin_link_message *message) {
    struct pin_error err = {0};
    pin_link_say_why(message, run->given->argv[0], run->given->cwd, &err);
    if (message->stage != PIN_INIT_STAGE_EXEC) {
        pin_run_fail(run, &err);
        return;
    }
    run->result->error = err;
    run->result->status = PIN_STATUS_ERROR;
    run->result->exit_code = err.kind == PIN_ERROR_NOT_FOUND ? PIN_EXIT_NOT_FOUND : PIN_EXIT_NOT_EXECUTABLE;
    pin_run_kill(run);
}

static bool in_order(const struct run *run, const struct pin_link_message *message) {
    switch (message->head.type) {
    case PIN_INIT_BUILD_FAILED:
    case PIN_INIT_READY: return !run->started;
    case PIN_INIT_STARTED:
    case PIN_INIT_NOT_STARTED: return run->link.ready && !run->started && message->head.id == COMMAND_ID;
    case PIN_INIT_EXITED: return run->started && !run->exited && message->head.id == COMMAND_ID;
    default: return false;
    }
}

static void on_message(struct run *run, const struct pin_link_message *message) {
    struct pin_error err = {0};
    if (!in_order(run, message)) {
        if (message->fd >= 0)
            (void)close(message->fd);
        (void)pin_fail(&err, PIN_ERROR_INTERNAL, "init sent message %u out of its order", message->head.type);
        pin_run_fail(run, &err);
        return;
    }
    switch (message->head.type) {
    case PIN_INIT_BUILD_FAILED: pin_run_fail(run, &message->failure); break;
    case PIN_INIT_STARTED:
        run->started = true;
        if (message->fd >= 0 && !pin_run_open_terminal(run, message->fd, &err))
            pin_run_fail(run, &err);
        break;
    case PIN_INIT_NOT_STARTED: on_not_started(run, message); break;
    case PIN_INIT_EXITED:
        run->exited = true;
        run->wait_status = message->head.value;
        break;
    default: break; /* READY: the request is on its way already */
    }
}

void pin_run_take_messages(struct run *run) {
    for (;;) {
        struct pin_error err = {0};
        struct pin_link_message message;
        switch (pin_link_receive(&run->link, &message, &err)) {
        case PIN_LINK_NOTHING: return;
        case PIN_LINK_MESSAGE: on_message(run, &message); break;
        case PIN_LINK_BROKEN: pin_run_fail(run, &err); /* fall through */
        case PIN_LINK_CLOSED:
            pin_source_remove(&run->control_in);
            pin_source_remove(&run->control_out);
            if (run->exited)
                pin_run_await_death(run); /* init goes, and the kernel kills all others: no help is needed */
            else
                pin_run_kill(run);
            return;
        }
    }
}

static void on_control_in(void *self, unsigned events) {
    (void)events;
    pin_run_take_messages(self);
}

static void on_control_out(void *self, unsigned events) {
    struct run *run = self;
    struct pin_error err = {0};
    (void)events;
    if (!pin_link_send(&run->link, &err))
        pin_run_fail(run, &err);
    if (run->control_out != NULL && !pin_link_wants_to_send(&run->link))
        pin_source_pause(run->control_out);
}

static void on_init_end(void *self, unsigned events) {
    struct run *run = self;
    (void)events;
    run->dead = true;
    run->ended_ns = pin_now_ns();
    pin_source_remove(&run->init_end);
}

static void on_fatal_signal(struct run *run, int number) {
    if (run->dead) {
        run->given_up = true; /* the caller doesn't want to wait for a slow reader */
    } else if (run->forwarded != 0 || run->killed) {
        pin_run_kill_for(run, PIN_STATUS_KILLED);
    } else {
        run->forwarded = number;
        pin_run_signal(run, number);
        pin_run_start_grace(run);
    }
}

void pin_run_take_signals(struct run *run) {
    struct signalfd_siginfo info;
    while (read(run->signal_fd, &info, sizeof(info)) == (ssize_t)sizeof(info)) {
        if (info.ssi_signo != SIGWINCH)
            on_fatal_signal(run, (int)info.ssi_signo);
        else if (run->master >= 0 && run->given->terminal_fd >= 0)
            pin_terminal_follow(run->master, run->given->terminal_fd);
    }
}

static void on_signals(void *self, unsigned events) {
    (void)events;
    pin_run_take_signals(self);
}

/* By nohup(1), or by a shell for what runs in its background: that is to go on. */
static bool is_ignored(int number) {
    struct sigaction now;
    return sigaction(number, NULL, &now) == 0 && now.sa_handler == SIG_IGN;
}

static bool take_signals(struct run *run, struct pin_error *err) {
    static const int wanted[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGWINCH};
    sigset_t signals, blocked;
    (void)sigemptyset(&signals);
    for (size_t i = 0; i < sizeof(wanted) / sizeof(wanted[0]); i++)
        if (wanted[i] == SIGWINCH || !is_ignored(wanted[i]))
            (void)sigaddset(&signals, wanted[i]);
    blocked = signals;
    (void)sigaddset(&blocked, SIGPIPE); /* EPIPE says it to the one whom it concerns */
    if (sigprocmask(SIG_BLOCK, &blocked, &run->mask_before) < 0)
        return pin_fail_errno(err, "block signals");
    run->mask_changed = true;
    run->signal_fd = signalfd(-1, &signals, SFD_CLOEXEC | SFD_NONBLOCK);
    if (run->signal_fd < 0)
        return pin_fail_errno(err, "make a descriptor of signals");
    run->signals = pin_loop_watch(run->loop, run->signal_fd, POLLIN, on_signals, run, err);
    return run->signals != NULL;
}

void pin_run_take_egress(struct run *run) {
    const struct pin_egress_ops *egress = &run->given->egress;
    bool streams = run->given->output == PIN_OUTPUT_STREAM;
    json_t *fields = NULL;
    while (egress->next(egress->self, streams ? &fields : NULL))
        if (streams)
            tell_stream(run, "egress", fields);
}

static void on_egress(void *self, unsigned events) {
    struct run *run = self;
    (void)events;
    pin_run_take_egress(run);
    if (run->given->egress.fd(run->given->egress.self) < 0)
        pin_source_remove(&run->egress);
}

static bool watch_egress(struct run *run, struct pin_error *err) {
    const struct pin_egress_ops *egress = &run->given->egress;
    if (egress->fd == NULL)
        return true;
    run->egress = pin_loop_watch(run->loop, egress->fd(egress->self), POLLIN, on_egress, run, err);
    return run->egress != NULL;
}

bool pin_run_watch(struct run *run, struct pin_error *err) {
    const struct pin_supervision *given = run->given;
    if (!take_signals(run, err))
        return false;
    run->init_end = pin_loop_watch(run->loop, given->init_pidfd, POLLIN, on_init_end, run, err);
    if (run->init_end == NULL)
        return false;
    run->control_in = pin_loop_watch(run->loop, given->control, POLLIN, on_control_in, run, err);
    if (run->control_in == NULL)
        return false;
    run->control_out = pin_loop_watch(run->loop, given->control, POLLOUT, on_control_out, run, err);
    if (run->control_out == NULL)
        return false;
    if (!pin_link_wants_to_send(&run->link))
        pin_source_pause(run->control_out);
    return watch_egress(run, err);
}
