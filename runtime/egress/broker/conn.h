/* conn.h: one TCP connection of a program inside, and the one that the broker made for it.
 *
 * accepted -> judged -> dialled -> (first bytes checked) -> relayed -> closed. A refusal is a reset at once;
 * what the network says of the outer connection is what the inner one gets.
 */
#pragma once

#include "runtime/egress/broker/dial.h"
#include "runtime/egress/http_guard.h"

struct side {
    struct watch watch;
    struct conn *conn;
    uint8_t *pending; /* read from the other side, not yet taken by this one */
    size_t pending_at, pending_size;
    size_t chunk;    /* how much to read at once */
    bool read_ended; /* it has said that it sends no more */
    bool write_ended;
};

struct conn {
    struct grave grave;
    struct broker *broker;
    struct conn *following, **link;
    struct side inner, outer;
    struct dial dial;
    struct pin_destination to; /* `host` is the name's, which lives as long as the broker */
    struct pin_verdict verdict;
    uint64_t id, bytes_out, bytes_in, started_ns, active_ns, held_since_ns;
    bool is_open; /* the outer connection is there, and reported */
    bool is_dialling;
    struct payers payers;
    enum pin_inspect inspection; /* PIN_INSPECT_NONE: nothing more is looked at */
    uint32_t accept;             /* of the rule */
    struct pin_http_guard guard;
    uint8_t *held; /* from the program, not yet checked */
    size_t held_size;
};

/* Takes what waits at the listener. */
void conn_accept(struct broker *broker, int listener);

/* The end of it: quietly, or by a reset of both sides. */
void conn_close(struct conn *conn);
void conn_abort(struct conn *conn);
/* Reports the refusal, then aborts. */
void conn_refuse(struct conn *conn, enum pin_egress_reason reason);

/* Idle, too old, waiting too long with its first bytes; or waiting for the rate. */
void conn_tick(struct broker *broker, uint64_t now);
/* Tells of at most so many; returns how many. */
size_t conn_show(const struct broker *broker, int stream, size_t most);
/* The end of them all, each reported. */
void conn_end_all(struct broker *broker);
/* Cuts what the rules now forbid. */
void conn_judge_again(struct broker *broker);
