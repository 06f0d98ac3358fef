#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "runtime/kept/log_json.h"
#include "runtime/kept/parts.h"

#define RECORDS_A_TURN 64 /* then it is somebody else's turn */

/* Reads what the command has written from the log, where nobody who is slow holds it up. */
struct attachment {
    struct pin_kept *kept;
    struct attachment *next;
    struct conn *conn; /* NULL: it is over */
    uint64_t request_id, since;
    uint32_t exec;
    enum pin_output output;
    struct pin_log_reader reader;
    struct pin_sink *sinks[2];
    struct pin_pump *pump;
    int from; /* what the pump reads; -1: nothing */
    struct pin_timer *again;
};

static void on_again(void *self) {
    struct attachment *attachment = self;
    attachment->again = NULL; /* the step that ends now advances it */
}

static void end_with(struct attachment *attachment, const struct pin_error *why) {
    if (attachment->conn != NULL)
        pin_conn_fail(attachment->conn, attachment->request_id, why);
    attachment->conn = NULL;
}

/* A sink that is broken takes everything; where nobody reads any more the connection says so. */
static void on_broken(void *self, int error) {
    struct pin_error err = {0};
    if (error == EPIPE || error == ECONNRESET)
        return;
    errno = error;
    (void)pin_fail_errno(&err, "write the command's output");
    end_with(self, &err);
}

/* The command's input stays open for who attaches next. */
static void on_input_lost(void *self, const struct pin_error *why) {
    end_with(self, why);
}

static bool is_full(const struct attachment *attachment) {
    for (int i = 0; i < 2; i++)
        if (attachment->sinks[i] != NULL && pin_sink_is_full(attachment->sinks[i]))
            return true;
    return false;
}

static void give_line(struct attachment *attachment, json_t *line) {
    PIN_FREE char *text = line == NULL ? NULL : json_dumps(line, JSON_COMPACT);
    json_decref(line);
    if (text == NULL || attachment->sinks[STREAM_OUT] == NULL)
        return;
    pin_sink_write(attachment->sinks[STREAM_OUT], text, strlen(text));
    pin_sink_write(attachment->sinks[STREAM_OUT], "\n", 1);
}

static void tell_gap(struct attachment *attachment, uint64_t records) {
    if (attachment->output == PIN_OUTPUT_STREAM)
        give_line(attachment, json_pack("{s:s, s:I}", "kind", "gap", "records", (json_int_t)records));
    else
        pin_conn_send(attachment->conn, json_pack("{s:I, s:s, s:I}", "id", (json_int_t)attachment->request_id,
                                                  "event", "gap", "records", (json_int_t)records));
}

static void give(struct attachment *attachment, const struct pin_log_record *record) {
    if (attachment->output == PIN_OUTPUT_STREAM) {
        give_line(attachment, pin_log_record_json(record));
        return;
    }
    if (record->kind != PIN_LOG_STDOUT && record->kind != PIN_LOG_STDERR)
        return;
    struct pin_sink *sink = attachment->sinks[record->kind == PIN_LOG_STDOUT ? STREAM_OUT : STREAM_ERR];
    if (sink != NULL)
        pin_sink_write(sink, record->payload, record->size);
}

/* What rotation took before the first record that is there counts as well. */
static uint64_t missing_before(const struct attachment *attachment, const struct pin_log_record *record,
                               bool is_first) {
    if (!is_first)
        return attachment->reader.missing;
    return record->sequence > attachment->since + 1 ? record->sequence - attachment->since - 1 : 0;
}

/* False when there is nothing more now. */
static bool read_one(struct attachment *attachment) {
    struct pin_log_record record;
    bool is_first = attachment->reader.next == 0;
    if (attachment->reader.next > attachment->kept->log.sequence ||
        !pin_log_reader_next(&attachment->reader, &record))
        return false;
    uint64_t missing = missing_before(attachment, &record, is_first);
    if (missing > 0)
        tell_gap(attachment, missing);
    if (attachment->conn != NULL && record.exec == attachment->exec && record.sequence > attachment->since)
        give(attachment, &record);
    return true;
}

