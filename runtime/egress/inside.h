/* inside.h: a sandbox's network namespace, made so that everything which leaves it is met by the broker.
 *
 * Called in the sandbox's set-up child, after its network namespace was made and while it has CAP_NET_ADMIN
 * over it; only system calls, no allocation, no environment. Afterwards `lo` is up, every address of both
 * families is local, and one nftables table decides: loopback stays inside; questions to port 53 of any
 * address reach the broker's DNS sockets; every other TCP connection is held back until the broker has
 * dialled, and then reaches its listener, which sees the address that was dialled; UDP reaches the broker
 * where asked for; the rest is refused at once and reported.
 *
 * The sockets are close-on-exec and must all leave the child (pin_egress_send) before anything untrusted is
 * executed in it. Source: tproxy.txt and nf_tables of the kernel's documentation; docs/egress.md.
 */
#pragma once

#include "base/error.h"

enum pin_egress_socket {
    PIN_EGRESS_TCP,     /* listener; getsockname() of a connection is what was dialled */
    PIN_EGRESS_DNS_UDP, /* IP_PKTINFO: the answer leaves from where it was asked */
    PIN_EGRESS_DNS_TCP, /* listener */
    PIN_EGRESS_REFUSED, /* netlink: packets that were refused */
    PIN_EGRESS_UDP,     /* IP_RECVORIGDSTADDR; absent unless asked for */
    PIN_EGRESS_RAW_V4,  /* by which answers of UDP flows are sent; absent unless asked for */
    PIN_EGRESS_RAW_V6,
    PIN_EGRESS_OPENINGS, /* netlink: connections that are held back until the broker has dialled */
    PIN_EGRESS_OPEN_V4,  /* by which these are answered, or sent again: then they reach the listener */
    PIN_EGRESS_OPEN_V6,
    PIN_EGRESS_SOCKET_COUNT
};

struct pin_egress_plan {
    bool udp;       /* some rule has the protocol udp */
    bool addresses; /* some rule has a cidr, or one may come while the sandbox lives. Without, a connection to
                     * an address that stands for no name is refused by the kernel */
};

struct pin_egress_sockets {
    int fds[PIN_EGRESS_SOCKET_COUNT]; /* -1: absent */
};
/* clang-format off */
#define PIN_EGRESS_SOCKETS_NONE ((struct pin_egress_sockets){.fds = {-1, -1, -1, -1, -1, -1, -1, -1, -1, -1}})
/* clang-format on */
_Static_assert(PIN_EGRESS_SOCKET_COUNT == 10, "each is absent in PIN_EGRESS_SOCKETS_NONE");

/* On failure no socket is left open. */
bool pin_egress_inside(const struct pin_egress_plan *plan, struct pin_egress_sockets *out,
                       struct pin_error *err);

void pin_egress_close(struct pin_egress_sockets *all);

/* One message over a UNIX stream or packet socket, with all sockets; the receiver owns its copies. */
bool pin_egress_send(int channel, const struct pin_egress_sockets *all, struct pin_error *err);
bool pin_egress_receive(int channel, struct pin_egress_sockets *all, struct pin_error *err);
