/* dial.h: from a judged destination to a connected socket.
 *
 * Resolves the name, screens every address that it has, and tries what is left, the next one a quarter of a
 * second after the last or as soon as it fails; the first that connects wins. The address that was screened
 * is the one that is dialled. Source: RFC 8305 5.
 */
#pragma once

#include "runtime/egress/broker/resolver.h"
#include "runtime/egress/ip_packet.h"
#include "runtime/egress/proxy_talk.h"

#define DIAL_ATTEMPTS 3 /* at the same time */

struct attempt {
    struct watch watch;
    struct dial *dial;
    uint8_t address[16];
};

struct dial {
    /* `fd` >= 0: connected to `to->address`, the receiver's now. Otherwise the verdict says why, or
     * `os_errno`. Called once. */
    void (*done)(struct dial *dial, int fd, const struct pin_verdict *verdict, int os_errno);
    struct pin_destination to;
    struct pin_verdict verdict;
    struct broker *broker;
    struct question question;
    struct attempt attempts[DIAL_ATTEMPTS];
    uint8_t candidates[RESOLVER_ADDRESSES_MAX][16];
    struct pin_verdict verdicts[RESOLVER_ADDRESSES_MAX]; /* that opened each */
    size_t count, next;
    uint64_t next_at_ns, deadline_ns;
    bool is_proxied;      /* `candidates` are the proxy's; it resolves the name */
    struct watch talking; /* connected to the proxy, and not yet through it */
    struct pin_proxy_talk talk;
    size_t said;                    /* of talk.send */
    int os_errno;                   /* of the last attempt */
    struct dial *following, **link; /* in broker->dials */
};

/* Does TCP to this destination leave through the proxy? Not to the host's own loopback. */
bool dial_is_proxied(const struct broker *broker, const struct pin_destination *to);
/* May call `done` before it returns. */
void dial_start(struct broker *broker, struct dial *dial);
/* Gives up without calling `done`. */
void dial_cancel(struct dial *dial);
/* Starts what is due, ends what is late; the next time, in ms, at most `limit` (-1: none). */
void dial_tick(struct broker *broker, uint64_t now);
int dial_timeout(const struct broker *broker, uint64_t now, int limit);

/* For UDP as well. Before it is dialled: as pin_egress_judge(), and a literal address is known for one of
 * this host's (`to->is_own`). When `fd` is connected to it: by its address, too, if it has a name. */
struct pin_verdict dial_judge(const struct broker *broker, struct pin_destination *to);
struct pin_verdict dial_judge_open(const struct broker *broker, struct pin_destination *to, int fd);
/* The addresses of `answers` that may be used, in their order; none: `*refused` says why. */
size_t dial_screen(const struct broker *broker, const struct pin_destination *to, uint8_t (*answers)[16],
                   size_t count, uint8_t candidates[][16], struct pin_verdict *verdicts,
                   struct pin_verdict *refused);

/* What became of a connect; 0: it is there. Where nobody listens on a loopback, the kernel may pick the very
 * port that is dialled as the one to dial from, and connect the socket to itself: that is a refusal, too. */
int dial_outcome(int fd);

struct sockaddr_storage;
unsigned dial_sockaddr(struct sockaddr_storage *to, const uint8_t address[16], uint16_t port);
/* The other way round. */
void dial_read_end(const struct sockaddr_storage *from, struct pin_ip_end *end);
/* Does this connection lead from one of the host's own addresses to the same one? The kernel picks such a
 * source for whoever dials its own addresses. */
bool dial_is_at_host(int fd);
