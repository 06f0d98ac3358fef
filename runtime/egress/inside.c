#include "runtime/egress/inside.h"

#include <arpa/inet.h>
#include <errno.h>
#include <net/if.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <string.h>
#include <sys/socket.h>

#include <linux/if_link.h>
#include <linux/in6.h>
#include <linux/netfilter/nfnetlink.h>
#include <linux/netfilter/nfnetlink_log.h>
#include <linux/netlink.h>
#include <linux/rtnetlink.h>

#include "base/cleanup.h"
#include "runtime/egress/inside_table.h"

#define LOOPBACK_INDEX 1 /* of every new network namespace */
#define BACKLOG 4096
#define REPORT_BYTES 128 /* of a packet: its headers */
#define REPORT_ROOM 512  /* for it and what the kernel says of it: so that many wait without being lost */
#define ATTRIBUTE_GSO_IPV4_MAX_SIZE 63 /* IFLA_GSO_IPV4_MAX_SIZE, which older headers lack */
#define CONGESTION "reno" /* nothing is lost on a loopback; the host's own may pace what it sends (BBR) */
#define SEGMENT_BYTES (256u * 1024)

static bool talk_routes(const struct pin_netlink *batch, unsigned answers, const char *what,
                        struct pin_error *err) {
    PIN_CLOSE int fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_ROUTE);
    if (fd < 0)
        return pin_fail_errno(err, "%s", what);
    return pin_netlink_talk(fd, batch, answers, what, err);
}

static void put_local_route(struct pin_netlink *batch, unsigned char family) {
    struct rtmsg route = {
        .rtm_family = family,
        .rtm_table = RT_TABLE_MAIN,
        .rtm_protocol = RTPROT_BOOT,
        .rtm_scope = RT_SCOPE_HOST,
        .rtm_type = RTN_LOCAL,
    };
    uint32_t loopback = LOOPBACK_INDEX;
    pin_netlink_begin(batch, RTM_NEWROUTE, NLM_F_CREATE | NLM_F_REPLACE | NLM_F_ACK, &route, sizeof(route));
    pin_netlink_put(batch, RTA_OIF, &loopback, sizeof(loopback));
    size_t metrics = pin_netlink_open(batch, RTA_METRICS);
    pin_netlink_put_text(batch, RTAX_CC_ALGO, CONGESTION);
    pin_netlink_close(batch, metrics);
}

static bool raise_loopback(struct pin_error *err) {
    struct pin_netlink batch = {.sequence = 0};
    struct ifinfomsg link = {
        .ifi_family = AF_UNSPEC, .ifi_index = LOOPBACK_INDEX, .ifi_flags = IFF_UP, .ifi_change = IFF_UP};
    pin_netlink_begin(&batch, RTM_NEWLINK, NLM_F_ACK, &link, sizeof(link));
    put_local_route(&batch, AF_INET);
    return talk_routes(&batch, 2, "raise the sandbox's loopback", err);
}

/* A host without IPv6, or with IPv6 off, has no such route: then nothing of IPv6 leaves at all. */
static void route_v6(void) {
    struct pin_netlink batch = {.sequence = 0};
    struct pin_error unused = {.kind = PIN_ERROR_NONE};
    put_local_route(&batch, AF_INET6);
    (void)talk_routes(&batch, 1, "route IPv6", &unused);
}

/* Segments of more than 64 KiB halve what a transfer costs on a loopback: fewer packets, fewer wake-ups.
 * Before Linux 5.19 (IPv6) and 6.3 (IPv4) they stay as they are. */
static void widen_segments(void) {
    struct pin_netlink batch = {.sequence = 0};
    struct pin_error unused = {.kind = PIN_ERROR_NONE};
    struct ifinfomsg link = {.ifi_family = AF_UNSPEC, .ifi_index = LOOPBACK_INDEX};
    uint32_t size = SEGMENT_BYTES;
    pin_netlink_begin(&batch, RTM_NEWLINK, NLM_F_ACK, &link, sizeof(link));
    pin_netlink_put(&batch, IFLA_GSO_MAX_SIZE, &size, sizeof(size));
    pin_netlink_put(&batch, ATTRIBUTE_GSO_IPV4_MAX_SIZE, &size, sizeof(size));
    (void)talk_routes(&batch, 1, "widen the loopback's segments", &unused);
}

