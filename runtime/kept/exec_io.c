#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "runtime/kept/parts.h"
#include "runtime/supervise/terminal.h"

enum { OUT = STREAM_OUT, ERR = STREAM_ERR };

static const enum pin_log_kind log_kinds[] = {PIN_LOG_STDOUT, PIN_LOG_STDERR};
static const char *const stream_names[] = {"stdout", "stderr"};

static void on_drained(void *self) {
    const struct exec *exec = self;
    for (int i = 0; i < STREAM_COUNT; i++)
        if (exec->collectors[i] != NULL)
            pin_collector_resume(exec->collectors[i]);
}

/* As in a pipeline of the shell: the writer inside finds that nobody reads any more. */
static void on_broken(struct exec *exec, int error, int stream) {
    bool left = error == EPIPE || error == ECONNRESET;
    if (!left && exec->output_error == 0)
        exec->output_error = error;
    if (exec->collectors[stream] != NULL)
        pin_collector_stop(exec->collectors[stream]);
}

static void on_out_broken(void *self, int error) {
    struct exec *exec = self;
    on_broken(exec, error, OUT);
    if (exec->request.output == PIN_OUTPUT_STREAM)
        on_broken(exec, error, ERR);
}

static void on_err_broken(void *self, int error) {
    on_broken(self, error, ERR);
}

static void tap(struct exec *exec, int stream, const uint8_t *data, size_t size) {
    if (!pin_log_write(&exec->kept->log, log_kinds[stream], exec->id, data, size))
        exec->is_unlogged = true;
}

static void tap_out(void *self, const uint8_t *data, size_t size) {
    tap(self, OUT, data, size);
}

static void tap_err(void *self, const uint8_t *data, size_t size) {
    tap(self, ERR, data, size);
}

/* A stream that nobody takes goes nowhere but into the log. */
static bool open_sink(struct exec *exec, int stream, struct pin_error *err) {
    const struct pin_sink_events events = {exec, on_drained, stream == OUT ? on_out_broken : on_err_broken};
    PIN_CLOSE int fd = exec->fds[stream + 1];
    exec->fds[stream + 1] = -1;
    if (fd < 0)
        fd = open("/dev/null", O_WRONLY | O_CLOEXEC | O_NOCTTY);
    if (fd < 0)
        return pin_fail_errno(err, "open '/dev/null'");
    exec->sinks[stream] = pin_sink_new(exec->kept->loop, fd, true, &events, err);
    if (exec->sinks[stream] != NULL)
        (void)pin_steal_fd(&fd);
    return exec->sinks[stream] != NULL;
}

static void set_outlet(struct exec *exec, int stream) {
    bool streams = exec->request.output == PIN_OUTPUT_STREAM;
    exec->outlets[stream] = (struct pin_outlet){
        .kind = exec->request.output,
        .sink = exec->sinks[streams ? OUT : stream],
        .text = stream == OUT ? &exec->result.out : &exec->result.err,
        .stream = &exec->stream,
        .type = stream_names[stream],
        .tap = stream == OUT ? tap_out : tap_err,
        .tap_self = exec,
    };
}

bool pin_exec_open_output(struct exec *exec, struct pin_error *err) {
    bool passes = exec->request.output == PIN_OUTPUT_PASS;
    if (exec->request.output != PIN_OUTPUT_CAPTURE && !open_sink(exec, OUT, err))
        return false;
    if (passes && !exec->request.tty && !open_sink(exec, ERR, err))
        return false;
    exec->stream = (struct pin_stream){.fd = -1, .started_ns = exec->started_ns, .sink = exec->sinks[OUT]};
    set_outlet(exec, OUT);
    set_outlet(exec, ERR);
    return true;
}

