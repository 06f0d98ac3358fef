/* parts.h: what the parts of pin_kept_serve() share; nobody else includes it.
 *
 * serve.c: the life of the sandbox; conn.c: a client; conn_room.c: how many there may be; verbs.c: what it
 * asks for; exec_check.c: whether a command may be started; exec.c: its life; exec_tell.c: what is told of
 * it; exec_io.c: its pipes, terminal and output; exec_frames.c: its frames; exec_limits.c: its times and
 * what it uses; exec_leaf.c: its cgroup; exec_context.c: those of a code context; exec_hand.c: how it gets
 * its cells; exec_user.c: who it is; exec_secrets.c: what is handed to it; attach.c: who reads a command's
 * output from the log.
 */
#pragma once

#include "runtime/build/cgroup/leaf.h"
#include "runtime/kept/log.h"
#include "runtime/kept/log_read.h"
#include "runtime/kept/request.h"
#include "runtime/kept/secret_files.h"
#include "runtime/kept/serve.h"
#include "runtime/kept/wire.h"
#include "runtime/secrets/mask.h"
#include "runtime/secrets/secrets.h"
#include "runtime/supervise/collector.h"
#include "runtime/supervise/link.h"
#include "runtime/supervise/memory_account.h"
#include "runtime/supervise/pump.h"
#include "runtime/supervise/sink.h"

#define CONNS_MAX 512
#define EXECS_MAX 256
#define WAITS_MAX 1024
#define ATTACHMENTS_MAX 64 /* each has a reader of its own, 128 KiB */
#define CONN_FDS_MAX PIN_KEPT_FDS_MAX
#define LEAVES_KEPT 4 /* for the commands to come */
#define ENDS_KEPT 256 /* how the last ones ended */

enum exec_state {
    EXEC_FINDING,  /* a program is asked for its secrets, and may take its time */
    EXEC_QUEUED,   /* init is asked for one at a time */
    EXEC_STARTING, /* init was asked */
    EXEC_RUNNING,
    EXEC_EMPTYING, /* the command has exited; what it has started dies */
    EXEC_DRAINING, /* its cgroup is empty; what was written is on its way */
    EXEC_HANGING,  /* its end was told, but the kernel doesn't let it die */
    EXEC_DONE
};

struct pin_kept;
struct conn;
struct runner; /* call.h */

enum { STREAM_OUT, STREAM_ERR, STREAM_FRAME, STREAM_COUNT };

/* What takes secrets out of output; shared by all that write while the same ones are known. */
struct shared_mask {
    struct pin_mask *mask;
    size_t users;
};

/* A cgroup for a command. */
struct leaf {
    struct pin_cgroup *group; /* NULL: none */
    int entrances[PIN_CGROUP_LEAF_DIRS], entrance_count;
    struct pin_cgroup_usage start; /* what was used before the command */
    bool entered;                  /* and proved empty after it */
    bool spent;                    /* killed: on v1 nobody can fork in it any more */
    bool open;                     /* its counters stay open */
};

struct pin_exec_user {
    bool other; /* than the sandbox's */
    uint32_t uid, gid;
};

struct exec_frames {
    uint8_t nonce[PIN_FRAME_MARKER_SIZE];
    char nonce_variable[64];
    bool result_seen;
    struct pin_text strays; /* text on the frame descriptor */
};

