#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "runtime/supervise/run.h"

static void on_drained(void *self) {
    const struct run *run = self;
    for (int i = 0; i < STREAM_COUNT; i++)
        if (run->collectors[i] != NULL)
            pin_collector_resume(run->collectors[i]);
}

/* As in a pipeline of the shell: the writer inside finds that nobody reads any more. */
static void on_broken(struct run *run, int error, int stream) {
    if (error != EPIPE && run->output_error == 0)
        run->output_error = error;
    if (run->collectors[stream] != NULL)
        pin_collector_stop(run->collectors[stream]);
}

static void on_out_broken(void *self, int error) {
    struct run *run = self;
    on_broken(run, error, STREAM_OUT);
    if (run->given->output == PIN_OUTPUT_STREAM)
        on_broken(run, error, STREAM_ERR);
}

static void on_err_broken(void *self, int error) {
    on_broken(self, error, STREAM_ERR);
}

static bool open_sink(struct run *run, int i, int fd, struct pin_error *err) {
    const struct pin_sink_events events = {run, on_drained, i == STREAM_OUT ? on_out_broken : on_err_broken};
    run->sinks[i] = pin_sink_new(run->loop, fd, false, &events, err);
    return run->sinks[i] != NULL;
}

static bool open_sinks(struct run *run, struct pin_error *err) {
    const struct pin_supervision *given = run->given;
    switch (given->output) {
    case PIN_OUTPUT_PASS:
        return open_sink(run, STREAM_OUT, given->stdout_fd, err) &&
               open_sink(run, STREAM_ERR, given->stderr_fd, err);
    case PIN_OUTPUT_STREAM:
        if (!open_sink(run, STREAM_OUT, given->stream->fd, err))
            return false;
        given->stream->sink = run->sinks[STREAM_OUT];
        return true;
    case PIN_OUTPUT_CAPTURE: return true;
    case PIN_OUTPUT_COUNT: break;
    }
    abort();
}

static void set_outlets(struct run *run) {
    static const char *const types[] = {"stdout", "stderr"};
    for (int i = 0; i < 2; i++)
        run->outlets[i] = (struct pin_outlet){
            .kind = run->given->output,
            .sink = run->given->output == PIN_OUTPUT_STREAM ? run->sinks[STREAM_OUT] : run->sinks[i],
            .text = i == STREAM_OUT ? &run->result->out : &run->result->err,
            .stream = run->given->stream,
            .type = types[i],
        };
}

static void on_stdout_frame(void *self, const struct pin_frame_info *info, const uint8_t *payload) {
    pin_run_on_frame(self, info, payload, false);
}

static void on_fd_frame(void *self, const struct pin_frame_info *info, const uint8_t *payload) {
    pin_run_on_frame(self, info, payload, true);
}

static void on_cut(struct run *run, const char *stream, uint64_t limit_bytes) {
    pin_run_tell_limit(run, stream, "bytes", limit_bytes);
    if (run->given->limits.on_output_cap == PIN_ON_CAP_KILL)
        pin_run_kill_for(run, PIN_STATUS_OUTPUT);
}

static void on_out_cut(void *self) {
    struct run *run = self;
    on_cut(run, "stdout", run->given->limits.stdout_bytes);
}

static void on_err_cut(void *self) {
    struct run *run = self;
    on_cut(run, "stderr", run->given->limits.stderr_bytes);
}

static uint64_t text_limit(const struct run *run, uint64_t limit_bytes) {
    bool captured = run->given->output == PIN_OUTPUT_CAPTURE;
    return captured && limit_bytes > PIN_CAPTURE_MAX ? PIN_CAPTURE_MAX : limit_bytes;
}

static struct pin_frame_options frame_options(struct run *run, bool letta, bool pinfold) {
    struct pin_frame_options options = {.letta = letta,
                                        .pinfold = pinfold,
                                        .limit_bytes = run->given->limits.frame_bytes,
                                        .result_seen = letta && (run->given->frames & PIN_FRAMES_FD)
                                                           ? &run->out_result_seen
                                                           : &run->result_seen};
    memcpy(options.nonce, run->nonce, sizeof(options.nonce));
    return options;
}

/* Takes the descriptor over. */
static bool collect(struct run *run, int stream, int fd, struct pin_error *err) {
    bool is_frame = stream == STREAM_FRAME, in_stdout = stream == STREAM_OUT && !run->given->tty;
    struct pin_frame_options frames =
        frame_options(run, in_stdout && (run->given->frames & PIN_FRAMES_STDOUT_LETTA),
                      is_frame || (in_stdout && (run->given->frames & PIN_FRAMES_STDOUT)));
    const struct pin_limits *limits = &run->given->limits;
    struct pin_collector_options options = {
        .fd = fd,
        .limit_bytes = text_limit(run, stream == STREAM_ERR ? limits->stderr_bytes : limits->stdout_bytes),
        .outlet = is_frame ? NULL : &run->outlets[stream],
        .record = is_frame               ? &run->strays
                  : stream == STREAM_OUT ? &run->result->out
                                         : &run->result->err,
        .frames = frames.letta || frames.pinfold ? &frames : NULL,
        .mask = run->given->mask,
        .self = run,
        .on_frame = is_frame ? on_fd_frame : on_stdout_frame,
        .on_cut = stream == STREAM_OUT ? on_out_cut : on_err_cut,
    };
    run->collectors[stream] = pin_collector_new(run->loop, &options, err);
    return run->collectors[stream] != NULL;
}

