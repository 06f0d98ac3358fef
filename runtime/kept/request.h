/* request.h: what a client may ask of a kept sandbox, out of the JSON of its message.
 *
 * One table of fields says which of them each verb knows; an unknown one is an error, and so is one of the
 * wrong type. The parser makes no system call and allocates in proportion to its input. Source: docs/kept.md.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/error.h"
#include "policy/policy.h"
#include "runtime/supervise/outlet.h"

enum pin_kept_verb {
    PIN_KEPT_EXEC,   /* starts a command; replies "started", then its result */
    PIN_KEPT_SIGNAL, /* to one exec, or to all */
    PIN_KEPT_END,    /* SIGKILL to the whole tree of one exec */
    PIN_KEPT_RESIZE, /* the window of an exec's terminal */
    PIN_KEPT_SHOW,
    PIN_KEPT_STATS,
    PIN_KEPT_PAUSE,
    PIN_KEPT_RESUME,
    PIN_KEPT_STOP, /* TERM to all, then the end */
    PIN_KEPT_KILL, /* the end at once */
    PIN_KEPT_WAIT, /* replies when one exec, or the sandbox, has ended */
    PIN_KEPT_RENEW,
    PIN_KEPT_ROOT,   /* replies with a descriptor of the sandbox's root, for copying */
    PIN_KEPT_LEND,   /* the connection itself becomes a descriptor for a later exec, for who can't send any */
    PIN_KEPT_ATTACH, /* the output of an exec from the log and as it comes, its input, and its end */
    PIN_KEPT_CHANGES, /* replies with a descriptor of what was changed on the image, for commit */
    PIN_KEPT_CALL,    /* hands a packet to the sandbox's runner; replies with the call's result */
    PIN_KEPT_EGRESS,  /* what may leave, and what does; or another list of it */
    PIN_KEPT_VERB_COUNT
};
const char *pin_kept_verb_name(enum pin_kept_verb verb);

#define PIN_KEPT_KEY_MAX 64 /* bytes of a call's key */
#define PIN_KEPT_FDS_MAX 3  /* stdin, stdout, stderr */
/* bytes of a call's secrets: what any pipe takes at once */
#define PIN_KEPT_SEALED_MOST ((size_t)32 * 1024)

struct pin_kept_request {
    struct pin_arena arena; /* of all below */
    enum pin_kept_verb verb;
    uint64_t id;   /* the client's own; comes back with every reply */
    uint64_t exec; /* 0: none */
    uint64_t signal, rows, columns;
    uint64_t cell_of; /* of an exec: the context that it brings a cell to; 0: none */
    uint64_t since;   /* the last record that the client has */
    uint64_t timeout_ms, grace_ms, idle_ms, lifetime_ms;
    bool has_timeout, has_grace, has_idle, has_lifetime;
    const char **args, **env, **secrets; /* end with NULL; env is "K=V" */
    size_t arg_count, env_count, secret_count;
    const char *user;           /* "USER" or "USER:GROUP", as it is inside; NULL: the sandbox's */
    uint32_t frames;            /* enum pin_frames: where they are looked for */
    bool interactive;           /* its input stays open for who attaches */
    const char *rules;          /* of egress: JSON text as of network.egress; NULL: as it is */
    const char **add, **remove; /* of egress: "HOST:PORT"; end with NULL */
    size_t add_count, remove_count;
    const char **unpublish; /* of egress: ports inside */
    size_t unpublish_count;
    const char *cwd;                 /* NULL: the sandbox's */
    bool input, out, err;            /* descriptors come with the message, or are lent, in this order */
    uint64_t lent[PIN_KEPT_FDS_MAX]; /* numbers of connections */
    size_t lent_count;
    const char *key;        /* of a call: what its result has to hold */
    bool if_idle;           /* a call that does not wait for another */
    uint64_t sealed;        /* of a call: so many secrets come from a second descriptor */
    bool context;           /* an exec that lives between cells */
    bool hand;              /* a cell that its context gets as descriptors: `args` only name it */
    bool tty, detach, hold; /* `hold`: a pause that ends with the connection, if not before */
    enum pin_output
        output; /* PASS: to the descriptors; CAPTURE: into the result; STREAM: JSON lines to `out` */
};

/* False with an error whose pointer names the field. Free it in any case. */
bool pin_kept_request_parse(const char *text, size_t size, struct pin_kept_request *request,
                            struct pin_error *err);
void pin_kept_request_free(struct pin_kept_request *request);
