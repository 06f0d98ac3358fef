#include "policy/syscalls_guard.h"

#include <fcntl.h>
#include <sched.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/personality.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/shm.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include <asm/termbits.h>
#include <linux/fiemap.h>
#include <linux/fs.h>
#include <linux/netlink.h>
#include <linux/sched.h>
#include <linux/seccomp.h>
#include <linux/sockios.h>
#include <netinet/in.h>
#include <netinet/tcp.h>

#include "base/names.h"

#define BITS(at, bits, is)                                                                                   \
    { .index = (at), .op = PIN_FILTER_MASKED_EQ, .mask = (bits), .value = (is) }
#define IS(at, is) BITS(at, UINT32_MAX, (uint32_t)(is))
#define NO_POINTER(at)                                                                                       \
    { .index = (at), .op = PIN_FILTER_EQ }
#define SOME_POINTER(at)                                                                                     \
    { .index = (at), .op = PIN_FILTER_NE }
#define CASE1(a)                                                                                             \
    {                                                                                                        \
        1, {                                                                                                 \
            a                                                                                                \
        }                                                                                                    \
    }
#define CASE2(a, b)                                                                                          \
    {                                                                                                        \
        2, {                                                                                                 \
            a, b                                                                                             \
        }                                                                                                    \
    }
#define CASE3(a, b, c)                                                                                       \
    {                                                                                                        \
        3, {                                                                                                 \
            a, b, c                                                                                          \
        }                                                                                                    \
    }

/* S_ISUID | S_ISGID */
#define SET_ID 06000
#define CLEAN_MODE(at) CASE1(BITS(at, SET_ID, 0))
/* Without either of these, open(2) doesn't look at the mode, and the register holds anything. */
#define CREATES (O_CREAT | (O_TMPFILE & ~O_DIRECTORY))
#define KIND 0xf /* SOCK_TYPE_MASK of linux/net.h: what is left of a type without its flags */
#define NEW_NAMESPACE                                                                                        \
    (CLONE_NEWNS | CLONE_NEWCGROUP | CLONE_NEWUTS | CLONE_NEWIPC | CLONE_NEWUSER | CLONE_NEWPID |            \
     CLONE_NEWNET | CLONE_NEWTIME)
#define NODE(at, type) CASE1(BITS(at, S_IFMT | SET_ID, type))

static const struct pin_guard_case clone_cases[] = {CASE1(BITS(0, NEW_NAMESPACE, 0))};
static const struct pin_guard_case mode_1[] = {CLEAN_MODE(1)};
static const struct pin_guard_case mode_2[] = {CLEAN_MODE(2)};
static const struct pin_guard_case open_cases[] = {CASE1(BITS(1, CREATES, 0)), CLEAN_MODE(2)};
static const struct pin_guard_case openat_cases[] = {CASE1(BITS(2, CREATES, 0)), CLEAN_MODE(3)};
static const struct pin_guard_case mknod_cases[] = {NODE(1, 0), NODE(1, S_IFIFO), NODE(1, S_IFREG),
                                                    NODE(1, S_IFSOCK)};
static const struct pin_guard_case mknodat_cases[] = {NODE(2, 0), NODE(2, S_IFIFO), NODE(2, S_IFREG),
                                                      NODE(2, S_IFSOCK)};

#define SOCKET(family, type, protocol) CASE3(IS(0, family), BITS(1, KIND, type), IS(2, protocol))
/* Both families, which differ in one bit: half as many rules. */
_Static_assert((AF_INET ^ AF_INET6) == 8, "one bit");
#define SOCKET_INET(type, protocol)                                                                          \
    CASE3(BITS(0, UINT32_MAX ^ 8, AF_INET & AF_INET6), BITS(1, KIND, type), IS(2, protocol))
static const struct pin_guard_case socket_cases[] = {
    SOCKET(AF_UNIX, SOCK_STREAM, 0),
    SOCKET(AF_UNIX, SOCK_DGRAM, 0),
    SOCKET(AF_UNIX, SOCK_SEQPACKET, 0),
    SOCKET_INET(SOCK_STREAM, 0),
    SOCKET_INET(SOCK_STREAM, IPPROTO_TCP),
    SOCKET_INET(SOCK_DGRAM, 0),
    SOCKET_INET(SOCK_DGRAM, IPPROTO_UDP),
    SOCKET(AF_NETLINK, SOCK_DGRAM, NETLINK_ROUTE), /* getaddrinfo and getifaddrs ask it */
    SOCKET(AF_NETLINK, SOCK_RAW, NETLINK_ROUTE),
};
static const struct pin_guard_case socketpair_cases[] = {
    SOCKET(AF_UNIX, SOCK_STREAM, 0),
    SOCKET(AF_UNIX, SOCK_DGRAM, 0),
    SOCKET(AF_UNIX, SOCK_SEQPACKET, 0),
};
static const struct pin_guard_case oci_socket_cases[] = {
    CASE1(IS(0, AF_UNIX)),    CASE1(IS(0, AF_INET)),   CASE1(IS(0, AF_INET6)),
    CASE1(IS(0, AF_NETLINK)), CASE1(IS(0, AF_PACKET)),
};

