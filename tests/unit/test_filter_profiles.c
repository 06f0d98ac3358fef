/* What the four baselines and the entries of a policy resolve to. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/shm.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include <linux/netlink.h>
#include <linux/seccomp.h>
#include <netinet/in.h>
#include <netinet/tcp.h>

#include "base/names.h"
#include "policy/filter.h"
#include "policy/policy_read.h"
#include "policy/syscalls.h"

static const char *const baselines[] = {"strict", "tool", "build", "oci"};
static const uint64_t zeros[PIN_FILTER_ARGS_MAX];

struct made {
    struct pin_policy policy;
    struct pin_arena arena;
    struct pin_filter filter;
    struct pin_findings found;
    bool good;
};

static void make(struct made *made, const char *baseline, enum pin_arch arch) {
    made->policy.syscalls.baseline = baseline;
    made->good = pin_policy_filter(&made->policy, arch, &made->arena, &made->filter, &made->found);
}

static struct pin_syscall_entry entry_with(const char *name, struct pin_filter_arg arg) {
    return (struct pin_syscall_entry){.name = name, .arg_count = 1, .args = {arg}};
}

static struct pin_filter_arg is(uint8_t index, uint32_t value) {
    return (struct pin_filter_arg){
        .index = index, .op = PIN_FILTER_MASKED_EQ, .mask = UINT32_MAX, .value = value};
}

static struct pin_filter_verdict judge(const struct made *made, const char *call, const uint64_t *args) {
    int number = pin_syscall_number(PIN_ARCH_X86_64, call);
    assert_true(number >= 0);
    return pin_filter_judge(&made->filter, PIN_ARCH_X86_64, (uint32_t)number, args);
}

/* How many calls some arguments of which are let through. */
static size_t reachable(const struct pin_filter *filter) {
    size_t count = 0;
    for (size_t i = 0; i < filter->rule_count; i++)
        count += filter->rules[i].action == PIN_FILTER_ALLOW &&
                 (i == 0 || strcmp(filter->rules[i - 1].name, filter->rules[i].name) != 0);
    return count;
}

static void tool_reaches_150_calls_and_strict_100(void **state) {
    (void)state;
    size_t counts[PIN_COUNT(baselines)];
    for (size_t i = 0; i < PIN_COUNT(baselines); i++) {
        for (int arch = PIN_ARCH_COUNT - 1; arch >= 0; arch--) {
            struct made made = {0};
            make(&made, baselines[i], (enum pin_arch)arch);
            assert_true(made.good);
            counts[i] = reachable(&made.filter);
            print_message("%s %s: %zu calls, %zu rules\n", pin_arch_name((enum pin_arch)arch), baselines[i],
                          counts[i], made.filter.rule_count);
            pin_arena_free(&made.arena);
        }
    }
    assert_in_range(counts[0], 60, 100);
    assert_in_range(counts[1], 100, 150);
    assert_in_range(counts[2], counts[1], 300);
    assert_in_range(counts[3], counts[2], 400);
}

static void every_baseline_passes_its_own_check(void **state) {
    (void)state;
    for (size_t i = 0; i < PIN_COUNT(baselines); i++) {
        for (int arch = 0; arch < PIN_ARCH_COUNT; arch++) {
            struct made made = {0};
            make(&made, baselines[i], (enum pin_arch)arch);
            pin_filter_check(&made.filter, &made.found);
            if (pin_found_any(&made.found))
                print_message("%s\n", made.found.list[0].message);
            assert_false(pin_found_any(&made.found));
            pin_arena_free(&made.arena);
        }
    }
}

static void walled_baselines_allow_nothing_that_is_never_allowed(void **state) {
    (void)state;
    for (size_t i = 0; i < 3; i++) {
        const struct pin_syscall_set *set = pin_syscall_baseline(baselines[i]);
        for (size_t j = 0; j < set->count; j++) {
            if (pin_syscalls[set->rows[j]].never != NULL)
                print_message("%s: %s\n", baselines[i], pin_syscalls[set->rows[j]].name);
            assert_null(pin_syscalls[set->rows[j]].never);
        }
    }
}

#define HIGH UINT64_C(0xdeadbeef00000000)
#define ALLOWED                                                                                              \
    { PIN_FILTER_ALLOW, 0, NULL }
