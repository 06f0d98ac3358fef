#include "runtime/egress/broker/walls.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <sched.h>
#include <seccomp.h>
#include <string.h>
#include <sys/capability.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <linux/landlock.h>

#include "base/cleanup.h"
#include "base/names.h"
#include "base/units.h"

#define NOBODY 65534
#define MEMORY_MAX (192 * PIN_MIB)
#define FILES_MAX 24576

static bool limit(int resource, uint64_t value, struct pin_error *err) {
    struct rlimit now, wanted = {value, value};
    if (getrlimit((__rlimit_resource_t)resource, &now) != 0)
        return pin_fail_errno(err, "limit the broker");
    if (now.rlim_max != RLIM_INFINITY && wanted.rlim_max > now.rlim_max)
        wanted = (struct rlimit){now.rlim_max, now.rlim_max};
    if (setrlimit((__rlimit_resource_t)resource, &wanted) != 0)
        return pin_fail_errno(err, "limit the broker");
    return true;
}

/* 1 is no room for a core file, and what keeps a core_pattern that names a program from being run (core(5)).
 */
static bool set_limits(struct pin_error *err) {
    return limit(RLIMIT_NOFILE, FILES_MAX, err) && limit(RLIMIT_CORE, 1, err) &&
           limit(RLIMIT_FSIZE, 0, err) && limit(RLIMIT_DATA, MEMORY_MAX, err);
}

/* In a user namespace without such an id the caller's own is no better or worse. */
bool walls_leave_root(struct pin_error *err) {
    if (geteuid() != 0)
        return true;
    if (setgroups(0, NULL) != 0 && errno != EPERM)
        return pin_fail_errno(err, "drop the groups");
    if (setresgid(NOBODY, NOBODY, NOBODY) != 0 && errno != EINVAL)
        return pin_fail_errno(err, "leave the root group");
    if (setresuid(NOBODY, NOBODY, NOBODY) != 0 && errno != EINVAL)
        return pin_fail_errno(err, "leave root");
    return true;
}

/* An empty, read-only file system is the root; the host's is detached. */
static bool enter_namespaces(bool joined) {
    int spaces = (joined ? 0 : CLONE_NEWUSER) | CLONE_NEWNS | CLONE_NEWIPC | CLONE_NEWUTS | CLONE_NEWPID |
                 CLONE_NEWCGROUP;
    return unshare(spaces) == 0 && mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) == 0 &&
           mount("none", "/proc", "tmpfs", MS_NOSUID | MS_NODEV | MS_NOEXEC, "size=4k,mode=555") == 0 &&
           chdir("/proc") == 0 && syscall(SYS_pivot_root, ".", ".") == 0 && umount2(".", MNT_DETACH) == 0 &&
           mount(NULL, "/", NULL, MS_REMOUNT | MS_BIND | MS_RDONLY | MS_NOSUID | MS_NODEV | MS_NOEXEC,
                 NULL) == 0;
}

/* Of linux/landlock.h since Linux 6.7; the headers may be older. */
struct ruleset_with_ports {
    uint64_t handled_access_fs, handled_access_net;
};
struct port_rule {
    uint64_t allowed_access, port;
};
enum { BIND_TCP = 1, CONNECT_TCP = 2, RULE_NET_PORT = 2, NET_SINCE_VERSION = 4 };

static bool allow_ports(int ruleset, const struct walls_joined *joined) {
    for (size_t i = 0; i < joined->count; i++) {
        struct port_rule rule = {CONNECT_TCP, joined->ports[i]};
        if (syscall(SYS_landlock_add_rule, ruleset, RULE_NET_PORT, &rule, 0) != 0)
            return false;
    }
    return true;
}

/* The sum of all that Landlock's first version knows; none of it is granted anywhere. */
static bool forbid_files(const struct walls_joined *joined) {
    struct ruleset_with_ports attributes = {.handled_access_fs = (LANDLOCK_ACCESS_FS_MAKE_SYM << 1) - 1};
    bool ports = joined != NULL && syscall(SYS_landlock_create_ruleset, NULL, 0,
                                           LANDLOCK_CREATE_RULESET_VERSION) >= NET_SINCE_VERSION;
    if (ports)
        attributes.handled_access_net = BIND_TCP | CONNECT_TCP;
    PIN_CLOSE int ruleset =
        (int)syscall(SYS_landlock_create_ruleset, &attributes,
                     ports ? sizeof(attributes) : sizeof(attributes.handled_access_fs), 0);
    return ruleset >= 0 && (!ports || allow_ports(ruleset, joined)) &&
           syscall(SYS_landlock_restrict_self, ruleset, 0) == 0;
}

static bool drop_capabilities(struct pin_error *err) {
    cap_t none = cap_init();
    bool dropped = none != NULL && cap_set_proc(none) == 0;
    if (none != NULL)
        (void)cap_free(none);
    return dropped || pin_fail_errno(err, "drop the capabilities");
}

