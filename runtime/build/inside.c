#include "runtime/build/inside.h"

#include <errno.h>
#include <fcntl.h>
#include <net/if.h>
#include <sched.h>
#include <signal.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <linux/close_range.h>
#include <linux/keyctl.h>

#include "base/cleanup.h"
#include "base/io.h"
#include "base/names.h"
#include "runtime/build/cgroup/cgroup.h"
#include "runtime/build/channel.h"
#include "runtime/build/credentials.h"
#include "runtime/build/landlock.h"
#include "runtime/build/mounts.h"
#include "runtime/build/seccomp/load.h"

struct state { /* what one step leaves for a later one */
    const struct pin_inside *inside;
    struct pin_mounts mounts;
    int null;
    int init; /* the sealed copy of init */
};

#define INIT_FD (PIN_INIT_CONTROL_FD + 1)
static const char init_path[] = "/proc/self/fd/4";

static bool tie_to_parent(struct state *state, struct pin_error *err) {
    (void)state; /* the wait below also ends us when the parent died before this line */
    if (prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0) != 0)
        return pin_fail_errno(err, "die with the supervisor");
    return true;
}

static bool enter_identity(struct state *state, struct pin_error *err) {
    int none[PIN_CHANNEL_FDS_MAX], count;
    return pin_channel_wait(state->inside->control, PIN_SYNC_MAPPED, none, &count, err) &&
           pin_credentials_enter(state->inside->plan, err);
}

static bool set_names(struct state *state, struct pin_error *err) {
    const struct pin_plan *plan = state->inside->plan;
    const char *domain = plan->domainname != NULL ? plan->domainname : "(none)";
    if (plan->hostname != NULL && sethostname(plan->hostname, strlen(plan->hostname)) != 0)
        return pin_fail_errno(err, "set the host name");
    if (setdomainname(domain, strlen(domain)) != 0)
        return pin_fail_errno(err, "set the domain name");
    return true;
}

static bool assemble_root(struct state *state, struct pin_error *err) {
    (void)umask(0); /* modes are the plan's */
    state->null = open("/dev/null", O_RDWR | O_CLOEXEC | O_NOCTTY);
    if (state->null < 0)
        return pin_fail_errno(err, "open '/dev/null'");
    if (!pin_mounts_make(state->inside->plan, state->inside->sources, &state->mounts, err))
        return false;
    return state->mounts.changes < 0 ||
           pin_channel_send_changes(state->inside->control, state->mounts.changes, err);
}

static bool raise_loopback(struct state *state, struct pin_error *err) {
    if (!state->inside->plan->raise_loopback)
        return true;
    struct ifreq request = {.ifr_name = "lo", .ifr_flags = IFF_UP | IFF_RUNNING};
    PIN_CLOSE int any = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (any < 0 || ioctl(any, SIOCSIFFLAGS, &request) != 0)
        return pin_fail_errno(err, "raise the loopback interface");
    return true;
}

static bool prepare_egress(struct state *state, struct pin_error *err) {
    const struct pin_plan *plan = state->inside->plan;
    struct pin_egress_sockets sockets;
    if (!plan->egress)
        return true;
    if (!pin_egress_inside(&plan->egress_plan, &sockets, err))
        return false;
    bool sent = pin_channel_send_egress(state->inside->control, &sockets, err);
    pin_egress_close(&sockets);
    return sent;
}

static bool enter_root(struct state *state, struct pin_error *err) {
    return pin_mounts_enter(state->inside->plan, &state->mounts, err);
}

static bool enter_cgroup(struct state *state, struct pin_error *err) {
    int fds[PIN_CHANNEL_FDS_MAX], count;
    if (!pin_channel_wait(state->inside->control, PIN_SYNC_EQUIPPED, fds, &count, err))
        return false;
    if (count < 1)
        return pin_fail(err, PIN_ERROR_INTERNAL, "init wasn't handed over");
    state->init = fds[0];
    if (!pin_cgroup_enter(fds + 1, count - 1, err))
        return false;
    /* made only now, so that its root is the sandbox's own group: cgroup_namespaces(7) */
    if ((state->inside->plan->clone_flags & CLONE_NEWCGROUP) && unshare(CLONE_NEWCGROUP) != 0)
        return pin_fail_errno(err, "make a cgroup namespace");
    return true;
}

static bool leave_session(struct state *state, struct pin_error *err) {
    if (setsid() < 0) /* a terminal of the host's would take TIOCSTI from inside */
        return pin_fail_errno(err, "leave the session of the caller");
    if (state->inside->plan->new_keyring &&
        syscall(SYS_keyctl, KEYCTL_JOIN_SESSION_KEYRING, NULL, 0, 0, 0) < 0 && errno != ENOSYS)
        return pin_fail_errno(err, "join a new session keyring");
    return true;
}