#define ERROR(number)                                                                                        \
    { PIN_FILTER_ERRNO, number, NULL }
#define DENIED ERROR(EPERM)
#define IDLE ERROR(0) /* success, and nothing is done */

static const struct row {
    const char *call;
    uint64_t args[PIN_FILTER_ARGS_MAX];
    struct pin_filter_verdict expected;
} tool_rows[] = {
    {"read",            {0},                                                       ALLOWED      },
    {"execve",          {0},                                                       ALLOWED      },
    {"openat2",         {0},                                                       ERROR(ENOSYS)},
    {"clone3",          {0},                                                       ERROR(ENOSYS)},
    {"fchmodat2",       {0},                                                       ERROR(ENOSYS)},
    {"mseal",           {0},                                                       ERROR(ENOSYS)},
    {"listns",          {0},                                                       ERROR(ENOSYS)},
    {"mount",           {0},                                                       DENIED       },
    {"unshare",         {0},                                                       DENIED       },
    {"setns",           {0},                                                       DENIED       },
    {"ptrace",          {0},                                                       DENIED       },
    {"io_uring_setup",  {0},                                                       DENIED       },
    {"bpf",             {0},                                                       DENIED       },
    {"keyctl",          {0},                                                       DENIED       },
    {"userfaultfd",     {0},                                                       DENIED       },
    {"inotify_init1",   {0},                                                       DENIED       },
    {"memfd_create",    {0},                                                       DENIED       },
    {"rt_sigtimedwait", {0},                                                       ALLOWED      },
    {"setresuid",       {0},                                                       ALLOWED      },
    {"fsetxattr",       {0},                                                       ERROR(ENOSYS)},
    {"chroot",          {0},                                                       DENIED       },
    {"clone",           {0x01200011},                                              ALLOWED      },
    {"clone",           {HIGH | 0x01200011},                                       ALLOWED      },
    {"clone",           {CLONE_NEWUSER | 17},                                      DENIED       },
    {"clone",           {HIGH | CLONE_NEWUSER | 17},                               DENIED       },
    {"clone",           {CLONE_NEWNET},                                            DENIED       },
    {"clone",           {CLONE_NEWNS},                                             DENIED       },
    {"socket",          {AF_INET, SOCK_STREAM, 0},                                 ALLOWED      },
    {"socket",          {AF_INET6, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 17}, ALLOWED      },
    {"socket",          {HIGH | AF_INET, HIGH | SOCK_STREAM, HIGH},                ALLOWED      },
    {"socket",          {AF_UNIX, SOCK_SEQPACKET, 0},                              ALLOWED      },
    {"socket",          {AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_ROUTE},      ALLOWED      },
    {"socket",          {AF_NETLINK, SOCK_RAW, NETLINK_NETFILTER},                 DENIED       },
    {"socket",          {AF_INET, SOCK_RAW, 1},                                    DENIED       },
    {"socket",          {AF_INET, SOCK_DGRAM, 1},                                  DENIED       }, /* ping */
    {"socket",          {AF_INET, SOCK_STREAM, 262},                               DENIED       }, /* MPTCP */
    {"socket",          {AF_INET, SOCK_STREAM, 132},                               DENIED       }, /* SCTP */
    {"socket",          {AF_INET, SOCK_PACKET, 0},                                 DENIED       },
    {"socket",          {AF_PACKET, SOCK_RAW, 0},                                  DENIED       },
    {"socket",          {AF_VSOCK, SOCK_STREAM, 0},                                DENIED       },
    {"socket",          {(UINT64_C(1) << 32) + AF_VSOCK, SOCK_STREAM, 0},          DENIED       },
    {"socket",          {AF_ALG, SOCK_SEQPACKET, 0},                               DENIED       },
    {"socket",          {AF_UNIX ^ 8, SOCK_STREAM, 0},                             DENIED       },
    {"socket",          {AF_INET, SOCK_DGRAM, 6},                                  DENIED       },
    {"setsockopt",      {0, SOL_SOCKET, SO_REUSEADDR},                             ALLOWED      },
    {"setsockopt",      {0, HIGH | SOL_SOCKET, HIGH | SO_SNDTIMEO},                ALLOWED      },
    {"setsockopt",      {0, SOL_SOCKET, SO_TIMESTAMP},                             ALLOWED      },
    {"setsockopt",      {0, SOL_SOCKET, SO_ATTACH_FILTER},                         DENIED       },
    {"setsockopt",      {0, SOL_SOCKET, HIGH | SO_ATTACH_FILTER},                  DENIED       },
    {"setsockopt",      {0, SOL_SOCKET, SO_DETACH_FILTER},                         DENIED       },
    {"setsockopt",      {0, SOL_SOCKET, SO_LOCK_FILTER},                           DENIED       },
    {"setsockopt",      {0, SOL_SOCKET, 50},                                       DENIED       }, /* BPF */
    {"setsockopt",      {0, SOL_SOCKET, 51},                                       DENIED       }, /* reuseport */
    {"setsockopt",      {0, SOL_SOCKET, 52},                                       DENIED       },
    {"setsockopt",      {0, IPPROTO_TCP, TCP_NODELAY},                             ALLOWED      },
    {"setsockopt",      {0, IPPROTO_TCP, TCP_USER_TIMEOUT},                        ALLOWED      },
    {"setsockopt",      {0, IPPROTO_TCP, 14},                                      DENIED       }, /* MD5SIG */
    {"setsockopt",      {0, IPPROTO_TCP, 19},                                      DENIED       }, /* REPAIR */
    {"setsockopt",      {0, IPPROTO_TCP, 31},                                      DENIED       }, /* ULP */
    {"setsockopt",      {0, IPPROTO_TCP, 32},                                      DENIED       }, /* MD5SIG_EXT */
    {"setsockopt",      {0, IPPROTO_TCP, 38},                                      DENIED       }, /* AO */
    {"setsockopt",      {0, IPPROTO_IP, IP_TOS},                                   ALLOWED      },
    {"setsockopt",      {0, IPPROTO_IP, IP_RECVERR},                               ALLOWED      },
    {"setsockopt",      {0, IPPROTO_IP, IP_MULTICAST_ALL},                         ALLOWED      },
    {"setsockopt",      {0, IPPROTO_IP, IP_OPTIONS},                               DENIED       },
    {"setsockopt",      {0, IPPROTO_IP, 16},                                       DENIED       }, /* IPsec */
    {"setsockopt",      {0, IPPROTO_IP, 17},                                       DENIED       }, /* XFRM */
    {"setsockopt",      {0, IPPROTO_IP, IP_ADD_MEMBERSHIP},                        DENIED       },
    {"setsockopt",      {0, IPPROTO_IP, MCAST_MSFILTER},                           DENIED       },
    {"setsockopt",      {0, IPPROTO_IP, 64},                                       DENIED       }, /* iptables */
    {"setsockopt",      {0, IPPROTO_IPV6, IPV6_V6ONLY},                            ALLOWED      },
    {"setsockopt",      {0, IPPROTO_IPV6, IPV6_MULTICAST_HOPS},                    ALLOWED      },
    {"setsockopt",      {0, IPPROTO_IPV6, 1},                                      DENIED       }, /* ADDRFORM */
    {"setsockopt",      {0, IPPROTO_IPV6, 20},                                     DENIED       }, /* a group */
    {"setsockopt",      {0, IPPROTO_IPV6, 32},                                     DENIED       }, /* flow labels */
    {"setsockopt",      {0, IPPROTO_IPV6, 54},                                     DENIED       }, /* HOPOPTS */
    {"setsockopt",      {0, IPPROTO_IPV6, 57},                                     DENIED       }, /* RTHDR */
    {"setsockopt",      {0, IPPROTO_UDP, 103},                                     ALLOWED      },
    {"setsockopt",      {0, IPPROTO_UDP, 100},                                     DENIED       }, /* ENCAP */
    {"setsockopt",      {0, 270, 11},                                              ALLOWED      }, /* netlink */
    {"setsockopt",      {0, 279, 1},                                               DENIED       }, /* ALG */
    {"setsockopt",      {0, 282, 1},                                               DENIED       }, /* TLS */
    {"setsockopt",      {0, 255, 64},                                              DENIED       }, /* ebtables */
    {"socketpair",      {AF_UNIX, SOCK_STREAM, 0},                                 ALLOWED      },
    {"socketpair",      {AF_TIPC, SOCK_STREAM, 0},                                 DENIED       },
    {"prlimit64",       {0, RLIMIT_NOFILE, 1, 0},                                  ALLOWED      },
    {"prlimit64",       {0, RLIMIT_RTTIME, 1, 0},                                  ALLOWED      },
    {"prlimit64",       {0, RLIMIT_CORE, 0, 1},                                    ALLOWED      },
    {"prlimit64",       {0, RLIMIT_CORE, 1, 0},                                    IDLE         },
    {"prlimit64",       {0, HIGH | RLIMIT_CORE, HIGH, 0},                          IDLE         },
    {"prlimit64",       {1, RLIMIT_NOFILE, 1, 0},                                  DENIED       },
    {"prlimit64",       {1, RLIMIT_CORE, 1, 0},                                    DENIED       },
    {"prlimit64",       {0, 16, 1, 0},                                             DENIED       },
    {"fcntl",           {0, F_DUPFD},                                              ALLOWED      },
    {"fcntl",           {0, F_SETLKW},                                             ALLOWED      },
    {"fcntl",           {0, F_SETOWN_EX},                                          ALLOWED      },
    {"fcntl",           {0, F_OFD_SETLKW},                                         ALLOWED      },
    {"fcntl",           {0, HIGH | F_DUPFD_CLOEXEC},                               ALLOWED      },
    {"fcntl",           {0, F_ADD_SEALS},                                          ALLOWED      },
    {"fcntl",           {0, F_SET_FILE_RW_HINT},                                   ALLOWED      },
    {"fcntl",           {0, 12},                                                   DENIED       },
    {"fcntl",           {0, F_GETLEASE},                                           ALLOWED      },
    {"fcntl",           {0, F_SETLEASE},                                           DENIED       },
    {"fcntl",           {0, HIGH | F_SETLEASE},                                    DENIED       },
    {"fcntl",           {0, F_NOTIFY},                                             DENIED       },
    {"fcntl",           {0, 1040},                                                 DENIED       }, /* F_SETDELEG */
    {"mmap",            {0, 1, 3, HIGH | MAP_PRIVATE | MAP_ANONYMOUS, HIGH, HIGH}, ALLOWED      },
    {"mmap",            {0, 1, 3, MAP_PRIVATE | MAP_ANONYMOUS | MAP_HUGETLB},      DENIED       },
    {"mmap",            {0, 1, 3, HIGH | MAP_SHARED | MAP_HUGETLB},                DENIED       },
    {"ioctl",           {0, TCGETS},                                               ALLOWED      },
    {"ioctl",           {0, HIGH | TCGETS},                                        ALLOWED      },
    {"ioctl",           {0, TIOCGPTPEER},                                          ALLOWED      },
    {"ioctl",           {0, TIOCSTI},                                              DENIED       },
    {"ioctl",           {0, (UINT64_C(1) << 32) | TIOCSTI},                        DENIED       },
    {"ioctl",           {0, TIOCLINUX},                                            DENIED       },
    {"ioctl",           {0, TIOCSETD},                                             DENIED       },
    {"ioctl",           {0, HIGH | TIOCSETD},                                      DENIED       },
    {"ioctl",           {0, 0},                                                    DENIED       },
    {"chmod",           {0, 0755},                                                 ALLOWED      },
    {"chmod",           {0, 01777},                                                ALLOWED      },
    {"chmod",           {0, 04755},                                                DENIED       },
    {"chmod",           {0, HIGH | 02755},                                         DENIED       },
    {"fchmod",          {0, S_ISUID},                                              DENIED       },
    {"fchmodat",        {0, 0, 04000},                                             DENIED       },
    {"fchmodat",        {0, 0, 0644},                                              ALLOWED      },
    {"open",            {0, O_RDWR | O_CREAT, 0644},                               ALLOWED      },
    {"open",            {0, O_RDWR | O_CREAT, 06644},                              DENIED       },
    {"open",            {0, O_RDWR, 06644},                                        ALLOWED      }, /* mode unused */
    {"openat",          {0, 0, O_RDONLY | O_DIRECTORY | O_CLOEXEC, HIGH | 0xffff}, ALLOWED      },
    {"openat",          {0, 0, O_WRONLY | O_CREAT, 04755},                         DENIED       },
    {"openat",          {0, 0, HIGH | O_WRONLY | O_CREAT, 04755},                  DENIED       },
    {"openat",          {0, 0, O_WRONLY | O_TMPFILE, 04755},                       DENIED       },
    {"openat",          {0, 0, O_WRONLY | O_TMPFILE, 0600},                        ALLOWED      },
    {"creat",           {0, 02644},                                                DENIED       },
    {"creat",           {0, 0644},                                                 ALLOWED      },
    {"mknodat",         {0, 0, S_IFIFO | 0600},                                    ALLOWED      },
    {"mknodat",         {0, 0, S_IFIFO | 04600},                                   DENIED       },
    {"mknodat",         {0, 0, S_IFCHR | 0600},                                    DENIED       },
    {"mknodat",         {0, 0, S_IFBLK | 0600},                                    DENIED       },
    {"prctl",           {PR_SET_NAME},                                             ALLOWED      },
    {"prctl",           {PR_SET_DUMPABLE},                                         ALLOWED      },
    {"prctl",           {PR_SET_MM},                                               DENIED       },
    {"prctl",           {PR_SET_PTRACER},                                          DENIED       },
    {"prctl",           {HIGH | PR_SET_SECUREBITS},                                DENIED       },
    {"prctl",           {PR_SET_SECCOMP},                                          DENIED       },
    {"prctl",           {PR_CAPBSET_DROP},                                         DENIED       },
};

