/* run.h: what the parts of pin_supervise() share; nobody else includes it.
 *
 * supervise.c: the order of things, and their end; run_start.c: pipes, environment, the request to init;
 * run_events.c: messages of init, signals, output; run_limits.c: time, memory, killing.
 */
#pragma once

#include <signal.h>
#include <stdbool.h>

#include "runtime/supervise/collector.h"
#include "runtime/supervise/link.h"
#include "runtime/supervise/memory_account.h"
#include "runtime/supervise/pump.h"
#include "runtime/supervise/supervise.h"
#include "runtime/supervise/terminal.h"

#define COMMAND_ID 1
#define STUCK_NS                                                                                             \
    (15 * PIN_NS_PER_S) /* after SIGKILL: a process in an uninterruptible wait may take long to die */

enum { STREAM_OUT, STREAM_ERR, STREAM_FRAME, STREAM_COUNT };

struct run {
    const struct pin_supervision *given;
    struct pin_result *result;
    struct pin_loop *loop;
    bool owns_loop;

    struct pin_link link;
    struct pin_source *control_in, *control_out, *init_end, *signals, *oom, *egress;
    struct pin_timer *wall, *grace, *cpu, *stuck, *sampling;
    struct pin_memory_account memory;
    int signal_fd;
    sigset_t mask_before;
    bool mask_changed;

    struct pin_sink *sinks[2]; /* PASS: of stdout and stderr; STREAM: the first */
    struct pin_outlet outlets[2];
    struct pin_collector *collectors[STREAM_COUNT];
    struct pin_text strays; /* text on the frame descriptor */
    struct pin_pump *pump;
    struct pin_terminal terminal;
    int master; /* of the terminal inside; -1: none */

    uint8_t nonce[PIN_FRAME_MARKER_SIZE];
    char nonce_variable[64];
    const char *more_env[3];
    bool result_seen, out_result_seen; /* the latter: in stdout, where there is a frame descriptor too */

    bool started, exited; /* the command */
    bool dead;            /* init, and so every process inside */
    bool init_was_killed; /* by SIGKILL: ours, the kernel's for want of memory, or somebody's */
    bool given_up;        /* nobody waits for the rest of the output */
    bool terminating, killed, is_stuck;
    int wait_status;
    int forwarded; /* signal; 0: none */
    bool has_reason;
    enum pin_status reason;
    int output_error; /* errno of a write to the caller; 0: none */
    struct pin_error failure;
    uint64_t started_ns, ended_ns;
};

/* run_start.c */
bool pin_run_open_streams(struct run *run, struct pin_error *err);
bool pin_run_start(struct run *run, struct pin_error *err);
bool pin_run_open_terminal(struct run *run, int master, struct pin_error *err);

/* run_events.c */
bool pin_run_watch(struct run *run, struct pin_error *err);
void pin_run_take_egress(struct run *run);
void pin_run_take_signals(struct run *run);
void pin_run_take_messages(struct run *run);
void pin_run_on_frame(void *self, const struct pin_frame_info *info, const uint8_t *payload, bool from_fd);
void pin_run_tell_limit(struct run *run, const char *limit, const char *unit, uint64_t value);

/* run_limits.c */
bool pin_run_set_limits(struct run *run, struct pin_error *err);
void pin_run_kill(struct run *run);
void pin_run_await_death(struct run *run);
void pin_run_kill_for(struct run *run, enum pin_status reason);
void pin_run_start_grace(struct run *run);
/* The supervisor itself failed: the first failure stays, and the sandbox is killed. */
void pin_run_fail(struct run *run, const struct pin_error *failure);
/* The signal to every process inside. */
void pin_run_signal(struct run *run, int number);
