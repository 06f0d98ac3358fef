/* supervise.h: the life of one run, from a built sandbox to its result.
 *
 * The builder hands over a sandbox whose init is about to say READY; pin_supervise() has it start the
 * command, moves bytes, keeps the limits, passes signals on, and returns when the whole process tree is dead.
 * Nothing that the contained processes do, or don't do, makes it block: not a full pipe, an open one, a
 * signal that is ignored. It judges the end by the kernel's facts (init's pidfd, wait status, cgroup
 * counters) and never by what was printed. All times on CLOCK_MONOTONIC.
 *
 * One thread. While it runs, INT, TERM, HUP, QUIT and WINCH are blocked in the calling thread and read by the
 * loop, but for those that the caller ignores; before and after, they act as the caller has them. SIGPIPE
 * should be ignored by the caller.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <sys/types.h>

#include "base/error.h"
#include "policy/policy.h"
#include "runtime/supervise/frames.h"
#include "runtime/supervise/loop.h"
#include "runtime/supervise/outlet.h"
#include "runtime/supervise/result.h"
#include "runtime/supervise/stream.h"

/* What the supervisor needs of the sandbox's cgroup; a NULL function or a descriptor of -1 is "can't". */
struct pin_cgroup_ops {
    void *self;
    bool (*kill)(void *self);                           /* SIGKILL to every process in it */
    bool (*usage)(void *self, struct pin_usage *usage); /* cpu_ns, memory_peak_bytes, pids_peak, oom_kills */
    int oom_event_fd;                 /* polls `oom_events` when memory has run out; -1: none */
    unsigned oom_events;              /* POLLIN or POLLPRI */
    bool (*oom_happened)(void *self); /* asked after it polled: was a process killed? arms it anew */
    bool (*memory)(void *self,
                   uint64_t *bytes); /* what it holds now; NULL: nobody wants the account of that */
};

#define PIN_EGRESS_LOST_MAX 2

/* What the supervisor needs of the sandbox's egress, which is somebody else's: its events. */
struct pin_egress_ops {
    void *self;
    int (*fd)(void *self); /* readable when there is something; -1: no more will come */
    bool (*next)(void *self,
                 json_t **event); /* one event, as an object for the stream; `event` may be NULL */
    void (*settle)(void *self);   /* what has happened by now, comes now */
    /* The sandbox is gone; with `drains` what its programs have sent goes out first, for a short while.
     * False: take the events, and call again; the last ones are there when it is true. */
    bool (*end)(void *self, bool drains);
    /* what has been closed since its process died, as results name it in `missing`; how many */
    size_t (*lost)(void *self, const char *names[PIN_EGRESS_LOST_MAX]);
};

struct pin_limits {
    uint64_t wall_time_ns, cpu_time_ns;               /* PIN_UNLIMITED: none */
    uint64_t grace_ns;                                /* from TERM to KILL */
    uint64_t stdout_bytes, stderr_bytes, frame_bytes; /* PIN_UNLIMITED: none; frames never past 1 GiB */
    enum pin_on_cap on_output_cap;
};

struct pin_supervision {
    /* the sandbox; all borrowed, and still open afterwards */
    pid_t init_pid; /* a child of ours that nobody has waited for: pin_supervise() reaps it */
    int init_pidfd;
    int control; /* our end, see runtime/init/protocol.h */
    struct pin_cgroup_ops cgroup;
    struct pin_egress_ops egress; /* `fd` NULL: none */

    /* the command, as it is seen inside */
    const char *const *argv, *const *envp; /* each ends with NULL; PINFOLD_FRAME_* is added here */
    const char *cwd;
    uint32_t umask;

    /* input and output; borrowed. Descriptors are never handed inside: bytes are copied through pipes */
    int stdin_fd;   /* -1: /dev/null */
    bool has_owner; /* the host ids of the command: they own the pipes, so that /dev/stdout can be opened */
    uid_t owner_uid;
    gid_t owner_gid;
    enum pin_output output;
    int stdout_fd, stderr_fd;  /* PASS */
    struct pin_stream *stream; /* STREAM */
    bool tty; /* a terminal inside; `terminal_fd` is the caller's, put into raw mode; -1: none */
    int terminal_fd;
    uint32_t frames;             /* enum pin_frames: where they are looked for */
    const struct pin_mask *mask; /* secrets, which are taken out of text and frames; NULL: none */
    bool has_nonce;
    uint8_t nonce[PIN_FRAME_MARKER_SIZE]; /* of pinfold frames; drawn by getrandom(2) unless has_nonce */

    struct pin_limits limits;
    uint64_t started_ns;   /* where the wall time counts from; 0: now */
    enum pin_io io;        /* what kind of loop, when `loop` is NULL */
    struct pin_loop *loop; /* made earlier, perhaps while the sandbox is being built; NULL: made here */
};

/* True with a result whenever the sandbox was reached, also when the command couldn't be executed (126, 127;
 * result->error says why). False with an error (exit code 125) when set-up failed or the supervisor itself
 * did. Either way the sandbox's processes are dead and init is reaped when it returns, unless
 * result->outlived: a process inside hangs in the kernel and can't be killed. `result` is zeroed before. */
bool pin_supervise(const struct pin_supervision *supervision, struct pin_result *result,
                   struct pin_error *err);