static bool set(int fd, int level, int option, int value) {
    return setsockopt(fd, level, option, &value, sizeof(value)) == 0;
}

/* A socket of both families where the host has IPv6, of IPv4 alone where it hasn't. */
static int open_dual(int type, bool *six) {
    int fd = socket(AF_INET6, type | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    *six = fd >= 0;
    if (fd < 0 && errno == EAFNOSUPPORT)
        return socket(AF_INET, type | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd >= 0 && !set(fd, IPPROTO_IPV6, IPV6_V6ONLY, 0))
        pin_close_fd(&fd);
    return fd;
}

static bool bind_any(int fd, bool six, uint16_t port) {
    struct sockaddr_in6 any6 = {.sin6_family = AF_INET6, .sin6_port = htons(port)};
    struct sockaddr_in any4 = {.sin_family = AF_INET, .sin_port = htons(port)};
    return six ? bind(fd, (const struct sockaddr *)&any6, sizeof(any6)) == 0
               : bind(fd, (const struct sockaddr *)&any4, sizeof(any4)) == 0;
}

static bool be_transparent(int fd, bool six) {
    return set(fd, IPPROTO_IP, IP_TRANSPARENT, 1) && (!six || set(fd, IPPROTO_IPV6, IPV6_TRANSPARENT, 1));
}

static bool say_where_asked(int fd, bool six) {
    return six ? set(fd, IPPROTO_IPV6, IPV6_RECVPKTINFO, 1) && set(fd, IPPROTO_IPV6, IPV6_FREEBIND, 1)
               : set(fd, IPPROTO_IP, IP_PKTINFO, 1);
}

static bool say_where_sent(int fd, bool six) {
    return set(fd, IPPROTO_IP, IP_RECVORIGDSTADDR, 1) &&
           (!six || set(fd, IPPROTO_IPV6, IPV6_RECVORIGDSTADDR, 1));
}

static int open_listener(uint16_t port, bool transparent) {
    bool six;
    PIN_CLOSE int fd = open_dual(SOCK_STREAM, &six);
    bool made = fd >= 0 && set(fd, SOL_SOCKET, SO_MARK, (int)PIN_EGRESS_MARK) &&
                (!transparent || be_transparent(fd, six)) && bind_any(fd, six, port) &&
                set(fd, IPPROTO_TCP, TCP_NODELAY, 1) &&
                listen(fd, BACKLOG) == 0; /* what it accepts inherits it */
    return made ? pin_steal_fd(&fd) : -1;
}

static int open_tcp(void) {
    return open_listener(PIN_EGRESS_PORT, true);
}

static int open_dns_tcp(void) {
    return open_listener(PIN_EGRESS_DNS_PORT, false);
}

static int open_dns_udp(void) {
    bool six;
    PIN_CLOSE int fd = open_dual(SOCK_DGRAM, &six);
    bool made = fd >= 0 && set(fd, SOL_SOCKET, SO_MARK, (int)PIN_EGRESS_MARK) && say_where_asked(fd, six) &&
                bind_any(fd, six, PIN_EGRESS_DNS_PORT);
    return made ? pin_steal_fd(&fd) : -1;
}

static int open_udp(void) {
    bool six;
    PIN_CLOSE int fd = open_dual(SOCK_DGRAM, &six);
    bool made =
        fd >= 0 && be_transparent(fd, six) && say_where_sent(fd, six) && bind_any(fd, six, PIN_EGRESS_PORT);
    return made ? pin_steal_fd(&fd) : -1;
}

static int open_raw(int family, uint32_t mark) {
    PIN_CLOSE int fd = socket(family, SOCK_RAW | SOCK_CLOEXEC | SOCK_NONBLOCK, IPPROTO_RAW);
    bool made = fd >= 0 && set(fd, SOL_SOCKET, SO_MARK, (int)mark);
    return made ? pin_steal_fd(&fd) : -1;
}

static int open_raw_v4(void) {
    return open_raw(AF_INET, PIN_EGRESS_MARK);
}

static int open_raw_v6(void) {
    return open_raw(AF_INET6, PIN_EGRESS_MARK);
}

static int open_again_v4(void) {
    return open_raw(AF_INET, PIN_EGRESS_OPEN_MARK);
}

static int open_again_v6(void) {
    return open_raw(AF_INET6, PIN_EGRESS_OPEN_MARK);
}

static int open_netfilter(void) {
    return socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_NETFILTER);
}