struct exec {
    struct pin_kept *kept;
    struct exec *next;
    uint32_t id;
    uint64_t request_id;
    struct conn *conn; /* who waits for the result; NULL: nobody any more */
    pid_t peer;        /* the process that asked for it */
    enum exec_state state;
    struct pin_kept_request request;
    struct pin_exec_user user;
    int fds[CONN_FDS_MAX]; /* the client's 0, 1 and 2; -1: none */
    struct leaf leaf;
    struct pin_secrets secrets;
    struct pin_error secret_fault; /* why they couldn't be found */
    struct pin_source *finding;    /* what comes from who looks for them */
    int finding_fd;
    pid_t finder;
    bool have_secrets;
    bool has_files;           /* they are where they were asked for */
    struct shared_mask *mask; /* NULL: no secrets are known */
    struct exec_frames frames;
    struct pin_collector *collectors[STREAM_COUNT];
    struct pin_outlet outlets[2];
    struct pin_sink *sinks[2];
    struct pin_stream stream;
    struct pin_pump *pump;
    int master;                /* of its terminal; -1: none */
    int input;                 /* the writing end of its input, for who attaches; -1: none */
    struct attachment *writer; /* who writes to it now; NULL: nobody */
    struct pin_timer *wall, *cpu, *grace, *tick, *stuck;
    struct pin_timer *telling; /* that it has started is told then, or with its end */
    uint64_t started_ns, tick_ns, progress;
    uint64_t log_start; /* the record that says that it started */
    bool has_reason, tick_over, is_logged, is_recorded;
    bool is_killed;       /* while it starts, when it may be nowhere yet: once more when it has started */
    bool is_stuck, hangs; /* killed in vain; and init hasn't reaped it */
    bool is_unlogged;     /* of what it has written, something isn't in the log */
    int output_error;     /* errno of a write to the client's descriptors; 0: none */
    enum pin_status reason;
    unsigned cells;          /* of a context: that run */
    uint64_t active_ns;      /* of a context: when one began or ended last */
    uint64_t cpu_before_ns;  /* of a context: what it had used by then */
    bool is_cell;            /* counted in its context's */
    int hand;                /* of a context: to where its cells are handed; -1: none */
    struct pin_source *said; /* what it says there */
    const char **missing;    /* the sandbox's, "audit" where its end isn't there, and "log" */
    struct pin_result result;
};

struct conn {
    struct pin_kept *kept;
    struct conn *next;
    int fd;
    pid_t peer; /* the process that connected */
    uint64_t used_ns;
    struct pin_source *source;
    struct pin_sink *sink;
    struct pin_wire in;
    int fds[CONN_FDS_MAX];
    size_t fd_count;
    bool closed, holds;
    uint64_t lent; /* its number as a descriptor; 0: it speaks the protocol */
};

struct wait {
    struct conn *conn;
    uint64_t request_id;
    uint32_t exec; /* 0: the sandbox */
};

struct ended {
    uint32_t id;
    enum pin_status status;
    int exit_code, signal;
};

struct attachment;

struct pin_kept {
    const struct pin_kept_given *given;
    struct pin_loop *loop;
    struct pin_link link;
    struct pin_log log;
    int listener, signal_fd;
    struct pin_source *accepting, *control_in, *control_out, *init_end, *signals, *egress;
    struct pin_timer *idle, *lifetime, *grace, *stuck, *accept_again, *look;
    uint64_t grace_end_ns;
    ino_t door; /* of the control socket, as it was made */
    struct conn *conns;
    struct exec *execs, *starting;
    struct attachment *attachments;
    struct runner *runner;    /* NULL: none */
    struct pin_secrets known; /* every value that was handed in, the newest last */
    struct shared_mask *mask; /* of these */
    struct pin_secret_files files;
    size_t conn_count, exec_count, wait_count, attachment_count;
    struct wait waits[WAITS_MAX];
    struct ended ended[ENDS_KEPT];
    struct leaf leaves[LEAVES_KEPT]; /* nobody's */
    size_t leaf_count, open_leaves;
    uint32_t last_exec, last_leaf;
    uint64_t last_lent;
    uint64_t started_ns, active_ns, idle_ns, lifetime_ns, oom_kills, exec_oom_kills, egress_events;
    struct pin_memory_account memory;
    struct pin_timer *sampling;
    uint64_t billed_ns;
    bool ready, ending, over;
    bool is_cut;  /* nothing more leaves: it was killed, or failed */
    bool paused;  /* until it is resumed */
    size_t holds; /* connections that want it to stand still */
    bool frozen;
    bool out_of_memory; /* all of it: where the kernel ends a group as one, v2 */
    const char *why;    /* it ended */
    struct pin_error failure;
};

/* serve.c */
void pin_kept_touch(struct pin_kept *kept);
void pin_kept_settle_egress(struct pin_kept *kept); /* what it was refused by now is known then */
/* What of the network has been closed since its broker died: names for `missing`. */
size_t pin_kept_lost(const struct pin_kept *kept, const char *names[PIN_EGRESS_LOST_MAX]);
/* Its processes are asked, and have `grace_ns` from now or what an earlier call left them; 0: are killed. */
void pin_kept_end(struct pin_kept *kept, const char *why, uint64_t grace_ns);
void pin_kept_fail(struct pin_kept *kept, const struct pin_error *failure);
void pin_kept_flush_link(struct pin_kept *kept);
bool pin_kept_set_times(struct pin_kept *kept, struct pin_error *err);

