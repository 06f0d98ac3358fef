/* resolver.h: the addresses of a name, as the host sees them: its hosts file, then its resolvers.
 *
 * Both files are read before the broker locks itself in; afterwards there are only questions over the
 * network, by c-ares. An answer may come before resolver_ask() returns. Addresses come in the order of
 * preference of RFC 6724, unscreened. A name is asked for once at a time: who asks meanwhile gets that
 * answer.
 */
#pragma once

#include "runtime/egress/broker/broker.h"

#define RESOLVER_ADDRESSES_MAX 16

struct question {
    /* `count` 0: the name has no address, or nobody answered (`os_errno`: EAI-like, never 0 then) */
    void (*answered)(struct question *question, uint8_t (*addresses)[16], size_t count, int os_errno);
    struct question *following, **link; /* among those that wait for the same answer; NULL: none is awaited */
};

/* `resolv_conf` NULL: the host's. */
bool resolver_open(struct broker *broker, const char *resolv_conf, struct pin_error *err);
void resolver_ask(struct resolver *resolver, const char *name, struct question *question);
/* For records of another type: `answered` is called once, perhaps before this returns, with the whole answer;
 * NULL: none came. */
void resolver_ask_type(struct resolver *resolver, const char *name, uint16_t type,
                       void (*answered)(void *data, const uint8_t *message, size_t size), void *data);
/* The name is in the hosts file, or is the host's own: nobody is asked for it. */
bool resolver_has_own(const struct resolver *resolver, const char *name);
/* The answer isn't wanted any more. */
void resolver_forget(struct question *question);
/* For the loop: when c-ares wants to be called, in ms, at most `limit` (-1: none); and the call. */
int resolver_timeout(struct resolver *resolver, int limit);
void resolver_tick(struct resolver *resolver);
