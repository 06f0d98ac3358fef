/* up_books.h: what a kept sandbox's supervisor owns, and its books: secrets, audit log, receipt, bills. For
 * up.c alone.
 */
#pragma once

#include "runtime/bills/bill.h"
#include "runtime/build/build.h"
#include "runtime/egress/session.h"
#include "runtime/kept/home.h"
#include "runtime/kept/serve.h"
#include "tools/pinfold-kept/live.h"
#include "tools/pinfold/front.h"
#include "tools/pinfold/run_audit.h"
#include "tools/pinfold/run_calls.h"
#include "tools/pinfold/run_denials.h"
#include "tools/pinfold/run_receipt.h"
#include "tools/pinfold/run_secrets.h"
#include "tools/pinfold/set_up.h"

struct up_refusals { /* the last ones, for the results of commands that ran meanwhile */
    struct {
        uint64_t at_ns;
        json_t *event;
    } list[PIN_DENIALS_MAX];
    uint64_t count; /* of all; the last is at (count - 1) % PIN_DENIALS_MAX */
};

struct up { /* what the supervisor owns, from the name to the end */
    struct pin_front front;
    struct pin_home home;
    struct pin_slot slot;
    struct pin_sandbox sandbox;
    struct pin_egress_session egress;
    struct pin_live_egress live;
    struct pin_publishing publishing;
    json_t *facts; /* borrowed, while it is served */
    struct pin_set_up_egress egress_seen;
    struct pin_run_secrets secrets; /* until it is built: each command's are found anew */
    struct pin_run_audit audit;
    struct pin_run_calls *calls;  /* NULL: denied ones aren't recorded */
    struct up_refusals *refusals; /* NULL: none yet */
    struct pin_run_receipt receipt;
    const char *receipt_file;      /* absolute: the supervisor leaves the caller's directory */
    struct pin_cgroup_usage usage; /* at its end */
    struct pin_bill bill, billed;  /* of one with labels; what earlier bills have counted */
    uint64_t up_ns;
    const char *name;
    const struct pin_up_settings *settings; /* NULL: of the verb */
    struct pin_kept_runner runner;
    int told; /* the pipe to who waits for us */
    bool ready;
    char fingerprint[PIN_DIGEST_TEXT];
    const char *missing[PIN_PROTECT_COUNT];
    size_t missing_count;
};

/* Its secrets and its first record, before anything is built. A secret that isn't there is recorded too. */
bool pin_up_open_books(struct up *up, bool audit_sync, struct pin_error *err);
/* Its last record, when all is over. */
void pin_up_close_books(struct up *up, const char *why, const struct pin_error *error);

/* What its commands tell the log. */
void pin_up_give_audit(struct up *up, struct pin_kept_audit *audit);
/* Nothing to do for one without labels. */
bool pin_up_begin_bill(struct up *up, struct pin_kept_given *given, struct pin_error *err);
bool pin_up_start_egress(struct up *up, struct pin_egress_ops *ops, struct pin_error *err);
/* Whether the policy grants one command this secret; `self` is the struct up. */
bool pin_up_may_hand(void *self, const char *secret, struct pin_error *err);

/* up_denials.c: what was denied while a command ran. */
bool pin_up_start_calls(struct up *up, struct pin_error *err);
/* Its processes are dead: what no command was told of goes into the log. */
void pin_up_end_calls(struct up *up);
/* A refusal of the broker's stays for results; takes its own reference. */
void pin_up_keep_refusal(struct up *up, json_t *event);
/* `self` is the struct up; see struct pin_kept_given. */
bool pin_up_denied(void *self, const struct pin_kept_command *command, struct pin_result *result);
/* Of what a refused command asked for: the answers of `policy why` that deny. The caller owns the list. */
json_t *pin_up_refused(const struct up *up, const struct pin_kept_request *request);
void pin_up_forget_refusals(struct up *up);
/* The policy whose destinations are in force: a live change narrows or widens them below the ceiling. */
const struct pin_policy *pin_up_egress_policy(const struct up *up);
