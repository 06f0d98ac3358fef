/* build.h: applies a plan: from nothing to a sandbox whose init waits for what to execute.
 *
 * Takes no decision: the plan has taken them all. Two processes work at once: the child assembles the root
 * while the parent makes the cgroups; the order that matters is kept by the sync bytes of
 * runtime/init/protocol.h.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/error.h"
#include "runtime/build/ahead.h"
#include "runtime/build/cgroup/cgroup.h"
#include "runtime/build/engine.h"
#include "runtime/build/watch.h"
#include "runtime/plan/plan.h"
#include "runtime/state/slots.h"

struct pin_build_input {
    const struct pin_plan *plan;
    const struct pin_cgroup_facts *cgroups;
    const struct pin_slot *slot;           /* NULL for an engine's container: it has its state elsewhere */
    const struct pin_engine_build *engine; /* NULL: a sandbox of `pinfold run` */
    struct pin_ahead *ahead;               /* begun before the plan; borrowed; NULL: nothing was */
    enum pin_watch watch;                  /* what is asked about at sandbox->watch; none for an engine's */
};

struct pin_sandbox {
    pid_t init;    /* a child of ours, not reaped; 0: none */
    int pidfd;     /* of init */
    int control;   /* our end of its control socket */
    int changes;   /* the upper directory of a copy-on-write workspace; -1: none */
    int upper;     /* the upper directory of a root from layers; -1: none that can be written */
    int door;      /* a socket of its network namespace; -1: none is published */
    int watch;     /* the listener of a watched filter; -1: none */
    int workspace; /* O_PATH: the directory that such a workspace covers; -1: none */
    struct pin_egress_sockets egress; /* for the broker; none without egress */
    struct pin_cgroup *cgroup;        /* NULL: none */
    uint32_t missing;                 /* set of 1u << enum pin_protection */
};
#define PIN_SANDBOX_NONE                                                                                     \
    ((struct pin_sandbox){.pidfd = -1,                                                                       \
                          .control = -1,                                                                     \
                          .changes = -1,                                                                     \
                          .upper = -1,                                                                       \
                          .door = -1,                                                                        \
                          .watch = -1,                                                                       \
                          .workspace = -1,                                                                   \
                          .egress = PIN_EGRESS_SOCKETS_NONE})

/* The rules of an engine for devices, beside those that every container has. */
bool pin_container_set_devices(const struct pin_bundle_resources *resources, struct pin_cgroup *group,
                               struct pin_error *err);

/* Builds the sandbox. What fails inside after this returns is told on the control socket
 * (PIN_INIT_BUILD_FAILED). False with nothing left behind. */
bool pin_build(const struct pin_build_input *input, struct pin_sandbox *sandbox, struct pin_error *err);

/* An engine's container that is built waits for this: it may outlive us from now on. Keeps nothing but
 * `control`, whose end of file says that the process is executed. */
bool pin_sandbox_keep(struct pin_sandbox *sandbox, struct pin_error *err);

/* Kills init, and with it all that is left, and reaps it: afterwards there is none. False when a process that
 * hangs in the kernel keeps it from dying. */
bool pin_sandbox_end(struct pin_sandbox *sandbox, struct pin_error *err);

/* The same, and removes the cgroup and closes everything. Fine with PIN_SANDBOX_NONE. */
bool pin_sandbox_destroy(struct pin_sandbox *sandbox, struct pin_error *err);