/* getppid(2) tells nothing: a tracer puts it in the place of a call that is to fail. */
static const int calls[] = {
    SCMP_SYS(read),         SCMP_SYS(write),         SCMP_SYS(recvfrom),        SCMP_SYS(recvmsg),
    SCMP_SYS(sendto),       SCMP_SYS(sendmsg),       SCMP_SYS(writev),          SCMP_SYS(readv),
    SCMP_SYS(pread64),      SCMP_SYS(epoll_wait),    SCMP_SYS(epoll_pwait),     SCMP_SYS(epoll_ctl),
    SCMP_SYS(accept4),      SCMP_SYS(connect),       SCMP_SYS(getsockname),     SCMP_SYS(getpeername),
    SCMP_SYS(getsockopt),   SCMP_SYS(setsockopt),    SCMP_SYS(shutdown),        SCMP_SYS(close),
    SCMP_SYS(munmap),       SCMP_SYS(brk),           SCMP_SYS(mremap),          SCMP_SYS(madvise),
    SCMP_SYS(futex),        SCMP_SYS(clock_gettime), SCMP_SYS(gettimeofday),    SCMP_SYS(getrandom),
    SCMP_SYS(rt_sigreturn), SCMP_SYS(exit),          SCMP_SYS(exit_group),      SCMP_SYS(restart_syscall),
    SCMP_SYS(bind),         SCMP_SYS(sched_yield),   SCMP_SYS(getppid),         SCMP_SYS(sendmmsg),
    SCMP_SYS(splice),       SCMP_SYS(pipe2),         SCMP_SYS(timerfd_settime),
};

/* Looked for by the C library and c-ares, which go on without: sysinfo(2) by qsort(3) of more than a KiB, as
 * the addresses of a name can be. */
static const int absent[] = {
    SCMP_SYS(openat), SCMP_SYS(open),   SCMP_SYS(newfstatat), SCMP_SYS(stat),
    SCMP_SYS(fstat),  SCMP_SYS(access), SCMP_SYS(uname),      SCMP_SYS(sysinfo),
};

static struct scmp_arg_cmp exactly(unsigned arg, uint64_t value) {
    return (struct scmp_arg_cmp){
        .arg = arg, .op = SCMP_CMP_MASKED_EQ, .datum_a = UINT32_MAX, .datum_b = value};
}

static int allow_sockets(scmp_filter_ctx filter) {
    static const int families[] = {AF_INET, AF_INET6};
    static const int types[] = {SOCK_STREAM, SOCK_DGRAM};
    for (size_t i = 0; i < PIN_COUNT(families); i++)
        for (size_t j = 0; j < PIN_COUNT(types); j++) {
            struct scmp_arg_cmp type = exactly(1, (uint64_t)types[j]);
            type.datum_a = ~(uint64_t)(SOCK_CLOEXEC | SOCK_NONBLOCK) & UINT32_MAX;
            int code = seccomp_rule_add(filter, SCMP_ACT_ALLOW, SCMP_SYS(socket), 2,
                                        exactly(0, (uint64_t)families[i]), type);
            if (code != 0)
                return code;
        }
    /* c-ares sorts addresses by the routes that the host has, where it can ask. */
    return seccomp_rule_add(filter, SCMP_ACT_ERRNO(EAFNOSUPPORT), SCMP_SYS(socket), 1,
                            exactly(0, AF_NETLINK));
}

/* Memory, never to be executed. */
static int allow_memory(scmp_filter_ctx filter) {
    struct scmp_arg_cmp data = {.arg = 2, .op = SCMP_CMP_MASKED_EQ, .datum_a = PROT_EXEC, .datum_b = 0};
    int code = seccomp_rule_add(filter, SCMP_ACT_ALLOW, SCMP_SYS(mmap), 1, data);
    return code != 0 ? code : seccomp_rule_add(filter, SCMP_ACT_ALLOW, SCMP_SYS(mprotect), 1, data);
}

static int allow_fcntl(scmp_filter_ctx filter) {
    static const int commands[] = {F_GETFL, F_SETFL, F_GETFD, F_SETFD, F_SETPIPE_SZ};
    int code = 0;
    for (size_t i = 0; code == 0 && i < PIN_COUNT(commands); i++)
        code =
            seccomp_rule_add(filter, SCMP_ACT_ALLOW, SCMP_SYS(fcntl), 1, exactly(1, (uint64_t)commands[i]));
    return code;
}

static int fill(scmp_filter_ctx filter) {
    int code = 0;
    for (size_t i = 0; code == 0 && i < PIN_COUNT(calls); i++)
        code = seccomp_rule_add(filter, SCMP_ACT_ALLOW, calls[i], 0);
    for (size_t i = 0; code == 0 && i < PIN_COUNT(absent); i++)
        code = seccomp_rule_add(filter, SCMP_ACT_ERRNO(ENOENT), absent[i], 0);
    code = code != 0 ? code : allow_sockets(filter);
    code = code != 0 ? code : allow_memory(filter);
    return code != 0 ? code : allow_fcntl(filter);
}

static bool load_filter(struct pin_error *err) {
    scmp_filter_ctx filter = seccomp_init(SCMP_ACT_KILL_PROCESS);
    int code = filter == NULL ? -ENOMEM : fill(filter);
    code = code != 0 ? code : seccomp_load(filter);
    if (filter != NULL)
        seccomp_release(filter);
    errno = -code;
    return code == 0 || pin_fail_errno(err, "load the broker's filter");
}

bool walls_raise(const struct walls_joined *joined, uint32_t *standing, struct pin_error *err) {
    *standing = 0;
    if (!set_limits(err) || !walls_leave_root(err))
        return false;
    if (prctl(PR_SET_DUMPABLE, 0) != 0 || prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0)
        return pin_fail_errno(err, "forbid new privileges");
    if (enter_namespaces(joined != NULL))
        *standing |= WALL_NAMESPACES;
    if (forbid_files(joined))
        *standing |= WALL_LANDLOCK;
    if (*standing == 0)
        return pin_fail(err, PIN_ERROR_UNSUPPORTED, "neither user namespaces nor Landlock for the broker");
    return drop_capabilities(err) && load_filter(err);
}
