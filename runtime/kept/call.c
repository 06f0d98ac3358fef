#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/units.h"
#include "runtime/kept/call.h"

#define FIRST_TICK_NS (PIN_NS_PER_MS / 4)
#define LAST_TICK_NS (20 * PIN_NS_PER_MS)
#define LAST_WORDS_NS                                                                                        \
    (PIN_NS_PER_MS / 40)   /* nobody writes any more: what is on its way to us is there at once */
#define NEVER_IN_UTF8 0xf8 /* the first byte of a nonce: supervise/run_start.c */
#define STUBBORN_TICKS 200 /* after that many SIGKILLs the runner itself is broken */

enum { OUT, ERR, FRAME };

static void close_io(struct call *call) {
    pin_pump_free(call->pump);
    call->pump = NULL;
    for (int i = 0; i < CALL_STREAMS; i++) {
        pin_collector_free(call->collectors[i]);
        call->collectors[i] = NULL;
    }
    for (int i = 0; i < CALL_FDS; i++)
        pin_close_fd(&call->inside[i]);
    pin_close_fd(&call->packet);
    pin_close_fd(&call->request);
}

void pin_call_free(struct call *call) {
    if (call == NULL)
        return;
    pin_timer_cancel(&call->wall);
    pin_timer_cancel(&call->tick);
    close_io(call);
    pin_call_free_secrets(call);
    pin_result_free(&call->result);
    free(call->missing);
    free(call);
}

static void on_tick(void *self) {
    struct call *call = self;
    call->tick = NULL;
    call->tick_over = true;
}

static void set_tick(struct call *call) {
    struct pin_error err = {0};
    if (call->tick != NULL)
        return;
    call->tick_over = false;
    call->tick = pin_loop_at(call->kept->loop, pin_now_ns() + call->tick_ns, on_tick, call, &err);
    call->tick_ns = call->tick_ns * 2 > LAST_TICK_NS ? LAST_TICK_NS : call->tick_ns * 2;
    if (call->tick == NULL)
        pin_kept_fail(call->kept, &err);
}

static void rewind_ticks(struct call *call) {
    pin_timer_cancel(&call->tick);
    call->tick_over = false;
    call->tick_ns = FIRST_TICK_NS;
}

/* Again at every tick until the runner says that it has ended: a process that hasn't entered its cgroup yet
 * isn't hit by the first one. While the sandbox is frozen nobody could say so, nor die of it on v1. */
static void kill_tree(struct call *call) {
    struct pin_error err = {0};
    if (call->kept->frozen)
        set_tick(call);
    else if (!pin_runner_kill(call->kept->runner, &err))
        pin_kept_fail(call->kept, &err);
    else if (++call->kills > STUBBORN_TICKS)
        pin_kept_end(call->kept, "its runner doesn't answer", 0);
    else
        set_tick(call);
}

static void kill_answered(struct call *call) {
    struct pin_error err = {0};
    if (!pin_runner_strike(call->kept->runner, &call->is_struck, &err))
        pin_kept_fail(call->kept, &err);
    else if (!call->is_struck)
        kill_tree(call);
}

void pin_call_end(struct call *call, enum pin_status reason) {
    if (!call->has_reason && !call->answered) {
        call->has_reason = true;
        call->reason = reason;
    }
    if (call->state == CALL_QUEUED)
        call->state = CALL_DONE;
    else if (call->state == CALL_OPENING)
        pin_kept_end(call->kept, "nobody waits for its one call", 0);
    else if (call->state == CALL_RUNNING)
        kill_tree(call);
}

static void on_wall_time(void *self) {
    struct call *call = self;
    call->wall = NULL;
    pin_call_end(call, PIN_STATUS_TIMEOUT);
}

static void on_cut(void *self) {
    struct call *call = self;
    if (call->kept->given->limits.on_output_cap == PIN_ON_CAP_KILL)
        pin_call_end(call, PIN_STATUS_OUTPUT);
}