static void check_row(const struct made *made, const struct row *row) {
    struct pin_filter_verdict verdict = judge(made, row->call, row->args);
    if (verdict.action != row->expected.action || verdict.error != row->expected.error)
        fail_msg("%s(%#llx, %#llx, %#llx, %#llx) gives %s %d", row->call, (unsigned long long)row->args[0],
                 (unsigned long long)row->args[1], (unsigned long long)row->args[2],
                 (unsigned long long)row->args[3], pin_filter_action_name(verdict.action), verdict.error);
}

static void tool_judges_each_row_as_written(void **state) {
    (void)state;
    struct made made = {0};
    make(&made, "tool", PIN_ARCH_X86_64);
    assert_true(made.good);
    for (size_t i = 0; i < PIN_COUNT(tool_rows); i++)
        check_row(&made, &tool_rows[i]);
    pin_arena_free(&made.arena);
}

#define SECCOMP_TSYNC SECCOMP_FILTER_FLAG_TSYNC
#define SECCOMP_LISTEN (HIGH | SECCOMP_FILTER_FLAG_NEW_LISTENER)

static void build_guards_what_tool_lacks(void **state) {
    (void)state;
    static const struct row rows[] = {
        {"sched_setscheduler", {0, SCHED_BATCH},     ALLOWED},
        {"sched_setscheduler", {0, SCHED_FIFO},      DENIED },
        {"sched_setscheduler", {0, HIGH | SCHED_RR}, DENIED },
        {"sched_setattr",      {0},                  DENIED },
        {"personality",        {0xffffffff},         ALLOWED},
        {"personality",        {0},                  ALLOWED},
        {"personality",        {0x0400000},          DENIED }, /* READ_IMPLIES_EXEC */
        {"memfd_create",       {0},                  ALLOWED},
        {"memfd_create",       {0, MFD_CLOEXEC},     ALLOWED},
        {"memfd_create",       {0, MFD_HUGETLB},     DENIED },
        {"shmget",             {0, 1, IPC_CREAT},    ALLOWED},
        {"shmget",             {0, 1, SHM_HUGETLB},  DENIED },
        {"seccomp",            {1, SECCOMP_TSYNC},   ALLOWED},
        {"seccomp",            {1, SECCOMP_LISTEN},  DENIED },
        {"mknod",              {0, S_IFCHR | 0666},  DENIED },
        {"mknod",              {0, S_IFIFO | 0666},  ALLOWED},
        {"setuid",             {0},                  DENIED },
        {"mbind",              {0},                  DENIED },
    };
    struct made made = {0};
    make(&made, "build", PIN_ARCH_X86_64);
    for (size_t i = 0; i < PIN_COUNT(rows); i++)
        check_row(&made, &rows[i]);
    pin_arena_free(&made.arena);
}