static void finish(struct attachment *attachment) {
    const struct ended *ended = &attachment->kept->ended[attachment->exec % ENDS_KEPT];
    pin_conn_send(attachment->conn,
                  json_pack("{s:I, s:I, s:{s:s, s:i, s:o}}", "id", (json_int_t)attachment->request_id, "exec",
                            (json_int_t)attachment->exec, "result", "status", pin_status_name(ended->status),
                            "exit_code", ended->exit_code, "signal", pin_result_signal(ended->signal)));
    attachment->conn = NULL;
}

/* The end of who writes is the end of the command's input; the end of a connection isn't. */
static void take_end_of_input(struct attachment *attachment, struct exec *exec) {
    if (exec == NULL || exec->writer != attachment || !pin_pump_has_ended(attachment->pump))
        return;
    exec->writer = NULL;
    pin_close_fd(&exec->input);
}

static void advance(struct attachment *attachment) {
    struct pin_error err = {0};
    struct exec *exec = pin_exec_find(attachment->kept, attachment->exec);
    take_end_of_input(attachment, exec);
    for (int i = 0; attachment->conn != NULL && !is_full(attachment); i++) {
        if (i == RECORDS_A_TURN) {
            if (attachment->again == NULL)
                attachment->again =
                    pin_loop_at(attachment->kept->loop, pin_now_ns(), on_again, attachment, &err);
            return;
        }
        if (read_one(attachment))
            continue;
        if (exec == NULL)
            finish(attachment);
        return;
    }
}

static void release(struct attachment *attachment) {
    for (struct exec *exec = attachment->kept->execs; exec != NULL; exec = exec->next)
        if (exec->writer == attachment)
            exec->writer = NULL;
    pin_timer_cancel(&attachment->again);
    pin_pump_free(attachment->pump);
    pin_close_fd(&attachment->from);
    pin_sink_free(attachment->sinks[0]);
    pin_sink_free(attachment->sinks[1]);
    pin_log_reader_close(&attachment->reader);
    free(attachment);
}

/* What was written goes out before it is freed. */
void pin_attach_advance(struct pin_kept *kept) {
    for (struct attachment **slot = &kept->attachments; *slot != NULL;) {
        struct attachment *attachment = *slot;
        advance(attachment);
        if (attachment->conn != NULL) {
            slot = &attachment->next;
            continue;
        }
        *slot = attachment->next;
        kept->attachment_count--;
        release(attachment);
    }
}

bool pin_attach_any_busy(const struct pin_kept *kept) {
    return kept->attachments != NULL;
}

void pin_attach_drop_conn(struct conn *conn) {
    for (struct attachment *attachment = conn->kept->attachments; attachment != NULL;
         attachment = attachment->next)
        if (attachment->conn == conn)
            attachment->conn = NULL;
}

bool pin_attach_serves(const struct conn *conn) {
    for (const struct attachment *attachment = conn->kept->attachments; attachment != NULL;
         attachment = attachment->next)
        if (attachment->conn == conn)
            return true;
    return false;
}

static size_t count_of(const struct pin_kept *kept, pid_t peer) {
    size_t count = 0;
    for (const struct attachment *one = kept->attachments; one != NULL; one = one->next)
        count += one->conn != NULL && one->conn->peer == peer;
    return count;
}

void pin_attach_free_all(struct pin_kept *kept) {
    while (kept->attachments != NULL) {
        struct attachment *attachment = kept->attachments;
        kept->attachments = attachment->next;
        release(attachment);
    }
    kept->attachment_count = 0;
}

/* 0: the one that was started last. */
static bool find_exec(const struct pin_kept *kept, uint64_t wanted, uint32_t *found, struct exec **exec,
                      struct pin_error *err) {
    if (wanted == 0)
        for (struct exec *one = kept->execs; one != NULL; one = one->next)
            wanted = one->state != EXEC_DONE ? one->id : wanted;
    *exec = pin_exec_find((struct pin_kept *)(uintptr_t)kept, wanted);
    *found = (uint32_t)wanted;
    if (*exec != NULL || (wanted != 0 && kept->ended[wanted % ENDS_KEPT].id == wanted))
        return true;
    return pin_fail(err, PIN_ERROR_NOT_FOUND,
                    wanted == 0 ? "no command runs" : "no command of this number is known any more");
}