static void on_cut(struct exec *exec, int stream, uint64_t limit_bytes) {
    json_t *fields =
        json_pack("{s:s, s:I}", "stream", stream_names[stream], "bytes", (json_int_t)limit_bytes);
    PIN_FREE char *text = fields == NULL ? NULL : json_dumps(fields, JSON_COMPACT);
    json_decref(fields);
    if (text == NULL || !pin_log_write(&exec->kept->log, PIN_LOG_CUT, exec->id, text, strlen(text)))
        exec->is_unlogged = true;
    if (exec->kept->given->limits.on_output_cap != PIN_ON_CAP_KILL)
        return;
    exec->has_reason = true;
    exec->reason = PIN_STATUS_OUTPUT;
    pin_exec_kill(exec);
}

static void on_out_cut(void *self) {
    struct exec *exec = self;
    on_cut(exec, OUT, exec->kept->given->limits.stdout_bytes);
}

static void on_err_cut(void *self) {
    struct exec *exec = self;
    on_cut(exec, ERR, exec->kept->given->limits.stderr_bytes);
}

static uint64_t text_limit(const struct exec *exec, int stream) {
    const struct pin_limits *limits = &exec->kept->given->limits;
    uint64_t limit_bytes = stream == OUT ? limits->stdout_bytes : limits->stderr_bytes;
    bool captured = exec->request.output == PIN_OUTPUT_CAPTURE;
    return captured && limit_bytes > PIN_CAPTURE_MAX ? PIN_CAPTURE_MAX : limit_bytes;
}

/* Takes the descriptor over. */
static bool collect(struct exec *exec, int stream, int fd, struct pin_error *err) {
    struct pin_frame_options frames;
    bool is_frame = stream == STREAM_FRAME, has_frames = pin_exec_frame_options(exec, stream, &frames);
    struct pin_collector_options options = {
        .fd = fd,
        .limit_bytes = text_limit(exec, stream),
        .outlet = is_frame ? NULL : &exec->outlets[stream],
        .record = is_frame        ? &exec->frames.strays
                  : stream == OUT ? &exec->result.out
                                  : &exec->result.err,
        .frames = has_frames ? &frames : NULL,
        .mask = pin_exec_mask(exec),
        .self = exec,
        .on_frame = is_frame ? pin_exec_on_fd_frame : pin_exec_on_stdout_frame,
        .on_cut = is_frame        ? NULL
                  : stream == OUT ? on_out_cut
                                  : on_err_cut,
    };
    exec->collectors[stream] = pin_collector_new(exec->kept->loop, &options, err);
    return exec->collectors[stream] != NULL;
}

/* A pipe whose end `inside` (0: it reads, 1: it writes) is for the command; ours doesn't block. */
static bool open_pipe(const struct exec *exec, int inside, int ends[2], struct pin_error *err) {
    const struct pin_kept_given *given = exec->kept->given;
    if (pipe2(ends, O_CLOEXEC) < 0)
        return pin_fail_errno(err, "make a pipe");
    uid_t uid = exec->user.other ? given->first_id + exec->user.uid : given->owner_uid;
    gid_t gid = exec->user.other ? given->first_id + exec->user.gid : given->owner_gid;
    if (fcntl(ends[!inside], F_SETFL, O_NONBLOCK) == 0 &&
        (!given->has_owner || fchown(ends[inside], uid, gid) == 0))
        return true;
    (void)pin_fail_errno(err, "prepare a pipe");
    (void)close(ends[0]);
    (void)close(ends[1]);
    return false;
}

static void on_input_lost(void *self, const struct pin_error *why) {
    struct exec *exec = self;
    pin_result_note(&exec->result, why);
    pin_exec_kill(exec);
}

static struct pin_pump *pump_input(struct exec *exec, int to, const char *at_end, struct pin_error *err) {
    return pin_pump_new(exec->kept->loop, exec->fds[0], to, at_end,
                        &(struct pin_pump_events){exec, on_input_lost}, err);
}