static void oci_allows_all_ioctls_but_three(void **state) {
    (void)state;
    static const struct row rows[] = {
        {"fcntl",             {0, F_SETLEASE},        ALLOWED      },
        {"ioctl",             {0, TCGETS},            ALLOWED      },
        {"ioctl",             {0, 0},                 ALLOWED      },
        {"ioctl",             {0, UINT64_MAX},        ALLOWED      },
        {"ioctl",             {0, TIOCSTI ^ 1},       ALLOWED      },
        {"ioctl",             {0, TIOCSTI},           DENIED       },
        {"ioctl",             {0, HIGH | TIOCSTI},    DENIED       },
        {"ioctl",             {0, TIOCLINUX},         DENIED       },
        {"ioctl",             {0, HIGH | TIOCSETD},   DENIED       },
        {"chmod",             {0, 04755},             ALLOWED      },
        {"ptrace",            {0},                    ALLOWED      },
        {"setuid",            {0},                    ALLOWED      },
        {"openat2",           {0},                    ALLOWED      },
        {"clone3",            {0},                    ERROR(ENOSYS)},
        {"clone",             {CLONE_NEWUSER},        DENIED       },
        {"socket",            {AF_VSOCK, 1, 0},       DENIED       },
        {"socket",            {AF_ALG, 5, 0},         DENIED       },
        {"socket",            {AF_INET, SOCK_RAW, 1}, ALLOWED      },
        {"mount",             {0},                    DENIED       },
        {"unshare",           {0},                    DENIED       },
        {"open_by_handle_at", {0},                    DENIED       },
        {"io_uring_setup",    {0},                    DENIED       },
        {"personality",       {8},                    ALLOWED      },
    };
    struct made made = {0};
    make(&made, "oci", PIN_ARCH_X86_64);
    for (size_t i = 0; i < PIN_COUNT(rows); i++)
        check_row(&made, &rows[i]);
    pin_arena_free(&made.arena);
}