static bool open_sink(struct attachment *attachment, int stream, int *fd, struct pin_error *err) {
    const struct pin_sink_events events = {attachment, NULL, on_broken};
    attachment->sinks[stream] = pin_sink_new(attachment->kept->loop, *fd, true, &events, err);
    if (attachment->sinks[stream] != NULL)
        (void)pin_steal_fd(fd);
    return attachment->sinks[stream] != NULL;
}

static bool open_input(struct attachment *attachment, struct exec *exec, int fd, struct pin_error *err) {
    bool is_pipe = exec != NULL && exec->input >= 0, is_terminal = exec != NULL && exec->master >= 0;
    if (!is_pipe && !is_terminal) {
        (void)pin_fail(err, PIN_ERROR_INVALID, "the command has no input that could be attached to");
        return pin_hint(err, "start it with a terminal, or with its input kept open: 'exec --interactive'");
    }
    if (is_pipe && exec->writer != NULL)
        return pin_fail(err, PIN_ERROR_BUSY, "somebody else is attached to the command's input");
    PIN_CLOSE int to = fcntl(is_pipe ? exec->input : exec->master, F_DUPFD_CLOEXEC, 0);
    if (to < 0)
        return pin_fail_errno(err, "take the command's input");
    attachment->pump = pin_pump_new(attachment->kept->loop, fd, pin_steal_fd(&to), is_pipe ? NULL : "",
                                    &(struct pin_pump_events){attachment, on_input_lost}, err);
    if (attachment->pump == NULL)
        return false;
    if (is_pipe)
        exec->writer = attachment;
    return true;
}

static bool open_streams(struct attachment *attachment, struct conn *conn,
                         const struct pin_kept_request *request, struct exec *exec, struct pin_error *err) {
    size_t at = 0;
    if (request->input && !open_input(attachment, exec, conn->fds[at], err))
        return false;
    if (request->input) {
        attachment->from = conn->fds[at];
        conn->fds[at++] = -1;
    }
    if (request->out && !open_sink(attachment, STREAM_OUT, &conn->fds[at++], err))
        return false;
    return !request->err || open_sink(attachment, STREAM_ERR, &conn->fds[at++], err);
}

static bool attach(struct conn *conn, const struct pin_kept_request *request, struct pin_error *err) {
    struct pin_kept *kept = conn->kept;
    struct exec *exec = NULL;
    size_t wanted = (size_t)request->input + request->out + request->err;
    uint32_t number = 0;
    if (conn->fd_count + request->lent_count != wanted)
        return pin_fail(err, PIN_ERROR_INVALID, "%zu descriptors came or are lent, and %zu are asked for",
                        conn->fd_count + request->lent_count, wanted);
    if (kept->attachment_count >= ATTACHMENTS_MAX)
        return pin_fail(err, PIN_ERROR_EXHAUSTED, "%d are attached in this sandbox already", ATTACHMENTS_MAX);
    if (!pin_peer_may(count_of(kept, conn->peer), ATTACHMENTS_MAX, "attachments", err) ||
        !find_exec(kept, request->exec, &number, &exec, err) ||
        !pin_conn_borrow(conn, request->lent, request->lent_count, err))
        return false;
    struct attachment *attachment = calloc(1, sizeof(*attachment));
    if (attachment == NULL)
        return pin_fail_errno(err, "make room for who attaches");
    *attachment = (struct attachment){.kept = kept,
                                      .conn = conn,
                                      .request_id = request->id,
                                      .since = request->since,
                                      .exec = number,
                                      .output = request->output,
                                      .from = -1,
                                      .reader = {.file = -1}};
    if (!pin_log_reader_open(&attachment->reader, kept->given->folder, err) ||
        !open_streams(attachment, conn, request, exec, err)) {
        release(attachment);
        return false;
    }
    attachment->next = kept->attachments;
    kept->attachments = attachment;
    kept->attachment_count++;
    pin_conn_send(conn,
                  json_pack("{s:I, s:s, s:I, s:b}", "id", (json_int_t)request->id, "event", "attached",
                            "exec", (json_int_t)number, "tty", (int)(exec != NULL && exec->master >= 0)));
    return true;
}

void pin_attach_new(struct conn *conn, struct pin_kept_request *request) {
    struct pin_error err = {0};
    if (!attach(conn, request, &err))
        pin_conn_fail(conn, request->id, &err);
}