static bool set_rlimits(struct state *state, struct pin_error *err) {
    const struct pin_plan *plan = state->inside->plan;
    for (size_t i = 0; i < plan->rlimit_count; i++) {
        const struct pin_plan_rlimit *asked = &plan->rlimits[i];
        struct rlimit limit = {asked->soft, asked->hard}, now;
        if (getrlimit((__rlimit_resource_t)asked->resource, &now) != 0)
            return pin_fail_errno(err, "read resource limit %d", asked->resource);
        if (setrlimit((__rlimit_resource_t)asked->resource, &limit) == 0)
            continue;
        if (errno == EPERM &&
            now.rlim_max < limit.rlim_max) { /* ours is lower still: the sandbox gets that */
            limit.rlim_max = now.rlim_max;
            limit.rlim_cur = limit.rlim_cur < now.rlim_max ? limit.rlim_cur : now.rlim_max;
            if (setrlimit((__rlimit_resource_t)asked->resource, &limit) == 0)
                continue;
        }
        return pin_fail_errno(err, "set resource limit %d", asked->resource);
    }
    return true;
}

/* 0, 1, 2: /dev/null; 3: the control socket; 4: init itself, closed by its execution; nothing else. */
static bool close_unlisted(struct state *state, struct pin_error *err) {
    int control = fcntl(state->inside->control, F_DUPFD_CLOEXEC, 16),
        init = fcntl(state->init, F_DUPFD_CLOEXEC, 16);
    bool ok = control >= 0 && init >= 0;
    for (int fd = 0; ok && fd <= 2; fd++)
        ok = dup2(state->null, fd) == fd;
    ok = ok && dup2(control, PIN_INIT_CONTROL_FD) >= 0 && dup3(init, INIT_FD, O_CLOEXEC) >= 0;
    if (!ok || syscall(SYS_close_range, INIT_FD + 1, ~0u, 0) != 0)
        return pin_fail_errno(err, "close the descriptors");
    return true;
}

static bool drop_credentials(struct state *state, struct pin_error *err) {
    /* a change of credentials clears it: prctl(2) */
    return pin_credentials_drop(state->inside->plan, err) && tie_to_parent(state, err);
}

static bool forbid_new_privileges(struct state *state, struct pin_error *err) {
    if (state->inside->plan->no_new_privileges && prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0)
        return pin_fail_errno(err, "set no_new_privs");
    return true;
}

static bool restrict_paths(struct state *state, struct pin_error *err) {
    const struct pin_plan *plan = state->inside->plan;
    return !plan->landlock || pin_landlock_restrict(plan->landlock_abi, plan->bundle->ext.landlock.write,
                                                    plan->bundle->ext.landlock.write_count, err);
}

static bool load_filter(struct state *state, struct pin_error *err) {
    return state->inside->filter == NULL || pin_program_load(state->inside->filter, err);
}

struct build_step {
    const char *name;
    bool (*apply)(struct state *state, struct pin_error *err);
};

static const struct build_step steps[] = {
    {"lifeline",     tie_to_parent        },
    {"identity",     enter_identity       }, /* the parent has written the maps; host id 0 is in none */
    {"names",        set_names            },
    {"mounts",       assemble_root        },
    {"network",      raise_loopback       },
    {"egress",       prepare_egress       }, /* its sockets leave for the broker; nothing of them stays here */
    {"pivot",        enter_root           }, /* from here on no host path can be named */
    {"cgroup",       enter_cgroup         }, /* of version 1; a v2 group was entered at birth */
    {"session",      leave_session        },
    {"limits",       set_rlimits          },
    {"descriptors",  close_unlisted       }, /* only what the plan lists stays open across exec */
    {"credentials",  drop_credentials     }, /* groups, gid, uid; bounding, ambient, permitted sets */
    {"no_new_privs", forbid_new_privileges}, /* Landlock and seccomp below need it */
    {"landlock",     restrict_paths       },
    {"seccomp",      load_filter          }, /* last: it needn't allow any call made above */
};

const char *const *pin_inside_steps(void) {
    static const char *names[PIN_COUNT(steps) + 1];
    for (size_t i = 0; i < PIN_COUNT(steps); i++)
        names[i] = steps[i].name;
    return names;
}

_Noreturn void pin_inside_run(const struct pin_inside *inside) {
    struct state state = {
        .inside = inside, .mounts = {-1, -1, -1},
             .init = -1, .null = -1
    };
    struct pin_error err = {0};
    int control = inside->control;
    for (size_t i = 0; i < PIN_COUNT(steps); i++) {
        if (!steps[i].apply(&state, &err)) {
            (void)pin_wrap(&err, "step '%s'", steps[i].name);
            pin_channel_send_failure(control, &err);
            _exit(125);
        }
        if (steps[i].apply == close_unlisted)
            control = PIN_INIT_CONTROL_FD;
    }
    static char name[] = "pinfold-init";
    char *argv[] = {name, NULL}, *environment[] = {NULL};
    /* execveat(2) is in no baseline but the widest: a root without /proc needs a filter that allows it */
    (void)execve(init_path, argv, environment);
    if (errno == ENOENT)
        (void)execveat(INIT_FD, "", argv, environment, AT_EMPTY_PATH);
    (void)pin_fail_errno(&err, "execute init");
    pin_channel_send_failure(control, &err);
    _exit(125);
}