/* The first of 1, 2, 4, 8 or 16 options that follow each other; a number stands for a name that not every C
 * library has. Among them are some that can only be asked for, or need a capability. */
#define SETS(level, count, first) CASE2(IS(1, level), BITS(2, UINT32_MAX - ((count)-1), first))
static const struct pin_guard_case setsockopt_cases[] = {
    SETS(IPPROTO_IP, 8, IP_PKTINFO),      /* to IP_FREEBIND */
    SETS(IPPROTO_IP, 4, 0),               /* IP_TOS, IP_TTL */
    SETS(IPPROTO_IP, 2, IP_MULTICAST_IF), /* and IP_MULTICAST_TTL */
    SETS(IPPROTO_IP, 1, 24),              /* IP_BIND_ADDRESS_NO_PORT */
    SETS(IPPROTO_IP, 1, IP_MULTICAST_LOOP),
    SETS(IPPROTO_IP, 1, IP_MULTICAST_ALL), /* Java sets it on each datagram socket */
    SETS(SOL_SOCKET, 16, 0),               /* to SO_REUSEPORT */
    SETS(SOL_SOCKET, 8, SO_PASSCRED),      /* to SO_SNDTIMEO */
    SETS(SOL_SOCKET, 8, 32),               /* to 39: SO_PASSSEC, SO_TIMESTAMPNS, SO_TIMESTAMPING */
    SETS(SOL_SOCKET, 4, 28),               /* to 31: SO_TIMESTAMP */
    SETS(SOL_SOCKET, 4, 40),               /* to 43: SO_RXQ_OVFL, SO_PEEK_OFF */
    SETS(SOL_SOCKET, 2, SO_BUSY_POLL),     /* and SO_MAX_PACING_RATE */
    SETS(SOL_SOCKET, 2, 60),               /* SO_ZEROCOPY and SO_TXTIME */
    SETS(SOL_SOCKET, 1, SO_BINDTODEVICE),
    SETS(IPPROTO_TCP, 8, 0),            /* to TCP_SYNCNT */
    SETS(IPPROTO_TCP, 4, TCP_LINGER2),  /* to TCP_INFO */
    SETS(IPPROTO_TCP, 2, TCP_QUICKACK), /* and TCP_CONGESTION */
    SETS(IPPROTO_TCP, 2, 24),           /* TCP_TIMESTAMP and TCP_NOTSENT_LOWAT */
    SETS(IPPROTO_TCP, 1, TCP_USER_TIMEOUT),
    SETS(IPPROTO_TCP, 1, TCP_FASTOPEN),
    SETS(IPPROTO_TCP, 1, 30),                 /* TCP_FASTOPEN_CONNECT */
    SETS(IPPROTO_UDP, 1, 1),                  /* UDP_CORK */
    SETS(IPPROTO_UDP, 1, 103),                /* UDP_SEGMENT */
    SETS(IPPROTO_UDP, 1, 104),                /* UDP_GRO */
    SETS(IPPROTO_IPV6, 4, IPV6_UNICAST_HOPS), /* and the multicasts' interface, hops and loop */
    SETS(IPPROTO_IPV6, 2, IPV6_MTU),          /* and IPV6_RECVERR */
    SETS(IPPROTO_IPV6, 2, IPV6_RECVTCLASS),   /* and IPV6_TCLASS */
    SETS(IPPROTO_IPV6, 1, IPV6_MTU_DISCOVER),
    SETS(IPPROTO_IPV6, 1, IPV6_V6ONLY),
    SETS(IPPROTO_IPV6, 1, 29), /* IPV6_MULTICAST_ALL */
    SETS(IPPROTO_IPV6, 1, IPV6_RECVPKTINFO),
    SETS(IPPROTO_IPV6, 1, IPV6_DONTFRAG),
    SETS(SOL_NETLINK, 16, 0), /* what ip, ss and libnl set */
};

