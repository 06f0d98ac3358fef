/* set_up.h: what a sandbox for one command and one that is kept set up alike.
 */
#pragma once

#include <jansson.h>

#include "runtime/bills/bill.h"
#include "runtime/build/build.h"
#include "runtime/bundle/bundle.h"
#include "runtime/egress/published.h"
#include "runtime/egress/session.h"
#include "runtime/state/slots.h"
#include "runtime/supervise/supervise.h"
#include "tools/pinfold/front.h"

/* Whether the plan publishes a port at a UNIX socket. */
bool pin_set_up_needs_folder(const struct pin_plan *plan);

void pin_set_up_limits(const struct pin_bundle_ext *ext, struct pin_limits *limits);
/* A list that ends with NULL, as the kernel's do; a bundle's are counted. */
const char *const *pin_set_up_list(struct pin_arena *arena, const char *const *items, size_t count);
/* The names of the protections that this host couldn't give; returns how many. */
size_t pin_set_up_missing(uint32_t missing, const char *names[PIN_PROTECT_COUNT]);
json_t *pin_set_up_labels(const struct pin_bundle_ext *ext);
/* The first host ids of the command, where the sandbox has a range of its own. */
uid_t pin_set_up_owner(const struct pin_slot *slot, uint32_t id_inside);

/* Becomes a program of ours (runtime/host/libexec.h). Returns when there is none. `argv` ends with NULL. */
void pin_set_up_execute(const char *program, const char *const *argv);

/* The bill of a run, from its result; nothing to do for one without labels, whose bill has no id. */
bool pin_set_up_bill_run(struct pin_bill *bill, const struct pin_result *result, struct pin_error *err);

/* What sees the broker's events; NULL functions see none. */
struct pin_set_up_egress {
    struct pin_egress_session *session;
    struct pin_publishing *publishing;
    int folder; /* for the UNIX sockets of published ports; -1: none is asked for */
    int both;   /* where there are events of two brokers; -1: of one at most. The caller closes it */
    void *self;
    bool (*wants)(void *self,
                  const struct pin_egress_event *event); /* as JSON, even where nobody else does */
    void (*see)(void *self, json_t *event);              /* and may add to it */
};
/* "egress", "publish": whose broker has died before the sandbox did. */
size_t pin_set_up_lost(const struct pin_set_up_egress *egress, const char *names[PIN_EGRESS_LOST_MAX]);

/* Starts the brokers that the plan has, one for what leaves and one for published ports; `ops` are then of
 * `egress`, which must stay. */
bool pin_set_up_egress_start(struct pin_set_up_egress *egress, const struct pin_front *front,
                             struct pin_sandbox *sandbox, struct pin_egress_ops *ops, struct pin_error *err);