static void unknown_numbers_are_answered_with_enosys(void **state) {
    (void)state;
    static const uint32_t numbers[] = {335, 336, 337, 400,  423,   471,        511,
                                       512, 547, 600, 2000, 10000, 0x3fffffff, UINT32_MAX};
    for (size_t i = 0; i < PIN_COUNT(baselines); i++) {
        struct made made = {0};
        make(&made, baselines[i], PIN_ARCH_X86_64);
        for (size_t j = 0; j < PIN_COUNT(numbers); j++) {
            struct pin_filter_verdict verdict =
                pin_filter_judge(&made.filter, PIN_ARCH_X86_64, numbers[j], zeros);
            assert_int_equal(verdict.action, PIN_FILTER_ERRNO);
            assert_int_equal(verdict.error, ENOSYS);
        }
        pin_arena_free(&made.arena);
    }
}

static void on_deny_kill_kills_denied_calls_and_arguments_but_not_fallbacks(void **state) {
    (void)state;
    static const struct row rows[] = {
        {"mount",  {0},             {PIN_FILTER_KILL_PROCESS, 0, NULL}},
        {"clone",  {CLONE_NEWUSER}, {PIN_FILTER_KILL_PROCESS, 0, NULL}},
        {"clone3", {0},             ERROR(ENOSYS)                     },
        {"mseal",  {0},             ERROR(ENOSYS)                     },
        {"read",   {0},             ALLOWED                           },
    };
    struct made made = {.policy.syscalls.on_deny = PIN_ON_DENY_KILL};
    make(&made, "tool", PIN_ARCH_X86_64);
    for (size_t i = 0; i < PIN_COUNT(rows); i++)
        check_row(&made, &rows[i]);
    pin_arena_free(&made.arena);
}