static const struct {
    int (*open)(void);
    bool udp_only, may_miss;
    const char *what;
} sockets[PIN_EGRESS_SOCKET_COUNT] = {
    [PIN_EGRESS_TCP] = {open_tcp,       false, false, "open the egress listener"     },
    [PIN_EGRESS_DNS_UDP] = {open_dns_udp,   false, false, "open the DNS socket"          },
    [PIN_EGRESS_DNS_TCP] = {open_dns_tcp,   false, false, "open the DNS listener"        },
    [PIN_EGRESS_REFUSED] = {open_netfilter, false, false, "open the netfilter socket"    },
    [PIN_EGRESS_UDP] = {open_udp,       true,  false, "open the egress UDP socket"   },
    [PIN_EGRESS_RAW_V4] = {open_raw_v4,    true,  false, "open the egress raw socket"   },
    [PIN_EGRESS_RAW_V6] = {open_raw_v6,    true,  true,  "open the egress raw socket"   },
    [PIN_EGRESS_OPENINGS] = {open_netfilter, false, false, "open the openings' socket"    },
    [PIN_EGRESS_OPEN_V4] = {open_again_v4,  false, false, "open the openings' raw socket"},
    [PIN_EGRESS_OPEN_V6] = {open_again_v6,  false, true,  "open the openings' raw socket"},
};

static bool open_sockets(const struct pin_egress_plan *plan, struct pin_egress_sockets *out,
                         struct pin_error *err) {
    for (int i = 0; i < PIN_EGRESS_SOCKET_COUNT; i++) {
        if (sockets[i].udp_only && !plan->udp)
            continue;
        out->fds[i] = sockets[i].open();
        if (out->fds[i] < 0 && !sockets[i].may_miss)
            return pin_fail_errno(err, "%s", sockets[i].what);
    }
    return true;
}

static bool load_table(int netfilter, const struct pin_egress_plan *plan, struct pin_error *err) {
    struct pin_netlink batch = {.sequence = 0};
    pin_egress_table(&batch, plan);
    if (pin_netlink_talk(netfilter, &batch, 1, "load the sandbox's nftables table", err))
        return true;
    if (err->os_errno == ENOENT || err->os_errno == EOPNOTSUPP)
        err->kind = PIN_ERROR_UNSUPPORTED;
    return pin_hint(err,
                    "egress needs the kernel's nft_tproxy, nft_reject_inet, nft_limit and nfnetlink_log");
}

static bool listen_for(int netfilter, uint16_t group, struct pin_error *err) {
    struct pin_netlink batch = {.sequence = 1000};
    struct nfgenmsg header = {.version = NFNETLINK_V0, .res_id = htons(group)};
    struct nfulnl_msg_config_cmd bind_group = {.command = NFULNL_CFG_CMD_BIND};
    struct nfulnl_msg_config_mode mode = {.copy_range = htonl(REPORT_BYTES), .copy_mode = NFULNL_COPY_PACKET};
    pin_netlink_begin(&batch, NFNL_SUBSYS_ULOG << 8 | NFULNL_MSG_CONFIG, NLM_F_ACK, &header, sizeof(header));
    pin_netlink_put(&batch, NFULA_CFG_CMD, &bind_group, sizeof(bind_group));
    pin_netlink_put(&batch, NFULA_CFG_MODE, &mode, sizeof(mode));
    pin_netlink_put_be32(&batch, NFULA_CFG_NLBUFSIZ, REPORT_ROOM);
    pin_netlink_put_be32(&batch, NFULA_CFG_QTHRESH, 1);
    return pin_netlink_talk(netfilter, &batch, 1, "ask for packets", err);
}

