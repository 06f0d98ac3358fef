/* dns.h: the resolver that programs inside see, whatever address they ask at.
 *
 * It answers from the rules alone: an allowed name has its synthetic address, any other doesn't exist. A name
 * is resolved when something is sent to it, so that a question carries no data out; but for HTTPS and SVCB
 * records of allowed names, which only the name's own servers know (dns_service.h).
 */
#pragma once

#include <sys/socket.h>

#include "runtime/egress/broker/broker.h"
#include "runtime/egress/dns_message.h"

/* Who asked, and where. */
struct dns_from {
    struct dns_server *server;
    struct dns_stream *stream; /* NULL: it came as a datagram */
    struct sockaddr_storage client;
    socklen_t client_size;
    size_t control_size;
    _Alignas(struct cmsghdr) char control[128]; /* of the datagram: the address that was asked */
};

/* Takes one message, and answers it with dns_reply(), at once or later. False: the asker is of no more use.
 * Asked at an address that a rule opens for port 53 it would be no question to us: dns_sockets.c hands that
 * on. */
bool dns_take(struct broker *broker, const struct dns_from *from, const uint8_t *message, size_t size);
/* False: the stream is of no more use. */
bool dns_reply(const struct dns_from *from, const uint8_t *answer, size_t size);
void dns_give_up(const struct dns_from *from);

/* Serves the sockets; -1: absent. */
bool dns_serve(struct broker *broker, int udp, int tcp);