#define COMMAND(is) CASE1(IS(1, is))
static const struct pin_guard_case ioctl_cases[] = {
    COMMAND(TCGETS),        COMMAND(TCSETS),         COMMAND(TCSETSW),         COMMAND(TCSETSF),
    COMMAND(TCGETA),        COMMAND(TCSBRK),         COMMAND(TCXONC),          COMMAND(TCFLSH),
    COMMAND(TIOCSCTTY),     COMMAND(TIOCGPGRP),      COMMAND(TIOCSPGRP),       COMMAND(TIOCOUTQ),
    COMMAND(TIOCGWINSZ),    COMMAND(TIOCSWINSZ),     COMMAND(FIONREAD),        COMMAND(TIOCPKT),
    COMMAND(FIONBIO),       COMMAND(TIOCNOTTY),      COMMAND(TCSBRKP),         COMMAND(TIOCGSID),
    COMMAND(TIOCGPTPEER),   COMMAND(FIONCLEX),       COMMAND(FIOCLEX),         COMMAND(FIOASYNC),
    COMMAND(SIOCATMARK),    COMMAND(SIOCGIFNAME),    COMMAND(SIOCGIFCONF),     COMMAND(SIOCGIFFLAGS),
    COMMAND(SIOCGIFADDR),   COMMAND(SIOCGIFBRDADDR), COMMAND(SIOCGIFNETMASK),  COMMAND(SIOCGIFMTU),
    COMMAND(SIOCGIFHWADDR), COMMAND(SIOCGIFINDEX),   COMMAND(TIOCSPTLCK),      COMMAND(FICLONE),
    COMMAND(FICLONERANGE),  COMMAND(TCSETS2),        COMMAND(TCSETSW2),        COMMAND(TCSETSF2),
    COMMAND(TIOCGPTN),      COMMAND(TIOCGPTLCK),     COMMAND(FS_IOC_GETFLAGS), COMMAND(TCGETS2),
    COMMAND(FS_IOC_FIEMAP),
};
static const struct pin_guard_case oci_ioctl_cases[] = {COMMAND(TIOCSTI), COMMAND(TIOCLINUX),
                                                        COMMAND(TIOCSETD)};

/* The first of 2, 4 or 8 commands that follow each other. */
#define COMMANDS(count, first) CASE1(BITS(1, UINT32_MAX - ((count)-1), first))
static const struct pin_guard_case fcntl_cases[] = {
    COMMANDS(8, F_DUPFD),  /* to F_SETLKW */
    COMMANDS(4, F_SETOWN), /* to F_GETSIG */
    COMMAND(F_SETOWN_EX),
    COMMAND(F_GETOWN_EX),
    COMMANDS(2, F_OFD_GETLK),
    COMMAND(F_OFD_SETLKW),
    COMMAND(F_GETLEASE),
    COMMAND(F_GETLEASE + 2),          /* F_DUPFD_QUERY */
    COMMANDS(4, F_DUPFD_CLOEXEC - 2), /* F_CREATED_QUERY to F_SETPIPE_SZ */
    COMMANDS(4, F_GETPIPE_SZ),        /* and seals, to F_GET_RW_HINT */
    COMMANDS(2, F_SET_RW_HINT),
    COMMAND(F_SET_FILE_RW_HINT),
};

#define OPTION(is) CASE1(IS(0, is))
static const struct pin_guard_case prctl_cases[] = {
    OPTION(PR_SET_PDEATHSIG),    OPTION(PR_GET_PDEATHSIG),       OPTION(PR_GET_DUMPABLE),
    OPTION(PR_SET_DUMPABLE),     OPTION(PR_GET_KEEPCAPS),        OPTION(PR_SET_NAME),
    OPTION(PR_GET_NAME),         OPTION(PR_GET_SECCOMP),         OPTION(PR_CAPBSET_READ),
    OPTION(PR_GET_TSC),          OPTION(PR_GET_SECUREBITS),      OPTION(PR_SET_TIMERSLACK),
    OPTION(PR_GET_TIMERSLACK),   OPTION(PR_SET_CHILD_SUBREAPER), OPTION(PR_GET_CHILD_SUBREAPER),
    OPTION(PR_SET_NO_NEW_PRIVS), OPTION(PR_GET_NO_NEW_PRIVS),    OPTION(PR_GET_TID_ADDRESS),
    OPTION(PR_SET_THP_DISABLE),  OPTION(PR_GET_THP_DISABLE),     OPTION(PR_GET_SPECULATION_CTRL),
};
static const struct pin_guard_case personality_cases[] = {CASE1(IS(0, PER_LINUX)), CASE1(IS(0, UINT32_MAX))};
static const struct pin_guard_case oci_personality_cases[] = {
    CASE1(IS(0, PER_LINUX)),  CASE1(IS(0, PER_LINUX32)),
    CASE1(IS(0, UNAME26)),    CASE1(IS(0, PER_LINUX32 | UNAME26)),
    CASE1(IS(0, UINT32_MAX)),
};
/* All but RLIMIT_CORE: at its limit of 1 the kernel runs no program of the host's for a dump, and at 0 it
 * does. */