bool pin_egress_inside(const struct pin_egress_plan *plan, struct pin_egress_sockets *out,
                       struct pin_error *err) {
    struct pin_egress_sockets made = PIN_EGRESS_SOCKETS_NONE;
    bool ready = raise_loopback(err);
    if (ready) {
        route_v6();
        widen_segments();
        ready = open_sockets(plan, &made, err) && load_table(made.fds[PIN_EGRESS_REFUSED], plan, err) &&
                listen_for(made.fds[PIN_EGRESS_REFUSED], PIN_EGRESS_LOG_GROUP, err) &&
                listen_for(made.fds[PIN_EGRESS_OPENINGS], PIN_EGRESS_OPEN_GROUP, err);
    }
    if (!ready) {
        pin_egress_close(&made);
        return false;
    }
    *out = made;
    return true;
}

void pin_egress_close(struct pin_egress_sockets *all) {
    for (int i = 0; i < PIN_EGRESS_SOCKET_COUNT; i++)
        pin_close_fd(&all->fds[i]);
}

/* The message: a bit for each socket that is there. */
bool pin_egress_send(int channel, const struct pin_egress_sockets *all, struct pin_error *err) {
    _Alignas(struct cmsghdr) char control[CMSG_SPACE(sizeof(int) * PIN_EGRESS_SOCKET_COUNT)] = {0};
    uint16_t present = 0;
    int fds[PIN_EGRESS_SOCKET_COUNT];
    size_t count = 0;
    for (unsigned i = 0; i < PIN_EGRESS_SOCKET_COUNT; i++)
        if (all->fds[i] >= 0) {
            present = (uint16_t)(present | 1u << i);
            fds[count++] = all->fds[i];
        }
    struct iovec data = {&present, sizeof(present)};
    struct msghdr message = {.msg_iov = &data,
                             .msg_iovlen = 1,
                             .msg_control = control,
                             .msg_controllen = CMSG_SPACE(sizeof(int) * count)};
    struct cmsghdr *header = CMSG_FIRSTHDR(&message);
    header->cmsg_level = SOL_SOCKET;
    header->cmsg_type = SCM_RIGHTS;
    header->cmsg_len = CMSG_LEN(sizeof(int) * count);
    memcpy(CMSG_DATA(header), fds, sizeof(int) * count);
    if (sendmsg(channel, &message, MSG_NOSIGNAL) != sizeof(present))
        return pin_fail_errno(err, "send the egress sockets");
    return true;
}

static size_t received_fds(struct msghdr *message, int fds[PIN_EGRESS_SOCKET_COUNT]) {
    size_t count = 0;
    for (struct cmsghdr *header = CMSG_FIRSTHDR(message); header != NULL;
         header = CMSG_NXTHDR(message, header)) {
        if (header->cmsg_level != SOL_SOCKET || header->cmsg_type != SCM_RIGHTS)
            continue;
        count = (header->cmsg_len - CMSG_LEN(0)) / sizeof(int); /* the control buffer bounds it */
        memcpy(fds, CMSG_DATA(header), count * sizeof(int));
    }
    return count;
}

bool pin_egress_receive(int channel, struct pin_egress_sockets *all, struct pin_error *err) {
    _Alignas(struct cmsghdr) char control[CMSG_SPACE(sizeof(int) * PIN_EGRESS_SOCKET_COUNT)];
    uint16_t present = 0;
    struct pin_egress_sockets came = PIN_EGRESS_SOCKETS_NONE, received = PIN_EGRESS_SOCKETS_NONE;
    struct iovec data = {&present, sizeof(present)};
    struct msghdr message = {
        .msg_iov = &data, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof(control)};
    ssize_t size = recvmsg(channel, &message, MSG_CMSG_CLOEXEC);
    if (size < 0)
        return pin_fail_errno(err, "receive the egress sockets");
    size_t count = received_fds(&message, came.fds), used = 0;
    bool whole = size == sizeof(present) && (message.msg_flags & MSG_CTRUNC) == 0 &&
                 (size_t)__builtin_popcount(present) == count && present < 1u << PIN_EGRESS_SOCKET_COUNT;
    for (unsigned i = 0; whole && i < PIN_EGRESS_SOCKET_COUNT; i++)
        if ((present & 1u << i) != 0)
            received.fds[i] = came.fds[used++];
    if (whole) {
        *all = received;
        return true;
    }
    pin_egress_close(&came);
    return pin_fail(err, PIN_ERROR_INTERNAL, "the egress sockets didn't arrive whole");
}