/* conn.c */
void pin_conn_accept(struct pin_kept *kept);
void pin_conn_free(struct conn *conn);
void pin_conn_send(struct conn *conn, json_t *json);                     /* takes it over */
void pin_conn_send_both(struct conn *conn, json_t *first, json_t *then); /* in one piece */
void pin_conn_send_fd(struct conn *conn, json_t *json, int fd);
void pin_conn_fail(struct conn *conn, uint64_t request_id, const struct pin_error *err);
void pin_conn_close(struct conn *conn); /* freed after the loop's step */
/* From the end of the reply on it is a descriptor, which waits for the exec that names it, or for its end. */
bool pin_conn_lend(struct conn *conn, struct pin_error *err);
/* Adds the descriptors of these numbers, once each, to those that came with the message; `conn` closes them.
 */
bool pin_conn_borrow(struct conn *conn, const uint64_t *numbers, size_t count, struct pin_error *err);

/* conn_room.c */
/* False where a peer has its share of what there is for all. */
bool pin_peer_may(size_t held, size_t all, const char *what, struct pin_error *err);
/* For one more of this peer; who is owed nothing and has been silent longest goes for it. */
bool pin_conn_make_room(struct pin_kept *kept, pid_t peer, struct pin_error *err);
/* The same where descriptors run out: the lowest free number is what is given, so `fd`, a new one, tells. */
bool pin_conn_make_descriptors(const struct pin_kept *kept, int fd, struct pin_error *err);
/* Of those with a long message that has begun and not ended, the slowest goes when they are too much. */
void pin_conn_bound_halves(const struct conn *conn);

/* verbs.c */
void pin_verbs_serve(struct conn *conn, struct pin_kept_request *request);
/* Freezes or thaws, as `paused` and `holds` want it. */
bool pin_verbs_set_frozen(struct pin_kept *kept, struct pin_error *err);
void pin_verbs_wake(struct pin_kept *kept, uint32_t exec, json_t *result);

/* exec.c */
void pin_exec_new(struct conn *conn, struct pin_kept_request *request);
void pin_exec_start_next(struct pin_kept *kept);
void pin_exec_on_message(struct pin_kept *kept, struct pin_link_message *message);
void pin_exec_advance(struct exec *exec);
void pin_exec_kill(struct exec *exec);
void pin_exec_terminate(struct exec *exec, enum pin_status reason);
void pin_exec_give_up(struct exec *exec); /* the sandbox is dead */
/* A cell that was handed over is: its result is there, or never comes. `status` is as of waitpid(2). */
void pin_exec_cell_over(struct exec *cell, int status);
void pin_exec_free(struct exec *exec);
struct exec *pin_exec_find(struct pin_kept *kept, uint64_t id);
bool pin_exec_signal(struct exec *exec, int number, struct pin_error *err);

/* exec_tell.c */
/* That it was refused is an event where the policy says so. */
void pin_exec_tell_refusal(const struct conn *conn, const struct pin_kept_request *request,
                           const struct pin_error *refusal);
/* The logs have its start before anything of it is there; false where it mustn't start without that. */
bool pin_exec_tell_log(struct exec *exec, struct pin_error *err);
/* Its client knows that it runs; where the result is captured, perhaps only with that. */
void pin_exec_tell_started(struct exec *exec);
/* Told to whoever waits, kept for whoever asks later. */
void pin_exec_tell_end(struct exec *exec);

/* exec_check.c */
/* Whether a command may be started: nothing has been done for it yet. */
bool pin_exec_check(const struct conn *conn, const struct pin_kept_request *request,
                    struct pin_exec_user *user, struct pin_error *err);

/* bill.c */
void pin_kept_sample(struct pin_kept *kept); /* something begins or ends */
void pin_kept_bill(struct pin_kept *kept);   /* all there is by now */

/* exec_user.c */
/* By numbers, or names of the sandbox's own files; false where the policy doesn't grant it. */
bool pin_exec_choose_user(const struct pin_kept_given *given, const char *text, struct pin_exec_user *user,
                          struct pin_error *err);
/* "UID:GID"; NULL: the sandbox's. */
const char *pin_exec_user_name(const struct exec *exec, char text[32]);

/* exec_leaf.c */
/* Its own, or one that an earlier command has left as it was; none where the host has no cgroups, and the
 * policy allows that. What the command enters it by is added to its descriptors. */
