/* broker.h: what the parts of the broker share. One thread, one sandbox. */
#pragma once

#include "base/arena.h"
#include "policy/publish.h"
#include "runtime/egress/broker/account.h"
#include "runtime/egress/broker/pipe.h"
#include "runtime/egress/broker/poll.h"
#include "runtime/egress/broker/report.h"
#include "runtime/egress/bucket.h"
#include "runtime/egress/event.h"
#include "runtime/egress/inside.h"
#include "runtime/egress/proxy_talk.h"
#include "runtime/egress/rules_blob.h"
#include "runtime/egress/synthetic.h"

struct resolver;
struct conn;
struct dial;
struct flows;
struct inward;
struct service;
struct openings;

struct broker {
    struct poll poll;
    struct report report;
    struct pin_arena arena; /* of the rules */
    struct pin_egress_rules rules;
    enum pin_unknown_names unknown_names;
    bool has_rules; /* the proxy is the first ones' */
    struct pin_proxy proxy;
    char proxy_login[PIN_PROXY_LOGIN_MAX];
    struct accounts accounts;
    struct pin_synthetic *names;
    struct pin_bucket new_names; /* below wildcards */
    uint64_t wildcard_names;
    struct resolver *resolver;
    struct service *services; /* asked for, not yet answered */
    size_t service_count;
    struct pin_bucket service_rate;
    struct dial *dials;        /* under way */
    struct conn *conns;        /* open or being made */
    struct openings *openings; /* NULL: connections are accepted at once */
    struct flows *flows;       /* of UDP; NULL: none are served */
    uint64_t next_id;
    bool throttled;       /* some connection waits for its rate */
    bool accept_paused;   /* no descriptor was left */
    size_t pending_bytes; /* read and not yet taken by the other side, all connections */
    uint8_t *buffer;      /* for one read at a time */
    struct pipes pipes;
    uint32_t dropped[PIN_EGRESS_SOCKET_COUNT]; /* of what was sent to a socket; told of: losses.h */
    uint64_t losses_ns;                        /* when it was looked at */
    bool ended;
    bool is_cut;      /* at the end nothing more goes out */
    bool is_draining; /* the programs are gone: what they have sent still goes out, for a while */
    int sockets[PIN_EGRESS_SOCKET_COUNT], life; /* as they were handed over; -1: absent */
    int door, listeners[PIN_PUBLISH_MAX];       /* of the one that lets the host in: inward.h */
    struct inward *inward;                      /* NULL: it isn't that one */
};
#define BROKER_BUFFER (1024u * 1024)

/* The rule's number in events. */
int broker_rule_number(const struct broker *broker, const struct pin_egress_rule *rule);
/* What a program inside has dialled: a name by its synthetic address, or an address. False: neither can ever
 * be a destination (loopback, a synthetic address without a name); `to` then holds the address, for the
 * record. */
struct sockaddr_storage;
bool broker_destination(const struct broker *broker, const struct sockaddr_storage *dialled,
                        struct pin_destination *to);
/* An event about a destination; the caller fills in the rest. */
struct pin_egress_event broker_event(const struct broker *broker, enum pin_egress_event_kind kind,
                                     const struct pin_destination *to, const struct pin_verdict *verdict);
void broker_refuse(struct broker *broker, const struct pin_destination *to,
                   const struct pin_verdict *verdict);
