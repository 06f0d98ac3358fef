/* event.h: what the broker tells the supervisor: one record, one datagram.
 *
 * Fixed size, host byte order: both ends come from one build. The supervisor checks a record with
 * pin_egress_event_valid() before it reads more than the kind: the broker reads hostile bytes, so what it
 * says is checked as well. Rules are named by their number in the list that the supervisor has given.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "policy/egress_judge.h"
#include "runtime/egress/usage.h"

#define PIN_EGRESS_NAME_MAX 256

enum pin_egress_event_kind {
    PIN_EGRESS_EVENT_READY = 1, /* the broker is behind its walls and serves */
    PIN_EGRESS_EVENT_NAME,      /* a name was asked for, the first time */
    PIN_EGRESS_EVENT_CONNECT,   /* a connection or flow was made */
    PIN_EGRESS_EVENT_REFUSE,    /* one was refused: `reason` */
    PIN_EGRESS_EVENT_FAIL,      /* it was allowed, and the network said no: `os_errno` */
    PIN_EGRESS_EVENT_CLOSE,     /* a connection or flow has ended */
    PIN_EGRESS_EVENT_REPLACED,  /* new rules are in force */
    PIN_EGRESS_EVENT_FAULT,     /* the broker can't serve: `name` is the step, `os_errno` its cause */
    PIN_EGRESS_EVENT_BYTES,     /* nothing but `passed_out` and `passed_in`; for sums, not for the record */
    PIN_EGRESS_EVENT_COUNT
};
const char *pin_egress_event_name(enum pin_egress_event_kind kind); /* "name", "connect", … */

#define PIN_EGRESS_NO_RULE (-1)

struct pin_egress_event {
    uint32_t kind;
    uint32_t reason;   /* enum pin_egress_reason */
    int32_t os_errno;  /* of FAIL */
    int32_t rule;      /* number in the allow list; deny rules count on from there; or PIN_EGRESS_NO_RULE */
    uint32_t protocol; /* enum pin_protocol */
    uint32_t other_protocol; /* of a refused packet of neither: its number in IP, and 1; else 0 */
    uint32_t port;
    uint64_t repeated;                         /* how many such events this record stands for; 0 is 1 */
    uint64_t bytes_out, bytes_in, duration_ns; /* of CLOSE */
    uint64_t undelivered;           /* of CLOSE: of `bytes_out` and what the program had sent beyond, lost */
    uint64_t passed_out, passed_in; /* of all connections and flows, from the start until this was sent */
    uint64_t id;                    /* the same for CONNECT and CLOSE */
    uint8_t address[16];            /* dialled; zero: none */
    uint32_t name_size;
    char name[PIN_EGRESS_NAME_MAX]; /* canonical or, for a bad one, escaped; '' for a literal address */
};

/* A whole record whose every field can be used without a further look. */
bool pin_egress_event_valid(const struct pin_egress_event *event, size_t size, size_t rule_count);

void pin_egress_usage_add(struct pin_egress_usage *usage, const struct pin_egress_event *event);

/* The smallest change of the policy that would allow what was refused, as JSON for network.egress; false
 * where none would. */
bool pin_egress_event_mend(const struct pin_egress_event *event, char *to, size_t room);
