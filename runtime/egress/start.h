/* start.h: starting a sandbox's broker, talking to it, and what it finds when it starts.
 *
 * The supervisor's side. The broker is pinfold-broker in libexec, one per sandbox; it ends when its control
 * socket is closed, or, beneath an engine that keeps no such socket, when the process of `life` ends. The
 * network of the sandbox closes with it: nobody answers the sockets any more.
 */
#pragma once

#include <sys/types.h>

#include "base/units.h"
#include "policy/publish.h"
#include "runtime/egress/event.h"
#include "runtime/egress/inside.h"
#include "runtime/egress/rules_blob.h"
#include "runtime/egress/status.h"

/* Where the broker finds its descriptors. */
enum pin_broker_fd {
    PIN_BROKER_CONTROL_FD = 3, /* SOCK_SEQPACKET: events out, requests in */
    PIN_BROKER_RULES_FD = 4,
    PIN_BROKER_SOCKET_FD = 5, /* + enum pin_egress_socket; an absent one isn't open */
    PIN_BROKER_LIFE_FD = PIN_BROKER_SOCKET_FD + PIN_EGRESS_SOCKET_COUNT, /* a pidfd, or not open */
    PIN_BROKER_DOOR_FD,     /* a socket made inside: this broker lets the host in, and nothing out */
    PIN_BROKER_LISTENER_FD, /* + the number of a rule: where the host connects to its port */
    PIN_BROKER_FD_END = PIN_BROKER_LISTENER_FD + PIN_PUBLISH_MAX,
};

/* A request to the broker: one byte. */
enum pin_broker_request {
    PIN_BROKER_STATUS = 'S',  /* with one descriptor: a stream to write struct pin_egress_status to */
    PIN_BROKER_REPLACE = 'R', /* with one descriptor: new rules; connections that they forbid are cut */
    PIN_BROKER_SETTLE = 'E',  /* with one descriptor, closed when all events so far are sent */
    PIN_BROKER_END = 'D',     /* without one: the sandbox is gone, and what is on its way still goes out */
    PIN_BROKER_CUT = 'C',     /* without one: what is on its way at the end is dropped */
};

struct pin_broker_options {
    const char *program;     /* path of pinfold-broker */
    const char *resolv_conf; /* another resolv.conf(5); NULL: the host's */
    const struct pin_egress_setup *setup;
    int life; /* pidfd; -1: the control socket's end is the sandbox's end */
    int door; /* -1: the sandbox's sockets are served; else a socket made inside, and `listeners` are */
    const int *listeners; /* as many as there are rules; borrowed */
};

struct pin_broker {
    pid_t pid;
    int pidfd, control; /* `control` is non-blocking and becomes readable when an event is there */
};

/* The sockets are the broker's from now on: closed here whether it starts or not. The caller reaps the
 * process and closes both descriptors. */
bool pin_broker_start(const struct pin_broker_options *options, struct pin_egress_sockets *sockets,
                      struct pin_broker *broker, struct pin_error *err);

enum pin_broker_news { PIN_BROKER_EVENT, PIN_BROKER_NOTHING, PIN_BROKER_GONE };
/* The next event, checked; GONE when the broker is no longer there or sends what can't be right. */
enum pin_broker_news pin_broker_next(const struct pin_broker *broker, size_t rule_count,
                                     struct pin_egress_event *event);

/* Asks, and waits a moment for the answer; at most PIN_EGRESS_STATUS_MAX records. */
bool pin_broker_status(const struct pin_broker *broker, size_t rule_count, struct pin_egress_status *list,
                       size_t *count, struct pin_error *err);

/* What is on its way at the end is passed on for so long; an hour is the most that a policy can say. */
static inline uint64_t pin_broker_drain_ns(const struct pin_egress_limits *limits) {
    const uint64_t most = 3600 * PIN_NS_PER_S;
    return limits->drain_ns < most ? limits->drain_ns : most;
}

/* The sandbox is gone: the broker tells of the end of everything, and ends. A second call, without `drains`,
 * cuts short what the first one began. */
void pin_broker_end(const struct pin_broker *broker, bool drains);

/* Waits a moment until the broker has told what has happened by now, instead of folding it with what comes.
 */
void pin_broker_settle(const struct pin_broker *broker);

bool pin_broker_replace(const struct pin_broker *broker, const struct pin_egress_setup *setup,
                        struct pin_error *err);