static void add_frame(struct call *call, const struct pin_frame_info *info, const uint8_t *payload,
                      bool from_fd) {
    uint64_t limit_bytes = call->kept->given->limits.frame_bytes;
    struct pin_frame_info masked_info = *info;
    size_t size = 0;
    if (call->mask == NULL || payload == NULL) {
        pin_result_add_frame(&call->result, info, payload, from_fd, limit_bytes);
        return;
    }
    PIN_FREE uint8_t *masked = pin_mask_bytes(call->mask, payload, info->length, &size);
    if (masked == NULL || size > UINT32_MAX) {
        pin_call_end(call, PIN_STATUS_KILLED); /* rather than a value gets out */
        return;
    }
    masked_info.length = (uint32_t)size; /* of what is handed on */
    pin_result_add_frame(&call->result, &masked_info, masked, from_fd, limit_bytes);
}

static void on_stdout_frame(void *self, const struct pin_frame_info *info, const uint8_t *payload) {
    add_frame(self, info, payload, false);
}

static void on_frame(void *self, const struct pin_frame_info *info, const uint8_t *payload) {
    struct call *call = self;
    bool whole = info->verdict == PIN_FRAME_WHOLE;
    if (call->state == CALL_AHEAD && whole && info->kind == PIN_FRAME_PROGRESS) {
        pin_runner_is_ready(call->kept->runner);
        return;
    }
    add_frame(call, info, payload, true);
    /* a fork is gone at once; an interpreter that tidies up takes longer than its call */
    if (call->state == CALL_RUNNING && whole && info->kind == PIN_FRAME_RESULT && !call->has_reason &&
        !call->kept->given->runner->forks) {
        call->answered = true;
        kill_answered(call);
    }
}

/* A pipe whose end `inside` (0: it reads, 1: it writes) is for the call; ours doesn't block. */
static bool open_pipe(struct call *call, int inside, int *ours, struct pin_error *err) {
    const struct pin_kept_given *given = call->kept->given;
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) < 0)
        return pin_fail_errno(err, "make a pipe");
    call->inside[call->inside_count++] = ends[inside];
    *ours = ends[!inside];
    if (fcntl(*ours, F_SETFL, O_NONBLOCK) == 0 &&
        (!given->has_owner || fchown(ends[inside], given->owner_uid, given->owner_gid) == 0))
        return true;
    (void)pin_fail_errno(err, "prepare a pipe");
    pin_close_fd(ours);
    return false;
}

static bool collect(struct call *call, int stream, struct pin_error *err) {
    const struct pin_limits *limits = &call->kept->given->limits;
    uint64_t limit_bytes = stream == ERR ? limits->stderr_bytes : limits->stdout_bytes;
    struct pin_frame_options frames = {
        .letta = stream == OUT && call->kept->given->runner->letta_frames,
        .pinfold = stream == FRAME,
        .limit_bytes = limits->frame_bytes,
        .result_seen = stream == FRAME ? &call->result_seen : &call->out_result_seen,
    };
    struct pin_text *texts[] = {&call->result.out, &call->result.err, &call->strays};
    struct pin_collector_options options = {
        .limit_bytes = limit_bytes > PIN_CAPTURE_MAX ? PIN_CAPTURE_MAX : limit_bytes,
        .outlet = stream == FRAME ? NULL : &call->outlets[stream],
        .record = texts[stream],
        .frames = frames.letta || frames.pinfold ? &frames : NULL,
        .self = call,
        .on_frame = stream == FRAME ? on_frame : on_stdout_frame,
        .on_cut = stream == FRAME ? NULL : on_cut,
    };
    memcpy(frames.nonce, call->nonce, sizeof(frames.nonce));
    if (stream != FRAME)
        call->outlets[stream] = (struct pin_outlet){.kind = PIN_OUTPUT_CAPTURE, .text = texts[stream]};
    if (!open_pipe(call, 1, &options.fd, err))
        return false;
    call->collectors[stream] = pin_collector_new(call->kept->loop, &options, err);
    return call->collectors[stream] != NULL;
}

