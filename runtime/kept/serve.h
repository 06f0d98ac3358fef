/* serve.h: the life of a kept sandbox, from a built sandbox to its end.
 *
 * The supervisor of a kept sandbox is one process with one thread and one loop: it listens on the control
 * socket, has init start what clients ask for, collects what comes out, and ends when it is told to, when a
 * time is over, or when init is dead. No client makes it wait: sockets don't block, what is kept for a client
 * is bounded, and one that doesn't read is no longer listened to. All is judged by the kernel's facts, as in
 * runtime/supervise.
 */
#pragma once

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "runtime/build/build.h"
#include "runtime/kept/request.h"
#include "runtime/secrets/mask.h"
#include "runtime/secrets/secrets.h"
#include "runtime/supervise/supervise.h"

struct pin_kept_recorded { /* of a command */
    const char *const *args;
    size_t arg_count;
    const char *user;                       /* "UID:GID"; NULL: the policy's */
    const struct pin_secrets *secrets;      /* that are handed to it */
    const struct pin_mask *mask;            /* NULL: none are known */
    const struct pin_kept_request *request; /* of one that is refused */
};

/* The audit log; a function that is NULL: nothing is recorded. False: it isn't in the log. */
struct pin_kept_audit {
    void *self;
    /* Before it is started; a command that can't be recorded isn't. `error`: it was refused for that. */
    bool (*begin)(void *self, uint32_t exec, const struct pin_kept_recorded *what, struct pin_error *err);
    bool (*refuse)(void *self, const struct pin_kept_recorded *what, const struct pin_error *refusal,
                   struct pin_error *err);
    bool (*end)(void *self, uint32_t exec, const struct pin_result *result, struct pin_error *err);
};

struct pin_kept_command { /* that is over */
    uint32_t exec;        /* 0: a call of a runner's */
    uint64_t started_ns;
    uint64_t own_time_ns; /* it asked for less than the policy grants; 0: it didn't */
};

#define PIN_KEPT_SCRATCH_MAX 16

/* A process that waits for calls of tools from the start, see call.h. */
struct pin_kept_runner {        /* borrowed */
    const char *const *argv;    /* ends with NULL */
    bool forks;                 /* it answers many calls; otherwise one, and then the sandbox ends */
    const char *const *scratch; /* file systems of the sandbox's own, which are emptied after each call */
    size_t scratch_count;       /* at most PIN_KEPT_SCRATCH_MAX */
    bool letta_frames;          /* are read from the stdout of calls */
    /* What is told of a call; NULL when memory is out. */
    json_t *(*describe)(const struct pin_result *result, const char *key, int *exit_code);
};

struct pin_kept_given { /* borrowed */
    int folder;         /* of the sandbox, see home.h */
    const char *name, *fingerprint;
    json_t *facts; /* what "show" tells; "labels" in it goes into every result */
    const char *const *missing;
    size_t missing_count;
    struct pin_sandbox *sandbox;

    const char *const *envp; /* of every exec, before its own; ends with NULL */
    const char *cwd;
    uint32_t umask;
    bool has_owner;           /* see struct pin_supervision */
    uint32_t first_id;        /* what the sandbox's id 0 is outside */
    const char *image_digest; /* of the image that the root is made from; NULL: the host's */
    uid_t owner_uid;
    gid_t owner_gid;
    struct pin_limits limits; /* of each exec */
    bool tty;                 /* terminals are granted */
    uid_t uid;                /* of every exec that doesn't ask for another, inside */
    gid_t gid;
    uint32_t ids;          /* the ids that there are to be asked for: below this */
    uint64_t capabilities; /* of every exec */

    /* Of every exec, found anew for each, so that a rotated one is seen; its own come on top. */
    const char *const *secrets, *const *secret_variables; /* secret_spec.h; "NAME=VARIABLE" */
    size_t secret_count, secret_variable_count;
    bool secret_folder; /* an exec's own can be files */
    struct pin_kept_audit audit;

    const struct pin_kept_runner *runner; /* NULL: none */

    struct pin_egress_ops egress;  /* `fd` NULL: none */
    uint64_t idle_ns, lifetime_ns; /* PIN_UNLIMITED: none */

    void *self;
    /* Changes what may leave, if it is asked to, and tells of it; NULL with an error. */
    json_t *(*serve_egress)(void *self, const struct pin_kept_request *request, struct pin_error *err);
    bool (*may_set)(void *self, const char *variable); /* "K=V": does the policy let an exec set it? */
    bool (*may_hand)(void *self, const char *secret,
                     struct pin_error *err); /* does it grant an exec that one? */
    /* Memory times time, and commands, since the sandbox is up: now and then, and at its end; NULL: nobody
     * counts. */
    void (*used)(void *self, uint64_t memory_byte_ms, uint64_t execs);
    /* What was denied while it ran goes into its result; false: some of it isn't in the audit log. */
    bool (*denied)(void *self, const struct pin_kept_command *command, struct pin_result *result);
    bool (*ready)(void *self, struct pin_error *err); /* clients can connect now; false: it ends */
    /* Kills what is left, and removes cgroups and slot; called once, before the last replies are sent. */
    bool (*destroy)(void *self, struct pin_error *err);
};

/* Returns when the sandbox has ended, with a word that says why. False with an error when it could never be
 * served; destroy() was called either way. */
bool pin_kept_serve(const struct pin_kept_given *given, const char **why, struct pin_error *err);