/* A pipe whose end `inside` (0: it reads, 1: it writes) is for the command; ours doesn't block. */
static bool open_pipe(const struct run *run, int inside, int ends[2], struct pin_error *err) {
    if (pipe2(ends, O_CLOEXEC) < 0)
        return pin_fail_errno(err, "make a pipe");
    if (fcntl(ends[!inside], F_SETFL, O_NONBLOCK) == 0 &&
        (!run->given->has_owner || fchown(ends[inside], run->given->owner_uid, run->given->owner_gid) == 0))
        return true;
    (void)pin_fail_errno(err, "prepare a pipe");
    (void)close(ends[0]);
    (void)close(ends[1]);
    return false;
}

static bool open_output(struct run *run, struct pin_link_command *command, int stream,
                        struct pin_error *err) {
    static const uint32_t flags[] = {PIN_INIT_STDOUT, PIN_INIT_STDERR, PIN_INIT_FRAME};
    int ends[2];
    if (!open_pipe(run, 1, ends, err))
        return false;
    command->flags |= flags[stream];
    command->fds[command->fd_count++] = ends[1];
    return collect(run, stream, ends[0], err);
}

static void on_input_lost(void *self, const struct pin_error *why) {
    pin_run_fail(self, why);
}

static struct pin_pump *pump_input(struct run *run, int from, int to, const char *at_end,
                                   struct pin_error *err) {
    return pin_pump_new(run->loop, from, to, at_end, &(struct pin_pump_events){run, on_input_lost}, err);
}

static bool open_input(struct run *run, struct pin_link_command *command, struct pin_error *err) {
    int ends[2];
    if (!open_pipe(run, 0, ends, err))
        return false;
    command->flags |= PIN_INIT_STDIN;
    command->fds[command->fd_count++] = ends[0];
    run->pump = pump_input(run, run->given->stdin_fd, ends[1], NULL, err);
    return run->pump != NULL;
}

/* In the order of the flags, which is the order of the descriptors. */
static bool open_pipes(struct run *run, struct pin_link_command *command, struct pin_error *err) {
    const struct pin_supervision *given = run->given;
    if (!given->tty) {
        if (given->stdin_fd >= 0 && !open_input(run, command, err))
            return false;
        if (!open_output(run, command, STREAM_OUT, err) || !open_output(run, command, STREAM_ERR, err))
            return false;
    }
    return !(given->frames & PIN_FRAMES_FD) || open_output(run, command, STREAM_FRAME, err);
}

bool pin_run_open_streams(struct run *run, struct pin_error *err) {
    if (!open_sinks(run, err))
        return false;
    set_outlets(run);
    return true;
}

bool pin_run_open_terminal(struct run *run, int master, struct pin_error *err) {
    const struct pin_supervision *given = run->given;
    PIN_CLOSE int reading = -1, writing = -1;
    run->master = master;
    if (!pin_terminal_take(master, &reading, &writing, err))
        return false;
    if (!collect(run, STREAM_OUT, pin_steal_fd(&reading), err))
        return false;
    int from = given->terminal_fd >= 0 ? given->terminal_fd : given->stdin_fd;
    if (from >= 0)
        run->pump = pump_input(run, from, pin_steal_fd(&writing), "\x04", err);
    if (from >= 0 && run->pump == NULL)
        return false;
    return given->terminal_fd < 0 || pin_terminal_raw(&run->terminal, given->terminal_fd, err);
}

/* What may be the start of a marker waits for its next byte: text that ends with it, a prompt or an answer
 * that somebody waits for, would be held up. So the first byte is one that no text has: RFC 3629. */
#define NEVER_IN_UTF8 0xf8

static bool choose_nonce(struct run *run, struct pin_error *err) {
    if (run->given->has_nonce)
        memcpy(run->nonce, run->given->nonce, sizeof(run->nonce));
    else if (getrandom(run->nonce, sizeof(run->nonce), 0) != (ssize_t)sizeof(run->nonce))
        return pin_fail_errno(err, "draw the run's nonce");
    else
        run->nonce[0] |= NEVER_IN_UTF8;
    return true;
}

static void add_frame_variables(struct run *run) {
    size_t count = 0;
    if (run->given->frames & PIN_FRAMES_FD)
        run->more_env[count++] = "PINFOLD_FRAME_FD=3";
    if (!(run->given->frames & (PIN_FRAMES_FD | PIN_FRAMES_STDOUT)))
        return;
    int length = snprintf(run->nonce_variable, sizeof(run->nonce_variable), "PINFOLD_FRAME_NONCE=");
    for (size_t i = 0; i < sizeof(run->nonce); i++)
        length += snprintf(run->nonce_variable + length, 3, "%02x", run->nonce[i]);
    run->more_env[count] = run->nonce_variable;
}

/* The request is sent before init has said that it is ready: it waits in the socket, and init finds it there
 * at its first look. */
bool pin_run_start(struct run *run, struct pin_error *err) {
    const struct pin_supervision *given = run->given;
    struct pin_link_command command = {
        .id = COMMAND_ID,
        .flags = PIN_INIT_LAST | (given->tty ? PIN_INIT_TTY : 0),
        .umask = given->umask,
        .cwd = given->cwd,
        .argv = given->argv,
        .envp = given->envp,
        .more_env = run->more_env,
    };
    if (!choose_nonce(run, err))
        return false;
    add_frame_variables(run);
    if (given->tty)
        pin_terminal_size(given->terminal_fd, &command.rows, &command.columns);
    if (open_pipes(run, &command, err))
        return pin_link_execute(&run->link, &command, err);
    for (size_t i = 0; i < command.fd_count; i++)
        (void)close(command.fds[i]);
    return false;
}
