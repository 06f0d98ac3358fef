/* session.h: the egress of one run: its broker, its rules, and what has happened so far.
 *
 * For whoever supervises a sandbox. A session that was never started has nothing, and everything here is
 * harmless with it.
 */
#pragma once

#include "runtime/egress/start.h"

struct pin_egress_session {
    bool started;
    bool lost;       /* the broker ended before the sandbox did; its network is closed since then */
    bool was_killed; /* at its end, by us or by somebody else: what it still held is lost, uncounted */
    struct pin_broker broker;
    struct pin_egress_rules rules; /* in force; borrowed, as long as the session lives */
    struct pin_egress_rules next;  /* that the broker has been told of; from its word on they are in force */
    bool is_replacing;
    uint64_t drain_ns; /* of the limits in force */
    bool is_draining;
    uint64_t end_by_ns; /* told to end; 0: not yet */
    struct pin_egress_usage usage;
    char fault[PIN_EGRESS_NAME_MAX]; /* why the broker couldn't serve; "": it could */
};
/* clang-format off */
#define PIN_EGRESS_SESSION_NONE ((struct pin_egress_session){.broker = {.pidfd = -1, .control = -1}})
/* clang-format on */

/* What the set-up child is to prepare for these rules. */
struct pin_egress_plan pin_egress_plan_for(const struct pin_egress_rule *rules, size_t count);

/* The program is pinfold-broker (runtime/host/libexec.h). The sockets are closed here in any case. */
bool pin_egress_session_start(struct pin_egress_session *session, const char *program,
                              const struct pin_egress_setup *setup, struct pin_egress_sockets *sockets,
                              struct pin_error *err);

/* A broker that lets the host in, to the port of each rule from the listener of the same number; these are
 * borrowed. It joins the network of `door`, a socket that was made inside. */
bool pin_egress_session_publish(struct pin_egress_session *session, const char *program,
                                const struct pin_egress_setup *setup, int door, const int *listeners,
                                struct pin_error *err);

/* Other rules: from the event `replaced` on they are in force, and what they forbid is cut. Both lists are
 * borrowed as long as the session lives. */
bool pin_egress_session_replace(struct pin_egress_session *session, const struct pin_egress_setup *setup,
                                struct pin_error *err);
/* What is open and used now, as {"rules", "budgets", "connections", …}; the caller owns it; NULL: an error.
 */
struct json_t *pin_egress_session_status(struct pin_egress_session *session, struct pin_error *err);

/* What becomes readable when an event is there; -1: nothing more will be. */
int pin_egress_session_fd(const struct pin_egress_session *session);
/* The broker didn't live until it had done all: once the session is over, that is the last word. */
bool pin_egress_session_is_lost(const struct pin_egress_session *session);
/* What has happened by now is among the next events; waits a moment for that. */
void pin_egress_session_settle(struct pin_egress_session *session);
/* The next event, counted; false: none now. */
bool pin_egress_session_next(struct pin_egress_session *session, struct pin_egress_event *event);
/* The sandbox is gone: ends the broker and waits for it; three seconds after it should have ended it is
 * killed. With `drains` it passes on first what programs have sent and left behind, as long as the limits
 * say. False: it isn't over; take the events that there may be, and call again, without `drains` to cut it
 * short. The last ones are there when it is over. */
bool pin_egress_session_end(struct pin_egress_session *session, bool drains);
void pin_egress_session_free(struct pin_egress_session *session);

/* An event as {"event": "refuse", "host", "address", "port", …}; the caller owns it. */
struct json_t;
struct json_t *pin_egress_event_json(const struct pin_egress_event *event,
                                     const struct pin_egress_rules *rules);
