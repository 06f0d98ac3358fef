#include "policy/audit/arg_names.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/personality.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include <asm/termbits.h>
#include <linux/fiemap.h>
#include <linux/fs.h>
#include <linux/sched.h>
#include <linux/sockios.h>
#include <netinet/in.h>

#include "base/names.h"

struct named {
    const char *name;
    uint64_t value;
};

#define ROW(constant)                                                                                        \
    { #constant, (uint32_t)(constant) }

static const struct named families[] = {
    ROW(AF_UNIX),      ROW(AF_INET), ROW(AF_INET6), ROW(AF_NETLINK), ROW(AF_PACKET),  ROW(AF_ALG),
    ROW(AF_VSOCK),     ROW(AF_CAN),  ROW(AF_TIPC),  ROW(AF_RDS),     ROW(AF_KEY),     ROW(AF_BLUETOOTH),
    ROW(AF_X25),       ROW(AF_AX25), ROW(AF_NFC),   ROW(AF_KCM),     ROW(AF_XDP),     ROW(AF_SMC),
    ROW(AF_APPLETALK), ROW(AF_LLC),  ROW(AF_PPPOX), ROW(AF_CAIF),    ROW(AF_QIPCRTR),
};
static const struct named types[] = {
    ROW(SOCK_STREAM),   ROW(SOCK_DGRAM),   ROW(SOCK_RAW), ROW(SOCK_SEQPACKET),
    ROW(SOCK_NONBLOCK), ROW(SOCK_CLOEXEC), ROW(SOCK_RDM),
};
static const struct named commands[] = {
    ROW(TIOCSTI),        ROW(TIOCLINUX),    ROW(TIOCSETD),      ROW(TCGETS),          ROW(TCSETS),
    ROW(TCSETSW),        ROW(TCSETSF),      ROW(TCGETA),        ROW(TCSBRK),          ROW(TCSBRKP),
    ROW(TCXONC),         ROW(TCFLSH),       ROW(TIOCSCTTY),     ROW(TIOCNOTTY),       ROW(TIOCGPGRP),
    ROW(TIOCSPGRP),      ROW(TIOCGSID),     ROW(TIOCOUTQ),      ROW(TIOCGWINSZ),      ROW(TIOCSWINSZ),
    ROW(TIOCGPTN),       ROW(TIOCSPTLCK),   ROW(TIOCGPTLCK),    ROW(TIOCGPTPEER),     ROW(TIOCPKT),
    ROW(FIONREAD),       ROW(FIONBIO),      ROW(FIONCLEX),      ROW(FIOCLEX),         ROW(FIOASYNC),
    ROW(FICLONE),        ROW(FICLONERANGE), ROW(FS_IOC_FIEMAP), ROW(FS_IOC_GETFLAGS), ROW(SIOCATMARK),
    ROW(SIOCGIFNAME),    ROW(SIOCGIFCONF),  ROW(SIOCGIFFLAGS),  ROW(SIOCGIFADDR),     ROW(SIOCGIFBRDADDR),
    ROW(SIOCGIFNETMASK), ROW(SIOCGIFMTU),   ROW(SIOCGIFHWADDR), ROW(SIOCGIFINDEX),    ROW(TCGETS2),
    ROW(TCSETS2),        ROW(TCSETSW2),     ROW(TCSETSF2),
};
static const struct named clone_flags[] = {
    ROW(CLONE_NEWNS),  ROW(CLONE_NEWCGROUP), ROW(CLONE_NEWUTS),  ROW(CLONE_NEWIPC), ROW(CLONE_NEWUSER),
    ROW(CLONE_NEWPID), ROW(CLONE_NEWNET),    ROW(CLONE_NEWTIME), ROW(CLONE_VM),     ROW(CLONE_FS),
    ROW(CLONE_FILES),  ROW(CLONE_SIGHAND),   ROW(CLONE_THREAD),  ROW(CLONE_VFORK),
};
static const struct named prctl_options[] = {
    ROW(PR_SET_PDEATHSIG),    ROW(PR_GET_PDEATHSIG),       ROW(PR_GET_DUMPABLE),
    ROW(PR_SET_DUMPABLE),     ROW(PR_GET_KEEPCAPS),        ROW(PR_SET_NAME),
    ROW(PR_GET_NAME),         ROW(PR_GET_SECCOMP),         ROW(PR_CAPBSET_READ),
    ROW(PR_GET_TSC),          ROW(PR_GET_SECUREBITS),      ROW(PR_SET_TIMERSLACK),
    ROW(PR_GET_TIMERSLACK),   ROW(PR_SET_CHILD_SUBREAPER), ROW(PR_GET_CHILD_SUBREAPER),
    ROW(PR_SET_NO_NEW_PRIVS), ROW(PR_GET_NO_NEW_PRIVS),    ROW(PR_GET_TID_ADDRESS),
    ROW(PR_SET_THP_DISABLE),  ROW(PR_GET_THP_DISABLE),     ROW(PR_GET_SPECULATION_CTRL),
    ROW(PR_SET_MM),           ROW(PR_SET_PTRACER),         ROW(PR_SET_SECUREBITS),
    ROW(PR_SET_SECCOMP),      ROW(PR_SET_KEEPCAPS),
};
static const struct named personalities[] = {
    ROW(PER_LINUX), ROW(PER_LINUX32), ROW(UNAME26), ROW(ADDR_NO_RANDOMIZE), {"the present one", UINT32_MAX},
};
static const struct named node_types[] = {
    ROW(S_IFREG), ROW(S_IFIFO), ROW(S_IFSOCK), ROW(S_IFCHR), ROW(S_IFBLK), ROW(S_IFDIR),
};
static const struct named schedulers[] = {
    ROW(SCHED_OTHER), ROW(SCHED_BATCH), ROW(SCHED_IDLE), ROW(SCHED_FIFO), ROW(SCHED_RR),
};
static const struct named file_commands[] = {
    ROW(F_DUPFD),  ROW(F_DUPFD_CLOEXEC), ROW(F_GETFD),  ROW(F_SETFD),    ROW(F_GETFL),
    ROW(F_SETFL),  ROW(F_GETLK),         ROW(F_SETLK),  ROW(F_SETLKW),   ROW(F_SETOWN),
    ROW(F_SETSIG), ROW(F_GETLEASE),      ROW(F_NOTIFY), ROW(F_SETLEASE), ROW(F_SETPIPE_SZ),
};
static const struct named open_flags[] = {
    ROW(O_RDONLY), ROW(O_WRONLY),  ROW(O_RDWR),    ROW(O_CREAT), ROW(O_TRUNC),
    ROW(O_EXCL),   ROW(O_CLOEXEC), ROW(O_TMPFILE), ROW(O_PATH),  ROW(O_DIRECTORY),
};
static const struct named levels[] = {
    ROW(SOL_SOCKET), ROW(IPPROTO_IP), ROW(IPPROTO_TCP), ROW(IPPROTO_UDP), ROW(IPPROTO_IPV6), ROW(SOL_NETLINK),
};
static const struct named directories[] = {ROW(AT_FDCWD)};
static const struct named requests[] = {ROW(PTRACE_TRACEME), ROW(PTRACE_ATTACH), ROW(PTRACE_SEIZE)};

static const struct {
    const char *call;
    unsigned index;
    const struct named *rows;
    size_t count;
} tables[] = {
    {"socket",             0, families,      PIN_COUNT(families)     },
    {"socketpair",         0, families,      PIN_COUNT(families)     },
    {"socket",             1, types,         PIN_COUNT(types)        },
    {"socketpair",         1, types,         PIN_COUNT(types)        },
    {"setsockopt",         1, levels,        PIN_COUNT(levels)       },
    {"fcntl",              1, file_commands, PIN_COUNT(file_commands)},
    {"ioctl",              1, commands,      PIN_COUNT(commands)     },
    {"clone",              0, clone_flags,   PIN_COUNT(clone_flags)  },
    {"unshare",            0, clone_flags,   PIN_COUNT(clone_flags)  },
    {"prctl",              0, prctl_options, PIN_COUNT(prctl_options)},
    {"personality",        0, personalities, PIN_COUNT(personalities)},
    {"mknod",              1, node_types,    PIN_COUNT(node_types)   },
    {"mknodat",            2, node_types,    PIN_COUNT(node_types)   },
    {"sched_setscheduler", 1, schedulers,    PIN_COUNT(schedulers)   },
    {"open",               1, open_flags,    PIN_COUNT(open_flags)   },
    {"openat",             2, open_flags,    PIN_COUNT(open_flags)   },
    {"openat",             0, directories,   PIN_COUNT(directories)  },
    {"ptrace",             0, requests,      PIN_COUNT(requests)     },
};

const char *pin_arg_name(const char *call, unsigned index, uint64_t value) {
    for (size_t i = 0; i < PIN_COUNT(tables); i++) {
        if (tables[i].index != index || strcmp(tables[i].call, call) != 0)
            continue;
        for (size_t j = 0; j < tables[i].count; j++)
            if (tables[i].rows[j].value == value)
                return tables[i].rows[j].name;
    }
    return NULL;
}

static bool find_name(const char *call, unsigned index, const char *name, uint64_t *value) {
    for (size_t i = 0; i < PIN_COUNT(tables); i++) {
        if (tables[i].index != index || strcmp(tables[i].call, call) != 0)
            continue;
        for (size_t j = 0; j < tables[i].count; j++)
            if (strcmp(tables[i].rows[j].name, name) == 0) {
                *value = tables[i].rows[j].value;
                return true;
            }
    }
    return false;
}

static bool parse_number(const char *text, uint64_t *value) {
    char *end;
    if (text[0] == '\0' || strspn(text, "-0123456789abcdefxABCDEFX") != strlen(text))
        return false;
    errno = 0;
    *value = text[0] == '-' ? (uint64_t)strtoll(text, &end, 0) : strtoull(text, &end, 0);
    return errno == 0 && *end == '\0';
}

#define LONGEST_PART 64 /* more than any name or number has, with its end */

bool pin_arg_parse(const char *call, unsigned index, const char *text, uint64_t *value) {
    uint64_t sum = 0, one;
    if (parse_number(text, value))
        return true;
    for (const char *at = text;; at++) {
        char part[LONGEST_PART];
        size_t size = strcspn(at, "|");
        if (size >= sizeof(part))
            return false;
        memcpy(part, at, size);
        part[size] = '\0';
        if (!find_name(call, index, part, &one) && !parse_number(part, &one))
            return false;
        sum |= one;
        at += size;
        if (*at == '\0')
            break;
    }
    *value = sum;
    return true;
}

const char *pin_arg_family(size_t index, int *family) {
    if (index >= PIN_COUNT(families))
        return NULL;
    *family = (int)families[index].value;
    return families[index].name;
}

int pin_errno_find(const char *name) {
    for (int i = 1; i < 134; i++) {
        const char *known = strerrorname_np(i);
        if (known != NULL && strcmp(known, name) == 0)
            return i;
    }
    return 0;
}

const char *pin_errno_name(int error) {
    return strerrorname_np(error);
}
