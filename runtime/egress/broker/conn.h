/* conn.h: one TCP connection of a program inside, and the one that the broker made for it.
 *
 * accepted -> judged -> dialled -> (first bytes checked) -> relayed -> closed. A refusal is a reset at once;
 * what the network says of the outer connection is what the inner one gets.
 */
#pragma once

#include "runtime/egress/broker/dial.h"
#include "runtime/egress/http_guard.h"
#include "runtime/egress/opening_packet.h"

struct side {
    struct watch watch;
    struct conn *conn;
    uint8_t *pending; /* read from the other side, not yet taken by this one */
    size_t pending_at, pending_size;
    struct pipe pipe; /* where it waits instead, at full speed */
    size_t chunk;     /* how much to read at once */
    bool read_ended;  /* it has said that it sends no more */
    bool write_ended;
    bool
        lost; /* it was reset: what it sent before that still goes on, then the other side is reset as well */
};

struct conn {
    struct grave grave;
    struct broker *broker;
    struct conn *following, **link;
    struct side inner, outer;
    struct dial dial;
    struct pin_destination to; /* `host` is the name's, which lives as long as the broker */
    struct pin_verdict verdict;
    uint64_t undelivered; /* at the end: what the program has sent, and the other end can't get any more */
    uint64_t id, bytes_out, bytes_in, started_ns, active_ns, held_since_ns;
    bool is_open; /* the outer connection is there, and reported */
    bool is_dialling;
    bool awaits;                /* the program's side: it is held back as `opening` */
    struct pin_opening opening; /* where it isn't held back, only its ends */
    uint64_t dial_until_ns;     /* of inward.h; 0: dial.h has its own time */
    size_t listener;            /* of inward.h: the number of the port that it came in by */
    struct payers payers;
    enum pin_inspect inspection; /* PIN_INSPECT_NONE: nothing more is looked at */
    uint32_t accept;             /* of the rule */
    struct pin_http_guard guard;
    uint8_t *held; /* from the program, not yet checked */
    size_t held_size;
};

/* One that counts from now on, with no socket yet; NULL: no memory. */
struct conn *conn_make(struct broker *broker, const struct pin_destination *to,
                       const struct pin_verdict *verdict);
/* Both sockets are connected: reports it and relays. */
void conn_open(struct conn *conn);
/* Reports what the network said of the second one, and resets the first. */
void conn_fail(struct conn *conn, int os_errno);
/* Resets what was accepted and is no connection yet. */
void conn_refuse_socket(int fd);

/* Dials for it. With `awaits` and an opening, the program's side comes by conn_adopt(); else it is `inner`
 * already. */
void conn_dial(struct conn *conn);
void conn_adopt(struct conn *conn, int fd);

/* The end of it: quietly, or by a reset of both sides. */
void conn_close(struct conn *conn);
/* Quietly, and what the other end has sent to nobody doesn't cost it what it hasn't got yet. */
void conn_leave(struct conn *conn);
void conn_abort(struct conn *conn);
/* Reports the refusal, then aborts. */
void conn_refuse(struct conn *conn, enum pin_egress_reason reason);

/* Idle, too old, waiting too long with its first bytes; or waiting for the rate. */
void conn_tick(struct broker *broker, uint64_t now);
/* Tells of at most so many; returns how many. */
size_t conn_show(const struct broker *broker, int stream, size_t most);
/* The end of them all, each reported. */
void conn_end_all(struct broker *broker);
/* The programs are gone (`is_draining`): ends what only waits for an answer. */
void conn_leave_answers(struct broker *broker);
/* Is there one whose program may have sent more than has been passed on? */
bool conn_is_under_way(const struct broker *broker);
/* Has these accounts from now on. */
void conn_move(struct conn *conn, const struct pin_egress_rule *rule);
/* Cuts what the rules now forbid. */
void conn_judge_again(struct broker *broker);