static bool open_io(struct call *call, struct pin_error *err) {
    if (getrandom(call->nonce, sizeof(call->nonce), 0) != (ssize_t)sizeof(call->nonce))
        return pin_fail_errno(err, "draw the call's nonce");
    call->nonce[0] |= NEVER_IN_UTF8;
    return open_pipe(call, 0, &call->request, err) && collect(call, OUT, err) && collect(call, ERR, err) &&
           collect(call, FRAME, err);
}

struct call *pin_call_new(struct pin_kept *kept, struct pin_error *err) {
    struct call *call = calloc(1, sizeof(*call));
    if (call == NULL) {
        (void)pin_fail_errno(err, "make room for a call");
        return NULL;
    }
    call->kept = kept;
    call->packet = call->sealed = call->request = -1;
    for (int i = 0; i < CALL_FDS; i++)
        call->inside[i] = -1;
    call->tick_ns = FIRST_TICK_NS;
    return call;
}

bool pin_call_open(struct call *call, struct pin_error *err) {
    if (open_io(call, err))
        return true;
    close_io(call);
    return false;
}

static bool set_wall_time(struct call *call, struct pin_error *err) {
    uint64_t limit_ns = call->has_timeout ? call->timeout_ns : call->kept->given->limits.wall_time_ns;
    call->started_ns = pin_now_ns();
    if (limit_ns == PIN_UNLIMITED)
        return true;
    call->wall =
        pin_loop_at(call->kept->loop, pin_later(call->started_ns, limit_ns), on_wall_time, call, err);
    return call->wall != NULL;
}

static void on_request_lost(void *self, const struct pin_error *why) {
    struct call *call = self;
    pin_result_note(&call->result, why);
    pin_call_end(call, PIN_STATUS_KILLED);
}

bool pin_call_run(struct call *call, struct pin_error *err) {
    int request = call->request;
    call->request = -1; /* the pump's from here on */
    call->pump = pin_pump_new(call->kept->loop, call->packet, request, NULL,
                              &(struct pin_pump_events){call, on_request_lost}, err);
    if (call->pump == NULL || !set_wall_time(call, err))
        return false;
    call->state = CALL_RUNNING;
    return true;
}

void pin_call_started(struct call *call) {
    call->started = true;
    if (call->conn != NULL)
        pin_conn_send(call->conn,
                      json_pack("{s:I, s:s}", "id", (json_int_t)call->request_id, "event", "started"));
}

void pin_call_exited(struct call *call, int status) {
    struct pin_result *result = &call->result;
    pin_result_set_exit(result, call->answered ? 0 : status);
    if (result->signal == SIGKILL && !call->has_reason && pin_runner_was_out_of_memory(call->kept->runner)) {
        call->has_reason = true;
        call->reason = PIN_STATUS_MEMORY;
    }
    if (call->has_reason) {
        result->status = call->reason;
        result->exit_code = call->reason == PIN_STATUS_TIMEOUT ? PIN_EXIT_TIMEOUT : PIN_EXIT_MEMORY;
    }
    pin_timer_cancel(&call->wall);
    rewind_ticks(call);
    call->state = CALL_EMPTYING;
}

/* What it has started dies with it, and nothing is told before the kernel says that nobody is there. */
static void empty(struct call *call) {
    struct pin_error err = {0};
    bool gone = false;
    if (call->tick != NULL)
        return;
    if (!pin_runner_is_empty(call->kept->runner, &gone, &err)) {
        pin_kept_fail(call->kept, &err);
        return;
    }
    if (!gone) {
        kill_tree(call);
        return;
    }
    rewind_ticks(call);
    call->state = CALL_DRAINING;
}

/* As of a command: a descriptor that found its way to another process must not hold us up. */
static bool is_drained(struct call *call) {
    uint64_t progress = 0;
    bool all = true;
    for (int i = 0; i < CALL_STREAMS; i++)
        progress += pin_collector_progress(call->collectors[i]);
    bool still = call->tick_over && progress == call->progress;
    for (int i = 0; i < CALL_STREAMS; i++) {
        struct pin_collector *collector = call->collectors[i];
        if (still && !pin_collector_has_ended(collector) && pin_collector_is_dry(collector))
            pin_collector_stop(collector);
        all = all && pin_collector_has_ended(collector);
    }
    call->progress = progress;
    return all;
}