static void aarch64_has_no_legacy_calls(void **state) {
    (void)state;
    struct made made = {0};
    make(&made, "tool", PIN_ARCH_AARCH64);
    for (size_t i = 0; i < made.filter.rule_count; i++) {
        assert_true(pin_syscall_number(PIN_ARCH_AARCH64, made.filter.rules[i].name) >= 0);
        assert_string_not_equal(made.filter.rules[i].name, "open");
        assert_string_not_equal(made.filter.rules[i].name, "fork");
    }
    pin_arena_free(&made.arena);
}

static void entries_add_and_take_away(void **state) {
    (void)state;
    struct pin_syscall_entry allow[] = {
        {.name = "memfd_create"}, {.name = "@aio"}, {.name = "mseal"}, {.name = "@file"}};
    struct pin_syscall_entry deny[] = {{.name = "sendfile"}, {.name = "@xattr"}, {.name = "io_cancel"}};
    struct made made = {
        .policy.syscalls = {.allow = allow, .allow_count = PIN_COUNT(allow), .deny = deny, .deny_count = 3}
    };
    make(&made, "tool", PIN_ARCH_X86_64);
    assert_true(made.good);
    static const struct row rows[] = {
        {"memfd_create", {0}, ALLOWED      },
        {"io_submit",    {0}, ALLOWED      },
        {"io_cancel",    {0}, DENIED       }, /* deny beats allow */
        {"mseal",        {0}, ALLOWED      },
        {"truncate",     {0}, ALLOWED      },
        {"cachestat",    {0}, ERROR(ENOSYS)}, /* @file doesn't grant what is younger than Linux 6.1 */
        {"sendfile",     {0}, DENIED       },
        {"getxattr",     {0}, DENIED       },
        {"read",         {0}, ALLOWED      },
    };
    for (size_t i = 0; i < PIN_COUNT(rows); i++)
        check_row(&made, &rows[i]);
    pin_arena_free(&made.arena);
}