static bool open_input(struct exec *exec, struct pin_link_command *command, struct pin_error *err) {
    int ends[2];
    if (exec->fds[0] < 0 && !exec->request.interactive)
        return true;
    if (!open_pipe(exec, 0, ends, err))
        return false;
    command->flags |= PIN_INIT_STDIN;
    command->fds[command->fd_count++] = ends[0];
    if (exec->request.interactive) {
        exec->input = ends[1];
        return true;
    }
    exec->pump = pump_input(exec, ends[1], NULL, err);
    return exec->pump != NULL;
}

static bool open_output(struct exec *exec, struct pin_link_command *command, int stream,
                        struct pin_error *err) {
    static const uint32_t flags[] = {PIN_INIT_STDOUT, PIN_INIT_STDERR, PIN_INIT_FRAME};
    int ends[2];
    if (!open_pipe(exec, 1, ends, err))
        return false;
    command->flags |= flags[stream];
    command->fds[command->fd_count++] = ends[1];
    return collect(exec, stream, ends[0], err);
}

/* In the order of the flags, which is the order of the descriptors. */
bool pin_exec_open_pipes(struct exec *exec, struct pin_link_command *command, struct pin_error *err) {
    if (!exec->request.tty &&
        !(open_input(exec, command, err) && open_output(exec, command, STREAM_OUT, err) &&
          open_output(exec, command, STREAM_ERR, err)))
        return false;
    return (exec->request.frames & PIN_FRAMES_FD) == 0 || open_output(exec, command, STREAM_FRAME, err);
}

bool pin_exec_open_terminal(struct exec *exec, int master, struct pin_error *err) {
    PIN_CLOSE int reading = -1, writing = -1;
    exec->master = master;
    if (!pin_terminal_take(master, &reading, &writing, err))
        return false;
    if (!collect(exec, OUT, pin_steal_fd(&reading), err))
        return false;
    if (exec->fds[0] >= 0)
        exec->pump = pump_input(exec, pin_steal_fd(&writing), "\x04", err);
    return exec->fds[0] < 0 || exec->pump != NULL;
}

static bool waits_for_reader(const struct exec *exec) {
    for (int i = 0; i < 2; i++)
        if (exec->sinks[i] != NULL && pin_sink_is_full(exec->sinks[i]))
            return true;
    return false;
}

/* Asked when no process is left that could write. Not until end of file: a descriptor that found its way to
 * another process must not hold us up. */
bool pin_exec_is_drained(struct exec *exec) {
    uint64_t progress = 0;
    bool all = true;
    for (int i = 0; i < STREAM_COUNT; i++) {
        if (exec->collectors[i] == NULL)
            continue;
        progress += pin_collector_progress(exec->collectors[i]);
        all = all && pin_collector_has_ended(exec->collectors[i]);
    }
    bool waits = waits_for_reader(exec);
    if (!all && exec->tick_over && progress == exec->progress && (!waits || exec->conn == NULL)) {
        for (int i = 0; i < STREAM_COUNT; i++)
            if (exec->collectors[i] != NULL && !pin_collector_has_ended(exec->collectors[i]) &&
                (exec->conn == NULL || pin_collector_is_dry(exec->collectors[i])))
                pin_collector_stop(exec->collectors[i]);
    }
    exec->progress = progress;
    return all && (!waits || exec->conn == NULL);
}

void pin_exec_close_io(struct exec *exec) {
    pin_pump_free(exec->pump);
    exec->pump = NULL;
    for (int i = 0; i < STREAM_COUNT; i++) {
        pin_collector_free(exec->collectors[i]);
        exec->collectors[i] = NULL;
    }
    for (int i = 0; i < 2; i++) {
        pin_sink_free(exec->sinks[i]);
        exec->sinks[i] = NULL;
    }
    for (int i = 0; i < CONN_FDS_MAX; i++)
        pin_close_fd(&exec->fds[i]);
    pin_close_fd(&exec->master);
    pin_close_fd(&exec->input);
}