static void add_missing(struct call *call, const struct pin_kept_given *given) {
    struct pin_result *result = &call->result;
    const char *lost[PIN_EGRESS_LOST_MAX];
    size_t more = pin_kept_lost(call->kept, lost), count = given->missing_count;
    result->missing = given->missing;
    result->missing_count = count;
    if (more == 0 || (call->missing = calloc(count + more, sizeof(*call->missing))) == NULL)
        return;
    for (size_t i = 0; i < count + more; i++)
        call->missing[i] = i < count ? given->missing[i] : lost[i - count];
    result->missing = call->missing;
    result->missing_count = count + more;
}

static void describe(struct call *call) {
    const struct pin_kept_given *given = call->kept->given;
    struct pin_result *result = &call->result;
    result->sandbox = given->name;
    result->fingerprint = given->fingerprint;
    add_missing(call, given);
    result->labels = json_incref(json_object_get(given->facts, "labels"));
    result->stray_bytes = call->strays.total_bytes;
    result->usage.wall_ns = pin_now_ns() - call->started_ns;
    pin_runner_usage(call->kept->runner, &result->usage);
}

/* Calls that are recorded don't come here: they run in a sandbox of their own. */
static void add_denials(struct call *call) {
    const struct pin_kept_given *given = call->kept->given;
    const struct pin_kept_command command = {.started_ns = call->started_ns,
                                             .own_time_ns = call->has_timeout ? call->timeout_ns : 0};
    (void)given->denied(given->self, &command, &call->result);
}

static void finish(struct call *call) {
    const struct pin_kept_runner *runner = call->kept->given->runner;
    int code = 0;
    pin_kept_settle_egress(call->kept); /* a broker's death, too */
    describe(call);
    add_denials(call);
    call->state = CALL_DONE;
    if (call->conn == NULL)
        return;
    json_t *result = runner->describe(&call->result, call->key, &code);
    json_t *reply = result == NULL ? NULL
                                   : json_pack("{s:I, s:i, s:o}", "id", (json_int_t)call->request_id,
                                               "exit_code", code, "tool", result);
    pin_conn_send(call->conn, reply);
}

void pin_call_advance(struct call *call) {
    if (call->state == CALL_RUNNING && call->is_struck) {
        pin_call_exited(call, 0);
        call->state = CALL_DRAINING;
        call->tick_ns = LAST_WORDS_NS;
    }
    if (call->state == CALL_RUNNING && call->tick_over)
        kill_tree(call);
    if (call->state == CALL_EMPTYING)
        empty(call);
    if (call->state != CALL_DRAINING)
        return;
    if (is_drained(call))
        finish(call);
    else
        set_tick(call);
}

/* Every process inside is dead. */
void pin_call_give_up(struct call *call) {
    bool unstarted = call->state == CALL_QUEUED || call->state == CALL_OPENING ||
                     (call->state == CALL_RUNNING && !call->started);
    if (unstarted && call->conn != NULL) {
        struct pin_error err = {0};
        (void)pin_fail(&err, PIN_ERROR_BUSY, "the sandbox is ending");
        pin_conn_fail(call->conn, call->request_id, &err);
    }
    if (unstarted || call->state == CALL_AHEAD)
        call->state = CALL_DONE;
    if (call->state == CALL_RUNNING) {
        call->result.status = call->kept->out_of_memory ? PIN_STATUS_MEMORY : PIN_STATUS_KILLED;
        call->result.signal = SIGKILL;
        call->result.exit_code = PIN_EXIT_MEMORY;
        if (call->has_reason)
            call->result.status = call->reason;
        if (call->has_reason && call->reason == PIN_STATUS_TIMEOUT)
            call->result.exit_code = PIN_EXIT_TIMEOUT;
    }
    if (call->state == CALL_RUNNING || call->state == CALL_EMPTYING) {
        rewind_ticks(call);
        call->state = CALL_DRAINING;
    }
}
