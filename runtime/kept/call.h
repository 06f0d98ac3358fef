/* call.h: tool calls in a kept sandbox, and the runner that answers them; nobody but runtime/kept includes
 * it.
 *
 * A runner is one process that was started with the sandbox and waits for calls. One that forks (Python's
 * zygote) gets each call's descriptors over a socket, and answers one call at a time for as long as the
 * sandbox lives; another has its call's pipes from the start, answers one, is killed then, and the sandbox
 * ends after it. Either way the call's processes are in a cgroup of their own, and its result is told when
 * the kernel says that the cgroup is empty; where the one call of a sandbox has given its result, when all in
 * it have been killed: taking their memory apart is part of the sandbox's end. After it, what a call has left
 * in the sandbox's own file systems is removed before the next one begins; where that fails, the sandbox
 * ends. call.c: one call's life; runner.c: the runner's. Source: docs/tool.md "Warm calls", docs/kept.md
 * "call".
 */
#pragma once

#include <signal.h>

#include "runtime/kept/parts.h"
#include "runtime/secrets/locked.h"

#define CALL_STREAMS 3 /* stdout, stderr, frames */
#define CALL_FDS 4     /* the request, and these */

enum call_state {
    CALL_AHEAD,   /* its process waits, and nobody has asked yet */
    CALL_OPENING, /* its secrets are on their way */
    CALL_QUEUED,  /* another one runs */
    CALL_RUNNING,
    CALL_EMPTYING, /* its process has ended; what it has started dies */
    CALL_DRAINING, /* its cgroup is empty; what was written is on its way */
    CALL_DONE
};

struct call {
    struct pin_kept *kept;
    struct call *next;
    struct conn *conn; /* who waits; NULL: nobody any more */
    uint64_t request_id;
    uint32_t id; /* the runner's number of it */
    enum call_state state;
    bool has_timeout;
    uint64_t timeout_ns;
    char key[PIN_KEPT_KEY_MAX + 1];
    int packet; /* the client's: what the runner reads */
    int sealed; /* who opens its secrets writes them there; -1: none */
    size_t sealed_count;
    struct pin_source *opening;
    struct pin_locked text; /* what has come of them: "VARIABLE=value" and a zero each */
    size_t text_size;
    struct pin_secrets secrets;
    struct pin_mask *mask; /* of these; NULL: none */
    int inside[CALL_FDS];  /* ends of pipes for the call's process, until they are handed over */
    size_t inside_count;
    int request; /* our end of the pipe that the packet goes into */
    uint8_t nonce[PIN_FRAME_MARKER_SIZE];
    bool result_seen, out_result_seen;
    struct pin_collector *collectors[CALL_STREAMS];
    struct pin_outlet outlets[2];
    struct pin_text strays;
    struct pin_pump *pump;
    struct pin_timer *wall, *tick;
    uint64_t started_ns, tick_ns, progress;
    unsigned kills;
    bool tick_over, has_reason, started;
    bool answered;  /* its one result has come: nothing after it counts, and it is killed */
    bool is_struck; /* and nothing of it runs any more: what is left of it ends with the sandbox */
    enum pin_status reason;
    const char **missing; /* of the result, where something has died; NULL: the sandbox's */
    struct pin_result result;
};

struct call *pin_call_new(struct pin_kept *kept, struct pin_error *err);
void pin_call_free(struct call *call); /* NULL is fine */
/* The pipes; `inside` has then the request, stdout, stderr and frames, in this order. */
bool pin_call_open(struct call *call, struct pin_error *err);
/* call_sealed.c: reads the secrets until their end, masks them, hands them in before the packet, and then
 * calls pin_runner_begin(), or pin_runner_decline() where it can't. */
bool pin_call_await_secrets(struct call *call, struct pin_error *err);
void pin_call_free_secrets(struct call *call);
/* Its process is there: the packet goes in, and the time begins. */
bool pin_call_run(struct call *call, struct pin_error *err);
/* From here on it may have run: its client is told, and wouldn't try it elsewhere. */
void pin_call_started(struct call *call);
void pin_call_exited(struct call *call, int status);
void pin_call_end(struct call *call, enum pin_status reason); /* kills it */
void pin_call_advance(struct call *call);
void pin_call_give_up(struct call *call);

/* runner.c */
bool pin_runner_start(struct pin_kept *kept, struct pin_error *err); /* nothing where the sandbox has none */
void pin_runner_free(struct pin_kept *kept);
/* True when the message is of the runner's process, and was taken. */
bool pin_runner_on_message(struct pin_kept *kept, const struct pin_link_message *message);
void pin_runner_is_ready(struct runner *runner);
/* A loading one isn't, one that can't be loaded has its error in kept->failure. */
bool pin_runner_may_open(const struct pin_kept *kept);
void pin_runner_serve(struct conn *conn, struct pin_kept_request *request); /* the verb "call" */
void pin_runner_forget(struct pin_kept *kept, const struct conn *conn);     /* a client that has gone */
bool pin_runner_serves(const struct pin_kept *kept, const struct conn *conn);
void pin_runner_advance(struct pin_kept *kept);
void pin_runner_give_up(struct pin_kept *kept);
bool pin_runner_is_busy(const struct pin_kept *kept);
/* Of one that was started ahead: its call has all that it needs, or can't have it. */
void pin_runner_begin(struct runner *runner);
void pin_runner_decline(struct runner *runner, const struct pin_error *why);
/* Of the one call that runs. */
bool pin_runner_kill(struct runner *runner, struct pin_error *err);
bool pin_runner_strike(struct runner *runner, bool *whole, struct pin_error *err); /* pin_cgroup_strike() */
bool pin_runner_is_empty(struct runner *runner, bool *empty, struct pin_error *err);
bool pin_runner_was_out_of_memory(struct runner *runner);
void pin_runner_usage(struct runner *runner, struct pin_usage *usage);
