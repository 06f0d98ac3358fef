/* one_shot.h: a sandbox for one command: built, supervised, cleared away, recorded; and its result.
 *
 * The caller has made the plan with front.h (pin_front_bundle, pin_front_plan) in `front`. There is one way
 * to build a sandbox and to collect its output, and whoever runs something once comes through here. Nothing
 * is printed, but for what pass-through and a stream hand on.
 */
#pragma once

#include <stdbool.h>

#include "base/findings.h"
#include "runtime/build/build.h"
#include "runtime/build/teardown.h"
#include "runtime/egress/session.h"
#include "runtime/state/slots.h"
#include "runtime/supervise/supervise.h"
#include "tools/pinfold/front.h"
#include "tools/pinfold/run_audit.h"
#include "tools/pinfold/run_denials.h"
#include "tools/pinfold/run_receipt.h"
#include "tools/pinfold/run_secrets.h"
#include "tools/pinfold/set_up.h"

enum {
    PIN_ONE_SHOT_MISSING_MAX = PIN_PROTECT_COUNT + 4
}; /* every protection, the brokers, the log, the bill */

struct pin_one_shot { /* what one run owns; PIN_ONE_SHOT_NONE at first */
    struct pin_front front;
    struct pin_slot slot;
    struct pin_ahead *ahead; /* started by the caller, as early as it can; NULL: none */
    struct pin_sandbox sandbox;
    struct pin_teardown *teardown; /* NULL: none */
    struct pin_egress_session egress;
    struct pin_publishing publishing;
    struct pin_set_up_egress egress_seen;
    int published_in; /* the folder of the sockets; -1: none */
    struct pin_result result;
    struct pin_run_secrets secrets;
    struct pin_run_audit audit; /* its `fault`, where one is set, is the caller's to report */
    struct pin_run_denials denials;
    struct pin_bill bill;                   /* of one with labels */
    const struct pin_one_shot_watch *watch; /* of the settings */
    struct pin_run_receipt receipt;
    struct pin_error receipt_fault; /* the run has happened, and its receipt could not be written */
    struct pin_stream stream;
    bool tells_published; /* where, on standard error: the caller has no other way to learn a port */
    const char *missing[PIN_ONE_SHOT_MISSING_MAX];
    char name[32];
    char fingerprint[PIN_DIGEST_TEXT];
};

/* clang-format off */
#define PIN_ONE_SHOT_NONE                                                                                    \
    ((struct pin_one_shot){.front = PIN_FRONT_NONE, .slot = PIN_SLOT_NONE, .sandbox = PIN_SANDBOX_NONE,      \
                           .egress = PIN_EGRESS_SESSION_NONE, .publishing = PIN_PUBLISHING_NONE,             \
                           .egress_seen = {.folder = -1, .both = -1}, .published_in = -1,                    \
                           .audit = PIN_RUN_AUDIT_NONE})
/* clang-format on */

struct pin_one_shot;

/* Somebody who is asked about every system call of the run: runtime/build/watch.h. */
struct pin_one_shot_watch {
    void *self;
    /* the sandbox is built, and nothing in it runs on before this answers at run->sandbox.watch */
    bool (*start)(void *self, struct pin_one_shot *run, struct pin_error *err);
    void (*end)(void *self); /* its processes are dead */
    /* a broker's event, as it goes to the log */
    void (*egress)(void *self, const struct pin_egress_event *event);
};

struct pin_one_shot_settings {
    enum pin_output output;
    int input; /* what the command reads; borrowed; -1: nothing */
    bool tty;
    bool fingerprint;      /* the result has one */
    const uint8_t *digest; /* what the fingerprint is made of, before secrets; NULL: the bundle's own */
    bool audit_sync;
    const char *receipt; /* the file that gets one; NULL: none */
    enum pin_io io;
    const struct pin_one_shot_watch *watch; /* NULL: the filter judges, as it should */
};

/* True with a complete result. False with an error where the run came to nothing. The sandbox is gone either
 * way, and the end recorded. */
bool pin_one_shot_run(struct pin_one_shot *run, const struct pin_one_shot_settings *settings,
                      struct pin_error *err);
void pin_one_shot_free(struct pin_one_shot *run);