static void a_bare_name_grants_no_more_than_its_guard(void **state) {
    (void)state;
    struct pin_syscall_entry allow[] = {{.name = "@network"}};
    struct made made = {
        .policy.syscalls = {.allow = allow, .allow_count = 1}
    };
    make(&made, "strict", PIN_ARCH_X86_64);
    assert_true(made.good);
    static const struct row rows[] = {
        {"socket", {AF_INET, SOCK_STREAM, 0},  ALLOWED},
        {"socket", {AF_VSOCK, SOCK_STREAM, 0}, DENIED },
    };
    for (size_t i = 0; i < PIN_COUNT(rows); i++)
        check_row(&made, &rows[i]);
    pin_arena_free(&made.arena);
}

static void arguments_widen_and_narrow_a_call(void **state) {
    (void)state;
    struct pin_syscall_entry allow[] = {entry_with("ioctl", is(1, 0x1234))};
    struct pin_syscall_entry deny[] = {entry_with("socket", is(0, AF_INET6)), entry_with("kill", is(1, 9)),
                                       entry_with("ioctl", is(1, TCGETS))};
    struct made made = {
        .policy.syscalls = {.allow = allow, .allow_count = 1, .deny = deny, .deny_count = 3}
    };
    make(&made, "tool", PIN_ARCH_X86_64);
    assert_true(made.good);
    static const struct row rows[] = {
        {"ioctl",  {0, 0x1234},                ALLOWED},
        {"ioctl",  {0, TIOCGWINSZ},            ALLOWED},
        {"ioctl",  {0, TCGETS},                DENIED },
        {"ioctl",  {0, HIGH | TCGETS},         DENIED },
        {"socket", {AF_INET6, SOCK_STREAM, 0}, DENIED },
        {"socket", {AF_INET, SOCK_STREAM, 0},  ALLOWED},
        {"kill",   {1, 9},                     DENIED },
        {"kill",   {1, HIGH | 9},              DENIED },
        {"kill",   {1, 15},                    ALLOWED},
        {"kill",   {1, 8},                     ALLOWED},
        {"kill",   {1, 0},                     ALLOWED},
    };
    for (size_t i = 0; i < PIN_COUNT(rows); i++)
        check_row(&made, &rows[i]);
    pin_filter_check(&made.filter, &made.found);
    assert_false(pin_found_any(&made.found));
    pin_arena_free(&made.arena);
}

struct refusal {
    struct pin_syscall_entry entry;
    enum pin_error_kind kind;
    const char *message, *hint;
};

static void assert_refused(const char *baseline, const struct refusal *refusal) {
    struct pin_syscall_entry allow[] = {refusal->entry};
    struct made made = {
        .policy.syscalls = {.allow = allow, .allow_count = 1}
    };
    make(&made, baseline, PIN_ARCH_X86_64);
    assert_false(made.good);
    assert_false(made.filter.present);
    assert_int_equal(made.found.list[0].kind, refusal->kind);
    if (strstr(made.found.list[0].message, refusal->message) == NULL ||
        strstr(made.found.list[0].hint, refusal->hint) == NULL)
        fail_msg("'%s' (%s)", made.found.list[0].message, made.found.list[0].hint);
    pin_arena_free(&made.arena);
}