bool pin_exec_take_leaf(struct exec *exec, struct pin_link_command *command, struct pin_error *err);
bool pin_exec_kill_leaf(struct exec *exec, struct pin_error *err);
bool pin_exec_is_empty(struct exec *exec, bool *empty, struct pin_error *err);
/* What this command has used by now; false where nobody counts. */
bool pin_exec_usage(const struct exec *exec, struct pin_cgroup_usage *usage);
/* For the next command where nothing is left of this one, else for good. */
void pin_exec_leave(struct exec *exec);
void pin_kept_free_leaves(struct pin_kept *kept);

/* exec_limits.c */
bool pin_exec_set_limits(struct exec *exec, struct pin_error *err);
void pin_exec_read_usage(struct exec *exec);
/* Whether the kernel has killed for want of memory since this was asked last. */
bool pin_exec_was_out_of_memory(struct exec *exec);
bool pin_kept_was_out_of_memory(struct pin_kept *kept);

/* exec_context.c */
bool pin_context_check(const struct pin_kept *kept, const struct pin_kept_request *request,
                       struct pin_error *err);
bool pin_context_set_limits(struct exec *exec, struct pin_error *err);
void pin_context_cell_begins(struct exec *cell);
void pin_context_cell_ends(struct exec *cell);
/* Something runs that somebody has asked for: a context without a cell waits. */
bool pin_kept_is_busy(const struct pin_kept *kept);

/* exec_hand.c */
bool pin_context_open(struct exec *context, struct pin_link_command *command, struct pin_error *err);
void pin_context_close(struct exec *context);
/* The request, stdout, stderr and frames, which stay the caller's. */
bool pin_context_hand(struct exec *cell, const int *fds, size_t count, struct pin_error *err);
void pin_context_interrupt(const struct exec *cell);

/* exec_secrets.c */
/* Whether the policy grants these, and whether the files that they become are nobody else's. */
bool pin_exec_may_have_secrets(const struct pin_kept *kept, const struct pin_kept_request *request,
                               struct pin_error *err);
/* Those that every command of the sandbox has, in the same form. */
void pin_exec_drop_known_secrets(const struct pin_kept *kept, struct pin_kept_request *request);
/* Takes away the files that it alone has had; false when one is still there. */
bool pin_exec_remove_secret_files(const struct exec *exec);
/* Begins to look, in a process of its own where a program has to be asked; the state is then FINDING. */
void pin_exec_seek_secrets(struct exec *exec);
/* What was found becomes the command's, or is looked up now. */
bool pin_exec_find_secrets(struct exec *exec, struct pin_error *err);
/* What goes over the sandbox's environment; in the request's arena. */
const char *const *pin_exec_environment(struct exec *exec);
void pin_exec_free_secrets(struct exec *exec);
/* Never NULL but when memory is out. */
json_t *pin_exec_masked(const struct exec *exec, const char *text, size_t most);
void pin_exec_mask_error(const struct exec *exec, struct pin_error *err);
void pin_kept_forget_secrets(struct pin_kept *kept);
static inline const struct pin_mask *pin_exec_mask(const struct exec *exec) {
    return exec->mask != NULL ? exec->mask->mask : NULL;
}

/* exec_frames.c */
bool pin_exec_prepare_frames(struct exec *exec, struct pin_error *err);
/* False: this stream has none. */
bool pin_exec_frame_options(struct exec *exec, int stream, struct pin_frame_options *options);
void pin_exec_on_stdout_frame(void *self, const struct pin_frame_info *info, const uint8_t *payload);
void pin_exec_on_fd_frame(void *self, const struct pin_frame_info *info, const uint8_t *payload);

/* attach.c */
void pin_attach_new(struct conn *conn, struct pin_kept_request *request);
void pin_attach_advance(struct pin_kept *kept); /* frees those that are over */
bool pin_attach_any_busy(const struct pin_kept *kept);
void pin_attach_drop_conn(struct conn *conn);
bool pin_attach_serves(const struct conn *conn);
void pin_attach_free_all(struct pin_kept *kept);

/* exec_io.c */
bool pin_exec_open_output(struct exec *exec, struct pin_error *err);
bool pin_exec_open_pipes(struct exec *exec, struct pin_link_command *command, struct pin_error *err);
bool pin_exec_open_terminal(struct exec *exec, int master, struct pin_error *err);
bool pin_exec_is_drained(struct exec *exec);
void pin_exec_close_io(struct exec *exec);