static const struct pin_guard_case prlimit_cases[] = {
    CASE2(IS(0, 0), BITS(1, UINT32_MAX - 3, RLIMIT_CPU)), /* to RLIMIT_STACK */
    CASE2(IS(0, 0), IS(1, RLIMIT_RSS)),
    CASE2(IS(0, 0), BITS(1, UINT32_MAX - 1, RLIMIT_NPROC)),   /* and RLIMIT_NOFILE */
    CASE2(IS(0, 0), BITS(1, UINT32_MAX - 7, RLIMIT_MEMLOCK)), /* to RLIMIT_RTTIME, the last one */
    CASE2(IS(0, 0), NO_POINTER(2)),
};
static const struct pin_guard_case prlimit_idle[] = {CASE3(IS(0, 0), IS(1, RLIMIT_CORE), SOME_POINTER(2))};
static const struct pin_guard_case setrlimit_cases[] = {
    CASE1(BITS(0, UINT32_MAX - 3, RLIMIT_CPU)),
    CASE1(IS(0, RLIMIT_RSS)),
    CASE1(BITS(0, UINT32_MAX - 1, RLIMIT_NPROC)),
    CASE1(BITS(0, UINT32_MAX - 7, RLIMIT_MEMLOCK)),
};
static const struct pin_guard_case setrlimit_idle[] = {CASE1(IS(0, RLIMIT_CORE))};
/* Huge pages are the host's pool, set aside for somebody, and no memory limit counts them. */
static const struct pin_guard_case mmap_cases[] = {CASE1(BITS(3, MAP_HUGETLB, 0))};
static const struct pin_guard_case memfd_cases[] = {CASE1(BITS(1, MFD_HUGETLB, 0))};
static const struct pin_guard_case shmget_cases[] = {CASE1(BITS(2, SHM_HUGETLB, 0))};
/* A listener keeps its filters when their process is gone: then neither the number of processes bounds them
 * nor the memory limit their compiled code, of which the host has so much for all (net.core.bpf_jit_limit).
 */
static const struct pin_guard_case seccomp_cases[] = {CASE1(BITS(1, SECCOMP_FILTER_FLAG_NEW_LISTENER, 0))};
static const struct pin_guard_case scheduler_cases[] = {CASE1(IS(1, SCHED_OTHER)), CASE1(IS(1, SCHED_BATCH)),
                                                        CASE1(IS(1, SCHED_IDLE))};

#define ONLY(name, list, why)                                                                                \
    { name, false, list, PIN_COUNT(list), why, NULL, 0 }
#define ONLY_AND(name, list, why, done)                                                                      \
    { name, false, list, PIN_COUNT(list), why, done, PIN_COUNT(done) }
#define EXCEPT(name, list, why)                                                                              \
    { name, true, list, PIN_COUNT(list), why, NULL, 0 }
#define SET_ID_WHY                                                                                           \
    "a set-id file that is made in a shared workspace would run with its maker's id for whoever starts it "  \
    "on the host"
#define HUGE_WHY                                                                                             \
    "huge pages are the host's pool, which somebody has set aside for something, and no memory limit "       \
    "counts them"