static void what_breaks_the_wall_is_refused_by_name(void **state) {
    (void)state;
    const struct refusal refusals[] = {
        {{.name = "ptrace"}, PIN_ERROR_REFUSED,       "'ptrace' may not be allowed", "oci"                         },
        {{.name = "@mount"}, PIN_ERROR_REFUSED,       "of group @mount",             "oci"                         },
        {{.name = "clone3"}, PIN_ERROR_REFUSED,       "behind a pointer",            "oci"                         },
        {{.name = "*"},      PIN_ERROR_REFUSED,       "may not be allowed",          "oci"                         },
        {entry_with("ioctl", is(1,                    TIOCSTI)),                     PIN_ERROR_REFUSED,              "types into a terminal", "exact"},
        {entry_with("clone",           is(0,                                  CLONE_NEWUSER)),                                              PIN_ERROR_REFUSED,                                                              "makes a new namespace", "exact"},
        {entry_with("socket", is(0, AF_VSOCK)),PIN_ERROR_REFUSED,"hypervisor", "exact"},
        {{.name = "opneat"},              PIN_ERROR_INVALID,                           "no system call is called",                                                              "openat"                                                                                                                                     },
        {{.name = "@netwrok"},                  PIN_ERROR_INVALID,                        "no system call group",                       "@network"},
    };
    for (size_t i = 0; i < PIN_COUNT(refusals); i++)
        assert_refused("tool", &refusals[i]);
    const struct refusal inexact = {
        entry_with("ioctl", (struct pin_filter_arg){.index = 1, .op = PIN_FILTER_NE, .value = TIOCSTI}),
        PIN_ERROR_REFUSED, "types into a terminal", "exact"};
    assert_refused("build", &inexact); /* 2^32 + TIOCSTI isn't TIOCSTI to the filter, and is to the kernel */
}

static void oci_may_allow_what_walled_baselines_may_not(void **state) {
    (void)state;
    struct pin_syscall_entry allow[] = {{.name = "@mount"}, {.name = "*"}};
    struct made made = {
        .policy.syscalls = {.allow = allow, .allow_count = 2}
    };
    make(&made, "oci", PIN_ARCH_X86_64);
    assert_true(made.good);
    assert_int_equal(judge(&made, "mount", zeros).action, PIN_FILTER_ALLOW);
    assert_int_equal(judge(&made, "bpf", zeros).action, PIN_FILTER_ALLOW);
    pin_filter_check(&made.filter, &made.found);
    assert_false(pin_found_any(&made.found));
    pin_arena_free(&made.arena);
}

static void an_unknown_or_empty_baseline_is_refused(void **state) {
    (void)state;
    static const char *const names[] = {"", "tools", "Tool", "=tool", "@file"};
    for (size_t i = 0; i < PIN_COUNT(names); i++) {
        struct made made = {0};
        make(&made, names[i], PIN_ARCH_X86_64);
        assert_false(made.good);
        assert_false(made.filter.present);
        assert_string_equal(made.found.list[0].pointer, "/syscalls/baseline");
        pin_arena_free(&made.arena);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(tool_reaches_150_calls_and_strict_100),
        cmocka_unit_test(every_baseline_passes_its_own_check),
        cmocka_unit_test(walled_baselines_allow_nothing_that_is_never_allowed),
        cmocka_unit_test(tool_judges_each_row_as_written),
        cmocka_unit_test(build_guards_what_tool_lacks),
        cmocka_unit_test(oci_allows_all_ioctls_but_three),
        cmocka_unit_test(unknown_numbers_are_answered_with_enosys),
        cmocka_unit_test(on_deny_kill_kills_denied_calls_and_arguments_but_not_fallbacks),
        cmocka_unit_test(aarch64_has_no_legacy_calls),
        cmocka_unit_test(entries_add_and_take_away),
        cmocka_unit_test(a_bare_name_grants_no_more_than_its_guard),
        cmocka_unit_test(arguments_widen_and_narrow_a_call),
        cmocka_unit_test(what_breaks_the_wall_is_refused_by_name),
        cmocka_unit_test(oci_may_allow_what_walled_baselines_may_not),
        cmocka_unit_test(an_unknown_or_empty_baseline_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
