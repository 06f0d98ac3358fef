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
#include "runtime/supervise/supervise.h"

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
    bool has_owner; /* see struct pin_supervision */
    uid_t owner_uid;
    gid_t owner_gid;
    struct pin_limits limits; /* of each exec */
    bool tty;                 /* terminals are granted */

    struct pin_egress_ops egress;  /* `fd` NULL: none */
    uint64_t idle_ns, lifetime_ns; /* PIN_UNLIMITED: none */

    void *self;
    bool (*may_set)(void *self, const char *variable); /* "K=V": does the policy let an exec set it? */
    void (*ready)(void *self);                         /* clients can connect now */
    /* Kills what is left, and removes cgroups and slot; called once, before the last replies are sent. */
    bool (*destroy)(void *self, struct pin_error *err);
};

/* Returns when the sandbox has ended. False with an error when it could never be served; destroy() was called
 * either way. */
bool pin_kept_serve(const struct pin_kept_given *given, struct pin_error *err);