static const struct pin_guard walled_guards[] = {
    /* sorted by name */
    ONLY("chmod", mode_1, SET_ID_WHY),
    ONLY("clone", clone_cases, "new namespaces open the kernel's privileged code to unprivileged processes"),
    ONLY("creat", mode_1, SET_ID_WHY),
    ONLY("fchmod", mode_1, SET_ID_WHY),
    ONLY("fchmodat", mode_2, SET_ID_WHY),
    ONLY("fchmodat2", mode_2, SET_ID_WHY),
    ONLY("fcntl", fcntl_cases,
         "a lease on a file that is shared, if only for reading, stalls whoever opens it on the host, and "
         "F_NOTIFY watches directories of the host"),
    ONLY("ioctl", ioctl_cases,
         "terminals, pipes, sockets and clones of files need a few commands; every driver behind a "
         "descriptor has its own, and TIOCSTI, TIOCLINUX and TIOCSETD reach the terminal's other users"),
    ONLY("memfd_create", memfd_cases, HUGE_WHY),
    ONLY("mknod", mknod_cases, "a node may be a file, a fifo or a socket; " SET_ID_WHY),
    ONLY("mknodat", mknodat_cases, "a node may be a file, a fifo or a socket; " SET_ID_WHY),
    ONLY("mmap", mmap_cases, HUGE_WHY),
    ONLY("open", open_cases, SET_ID_WHY),
    ONLY("openat", openat_cases, SET_ID_WHY),
    ONLY("personality", personality_cases, "other execution domains weaken address randomisation"),
    ONLY("prctl", prctl_cases,
         "a process may ask about itself and name itself; the other options change its tracer, its memory "
         "map, its security bits or its filters"),
    ONLY_AND("prlimit64", prlimit_cases,
             "PID 1 has the same user: its limits would end the sandbox; and a core limit of 0 would hand a "
             "dump to the host",
             prlimit_idle),
    ONLY("sched_setscheduler", scheduler_cases, "real-time policies starve the host"),
    ONLY("seccomp", seccomp_cases,
         "a listener keeps filters when their process is gone, and the host has one bound for the compiled "
         "code of all of them"),
    ONLY_AND("setrlimit", setrlimit_cases, "a core limit of 0 would hand a dump to the host", setrlimit_idle),
    ONLY("setsockopt", setsockopt_cases,
         "packet filters, protocols above TCP, multicast groups, encapsulation, IPsec and the tables of "
         "packet "
         "filters are large and rarely used kernel code, which no ordinary program asks for"),
    ONLY("shmget", shmget_cases, HUGE_WHY),
    ONLY("socket", socket_cases,
         "other families, types and protocols reach rarely used kernel code, and some, like AF_VSOCK, leave "
         "the network namespace"),
    ONLY("socketpair", socketpair_cases, "only local pairs exist"),
};

static const struct pin_guard oci_guards[] = {
    /* sorted by name */
    ONLY("clone", clone_cases, "new namespaces open the kernel's privileged code to unprivileged processes"),
    EXCEPT("ioctl", oci_ioctl_cases, "they type into, or take over, a terminal that others use"),
    ONLY("personality", oci_personality_cases, "other execution domains weaken address randomisation"),
    ONLY(
        "socket", oci_socket_cases,
        "other families reach rarely used kernel code, and some, like AF_VSOCK, leave the network namespace"),
    ONLY("socketpair", socketpair_cases, "only local pairs exist"),
};

#define STARTS(bit)                                                                                          \
    { "clone", BITS(0, bit, bit), "makes a new namespace" }
static const struct pin_guard_never nevers[] = {
    STARTS(CLONE_NEWNS),
    STARTS(CLONE_NEWCGROUP),
    STARTS(CLONE_NEWUTS),
    STARTS(CLONE_NEWIPC),
    STARTS(CLONE_NEWUSER),
    STARTS(CLONE_NEWPID),
    STARTS(CLONE_NEWNET),
    STARTS(CLONE_NEWTIME),
    {"ioctl",  IS(1, TIOCSTI),           "types into a terminal that others read"                   },
    {"ioctl",  IS(1, TIOCLINUX),         "pastes into the host's console"                           },
    {"ioctl",  IS(1, TIOCSETD),          "loads line disciplines into the kernel"                   },
    {"socket", IS(0, AF_VSOCK),          "reaches the hypervisor past the network namespace"        },
    {"prctl",  IS(0, PR_SET_MM),         "rewrites what the kernel tells about the process's memory"},
    {"prctl",  IS(0, PR_SET_PTRACER),    "lets itself be traced by others"                          },
    {"prctl",  IS(0, PR_SET_SECUREBITS), "changes how capabilities are gained"                      },
};

const struct pin_guard *pin_guards(bool walled, size_t *count) {
    *count = walled ? PIN_COUNT(walled_guards) : PIN_COUNT(oci_guards);
    return walled ? walled_guards : oci_guards;
}

const struct pin_guard *pin_guard_find(const char *call, bool walled) {
    size_t count;
    const struct pin_guard *guards = pin_guards(walled, &count);
    for (size_t i = 0; i < count; i++)
        if (guards[i].call[0] == call[0] && strcmp(guards[i].call, call) == 0)
            return &guards[i];
    return NULL;
}

const struct pin_guard_never *pin_guard_nevers(size_t *count) {
    *count = PIN_COUNT(nevers);
    return nevers;
}
