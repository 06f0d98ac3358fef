#include "runtime/build/inside.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <sched.h>
#include <signal.h>
#include <string.h>
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
#include "runtime/build/dispositions.h"
#include "runtime/build/hooks.h"
#include "runtime/build/landlock.h"
#include "runtime/build/mounts.h"
#include "runtime/build/network.h"
#include "runtime/build/seccomp/load.h"
#include "runtime/build/watch.h"

struct state { /* what one step leaves for a later one */
    const struct pin_inside *inside;
    struct pin_mounts mounts;
    bool equipped; /* PIN_SYNC_EQUIPPED was taken */
    int null;
    int init;     /* the sealed copy of init */
    int report;   /* where a failure is told: the control socket, later the connection that started us */
    int start;    /* a listening socket; -1: none */
    int listener; /* where the listener of the filter is sent; -1: it has none */
    char *program;
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

/* What is in a container that we join, or in a namespace of processes that others have made, may trace us and
 * read our memory and descriptors as soon as it has no less than our credentials, which is before our filter
 * is loaded. It may not while we aren't dumpable; the command is again, by its execution. CVE-2016-9962 */
static bool hide_memory(struct state *state, struct pin_error *err) {
    const struct pin_plan *plan = state->inside->plan;
    bool watched = plan->engine.joins_container || plan->engine.join[PIN_NS_PID] != NULL;
    return !watched || prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) == 0 ||
           pin_fail_errno(err, "hide the memory from the container");
}

static bool set_names(struct state *state, struct pin_error *err) {
    const struct pin_plan *plan = state->inside->plan;
    const char *domain = plan->domainname != NULL || plan->engine.direct ? plan->domainname : "(none)";
    if (plan->hostname != NULL && sethostname(plan->hostname, strlen(plan->hostname)) != 0)
        return pin_fail_errno(err, "set the host name");
    if (domain != NULL && setdomainname(domain, strlen(domain)) != 0)
        return pin_fail_errno(err, "set the domain name");
    return true;
}

static bool assemble_root(struct state *state, struct pin_error *err) {
    (void)umask(0); /* modes are the plan's */
    state->mounts.groups = state->inside->groups;
    state->null = open("/dev/null", O_RDWR | O_CLOEXEC | O_NOCTTY);
    if (state->null < 0)
        return pin_fail_errno(err, "open '/dev/null'");
    if (!pin_mounts_make(state->inside->plan, state->inside->sources, &state->mounts, err))
        return false;
    return (state->mounts.changes < 0 ||
            pin_channel_send_changes(state->inside->control, state->mounts.changes, err)) &&
           (state->mounts.upper < 0 ||
            pin_channel_send_upper(state->inside->control, state->mounts.upper, err));
}

static bool raise_loopback(struct state *state, struct pin_error *err) {
    return !state->inside->plan->raise_loopback || state->inside->has_loopback ||
           pin_network_raise_loopback(err);
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

/* By any socket of it a network namespace is known: ioctl SIOCGSKNS. */
static bool open_door(struct state *state, struct pin_error *err) {
    if (state->inside->plan->publish_count == 0)
        return true;
    PIN_CLOSE int door = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (door < 0)
        return pin_fail_errno(err, "make a socket of the sandbox's network");
    return pin_channel_send_door(state->inside->control, door, err);
}

static bool enter_root(struct state *state, struct pin_error *err) {
    return pin_engine_join_mounts(state->inside->plan, err) &&
           pin_mounts_enter(state->inside->plan, &state->mounts, err);
}

/* made only once we are in it, so that its root is the sandbox's own group: cgroup_namespaces(7) */
static bool make_cgroup_namespace(const struct pin_plan *plan, struct pin_error *err) {
    if ((plan->clone_flags & CLONE_NEWCGROUP) && unshare(CLONE_NEWCGROUP) != 0)
        return pin_fail_errno(err, "make a cgroup namespace");
    return true;
}

/* Before the mounts, since they show it. */
static bool enter_container_cgroup(struct state *state, struct pin_error *err) {
    const struct pin_engine_groups *groups = state->inside->groups;
    int joined = state->inside->engine->cgroup_space;
    if (joined >= 0 && setns(joined, CLONE_NEWCGROUP) != 0)
        return pin_fail_errno(err, "join the cgroup namespace of the container");
    return pin_cgroup_enter(groups->entrances, groups->entrance_count, err) &&
           make_cgroup_namespace(state->inside->plan, err);
}

static bool set_system(struct state *state, struct pin_error *err) {
    return pin_engine_set_system(state->inside->plan, err);
}

static bool enter_cgroup(struct state *state, struct pin_error *err) {
    int fds[PIN_CHANNEL_FDS_MAX], count;
    if (state->equipped)
        return true;
    if (!pin_channel_wait(state->inside->control, PIN_SYNC_EQUIPPED, fds, &count, err))
        return false;
    state->equipped = true;
    if (state->inside->engine != NULL)
        return true;
    if (count < 1)
        return pin_fail(err, PIN_ERROR_INTERNAL, "init wasn't handed over");
    state->init = fds[0];
    if (!pin_cgroup_enter(fds + 1, count - 1, err))
        return false;
    return make_cgroup_namespace(state->inside->plan, err);
}

static bool run_hooks(struct state *state, struct pin_error *err) {
    const struct pin_engine_build *engine = state->inside->engine;
    int none[PIN_CHANNEL_FDS_MAX], count;
    return engine->state == NULL ||
           (enter_cgroup(state, err) && /* what the maker has sent already is taken first */
            pin_channel_send_ready(state->report, err) &&
            pin_channel_wait(state->report, PIN_SYNC_HOOKED, none, &count, err) &&
            pin_hooks_run(state->inside->plan->bundle, PIN_HOOK_CREATE_CONTAINER, engine->state, NULL, err));
}

static bool open_terminal(struct state *state, struct pin_error *err) {
    return pin_engine_open_terminal(state->inside->plan, state->inside->engine->console, err);
}

static bool set_scheduling(struct state *state, struct pin_error *err) {
    return pin_engine_set_scheduling(state->inside->plan, err);
}

static bool find_program(struct state *state, struct pin_error *err) {
    return pin_engine_find_program(state->inside->plan, state->program, err);
}

static bool await_start(struct state *state, struct pin_error *err) {
    const struct pin_bundle *bundle = state->inside->plan->bundle;
    const char *told = state->inside->engine->state;
    int none[PIN_CHANNEL_FDS_MAX], count;
    /* from here on the end of the socket ends us, until we are told that we may outlive it */
    if (prctl(PR_SET_PDEATHSIG, 0, 0, 0, 0) != 0)
        return pin_fail_errno(err, "outlive the maker");
    if (!pin_channel_send_ready(state->report, err) ||
        !pin_channel_wait(state->report, PIN_SYNC_KEEP, none, &count, err))
        return false;
    int control = state->report;
    if (state->start >= 0) {
        if (!pin_engine_await_start(state->start, &state->report, err))
            return false;
        (void)close(control);
    }
    return told == NULL || pin_hooks_run(bundle, PIN_HOOK_START_CONTAINER, told, NULL, err);
}

static bool finish_credentials(struct state *state, struct pin_error *err) {
    return pin_credentials_finish(state->inside->plan, err);
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
        const struct rlimit limit = {asked->soft, asked->hard};
        if (setrlimit((__rlimit_resource_t)asked->resource, &limit) != 0)
            return pin_fail_errno(err, "set resource limit %d", asked->resource);
    }
    return true;
}

/* What the caller holds open may reach beyond the sandbox's own limit, and then nothing can be duplicated. */
static bool close_but(int kept[], int count) {
    unsigned from = STDERR_FILENO + 1;
    for (int i = 1; i < count; i++)
        for (int j = i; j > 0 && kept[j - 1] > kept[j]; j--) {
            int larger = kept[j - 1];
            kept[j - 1] = kept[j];
            kept[j] = larger;
        }
    for (int i = 0; i < count; i++) {
        unsigned fd = (unsigned)kept[i];
        if (fd > from && syscall(SYS_close_range, from, fd - 1, 0) != 0)
            return false;
        from = fd >= from ? fd + 1 : from;
    }
    return syscall(SYS_close_range, from, ~0u, 0) == 0;
}

/* 0, 1, 2: /dev/null; 3: the control socket; 4: init itself, closed by its execution; nothing else. */
static bool close_unlisted(struct state *state, struct pin_error *err) {
    if (state->inside->engine != NULL)
        return pin_engine_close_unlisted(state->inside->plan, &state->report, &state->start, &state->listener,
                                         err);
    int kept[] = {state->inside->control, state->init, state->null};
    if (!close_but(kept, PIN_COUNT(kept)))
        return pin_fail_errno(err, "close the caller's descriptors");
    int control = fcntl(state->inside->control, F_DUPFD_CLOEXEC, INIT_FD + 1),
        init = fcntl(state->init, F_DUPFD_CLOEXEC, INIT_FD + 1);
    bool ok = control >= 0 && init >= 0;
    for (int fd = 0; ok && fd <= 2; fd++)
        ok = dup2(state->null, fd) == fd;
    ok = ok && dup2(control, PIN_INIT_CONTROL_FD) >= 0 && dup3(init, INIT_FD, O_CLOEXEC) >= 0;
    if (!ok || syscall(SYS_close_range, INIT_FD + 1, ~0u, 0) != 0)
        return pin_fail_errno(err, "close the descriptors");
    state->report = PIN_INIT_CONTROL_FD;
    return true;
}

static bool drop_credentials(struct state *state, struct pin_error *err) {
    if (!pin_credentials_drop(state->inside->plan, err))
        return false;
    /* a change of credentials clears the one, and sets the other to fs.suid_dumpable: prctl(2) */
    return state->inside->engine != NULL ? hide_memory(state, err) : tie_to_parent(state, err);
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
    const struct pin_inside *inside = state->inside;
    if (inside->watched)
        return pin_watch_load(inside->filter, state->report, err);
    /* the policy's first: it lets the bundle's be loaded, which need not let it */
    if (inside->ceiling != NULL && !pin_program_load(inside->ceiling, err))
        return false;
    if (inside->filter == NULL)
        return true;
    return state->listener < 0 ? pin_program_load(inside->filter, err)
                               : pin_engine_load_notify(inside->filter, state->listener, inside->engine->told,
                                                        strlen(inside->engine->told), err);
}

enum made_for { SANDBOX = 1, CONTAINER = 2, JOINING = 4, EACH = 7 }; /* a process that joins a container */

struct build_step {
    const char *name;
    bool (*apply)(struct state *state, struct pin_error *err);
    unsigned made_for; /* set of enum made_for */
};

static const struct build_step steps[] = {
    {"lifeline",     tie_to_parent,          EACH               },
    {"identity",     enter_identity,         EACH               }, /* the parent has written the maps; host id 0 is in none */
    {"memory",       hide_memory,            CONTAINER | JOINING},
    {"names",        set_names,              SANDBOX | CONTAINER},
    {"group",        enter_container_cgroup, CONTAINER | JOINING},
    {"system",       set_system,             CONTAINER | JOINING}, /* settings of the namespaces, by the host's procfs */
    {"network",      raise_loopback,         SANDBOX | CONTAINER},
    {"egress",       prepare_egress,
     SANDBOX | CONTAINER                                        }, /* its sockets leave for the broker, which starts meanwhile */
    {"mounts",       assemble_root,          SANDBOX | CONTAINER},
    {"publish",      open_door,              SANDBOX            }, /* what the process that lets the host in joins the network by */
    {"hooks",        run_hooks,              CONTAINER          }, /* the last look at the host */
    {"pivot",        enter_root,             SANDBOX | CONTAINER}, /* from here on no host path can be named */
    {"cgroup",       enter_cgroup,           EACH               }, /* of version 1; a v2 group was entered at birth */
    {"session",      leave_session,          EACH               },
    {"terminal",     open_terminal,          CONTAINER | JOINING},
    {"scheduling",   set_scheduling,         CONTAINER | JOINING},
    {"limits",       set_rlimits,            SANDBOX            },
    {"descriptors",  close_unlisted,         EACH               }, /* only what the plan lists stays open across exec */
    {"program",      find_program,           CONTAINER | JOINING},
    {"start",        await_start,            CONTAINER | JOINING}, /* between create and start it stays here */
    {"limits",       set_rlimits,            CONTAINER | JOINING}, /* a few descriptors would not do for the steps above */
    {"credentials",  drop_credentials,       EACH               }, /* groups, gid, uid; bounding, ambient, permitted sets */
    {"no_new_privs", forbid_new_privileges,  EACH               }, /* Landlock and seccomp below need it */
    {"landlock",     restrict_paths,         SANDBOX | CONTAINER},
    {"seccomp",      load_filter,            EACH               }, /* last: it needn't allow any call made above */
    {"capabilities", finish_credentials,
     CONTAINER | JOINING                                        }, /* but this one, where a filter needs CAP_SYS_ADMIN */
};

const char *const *pin_inside_steps(void) {
    static const char *names[PIN_COUNT(steps) + 1];
    size_t count = 0;
    for (size_t i = 0; i < PIN_COUNT(steps); i++)
        if (steps[i].made_for & SANDBOX)
            names[count++] = steps[i].name;
    return names;
}

_Noreturn static void give_up(const struct state *state, struct pin_error *err) {
    pin_channel_send_failure(state->report, err);
    _exit(state->inside->engine == NULL ? 125 : err->kind == PIN_ERROR_NOT_FOUND ? 127 : 126);
}

_Noreturn static void execute_process(struct state *state) {
    const struct pin_plan *plan = state->inside->plan;
    struct pin_error err = {0};
    (void)umask(plan->bundle->process.has_umask ? plan->bundle->process.umask : 0022);
    (void)execve(state->program, plan->engine.argv, plan->engine.envp);
    (void)pin_fail_errno(&err, "exec: \"%s\"", plan->engine.argv[0]);
    give_up(state, &err);
}

_Noreturn static void execute_init(const struct state *state) {
    static char name[] = "pinfold-init";
    struct pin_error err = {0};
    char *argv[] = {name, NULL}, *environment[] = {NULL};
    pin_dispositions_reset(*state->inside->ignored);
    /* execveat(2) is in no baseline but the widest: a root without /proc needs a filter that allows it */
    (void)execve(init_path, argv, environment);
    if (errno == ENOENT)
        (void)syscall(SYS_execveat, INIT_FD, "", argv, environment, AT_EMPTY_PATH);
    (void)pin_fail_errno(&err, "execute init");
    give_up(state, &err);
}

_Noreturn void pin_inside_run(const struct pin_inside *inside) {
    static char program[PATH_MAX];
    struct state state = {
        .inside = inside,
        .mounts = {.root = -1,
                   .null = -1,
                   .changes = -1,
                   .upper = -1,
                   .proc = -1,
                   .sys = -1,
                   .blank = -1,
                   .empty = -1,
                   .folder = {.fd = -1}},
        .init = -1,
        .null = -1,
        .report = inside->control,
        .start = inside->engine != NULL ? inside->engine->start : -1,
        .listener = inside->engine != NULL ? inside->engine->listener : -1,
        .program = program,
    };
    struct pin_error err = {0};
    unsigned made = inside->engine == NULL                 ? SANDBOX
                    : inside->plan->engine.joins_container ? JOINING
                                                           : CONTAINER;
    for (size_t i = 0; i < PIN_COUNT(steps); i++) {
        if ((steps[i].made_for & made) == 0 || steps[i].apply(&state, &err))
            continue;
        (void)pin_wrap(&err, "step '%s'", steps[i].name);
        give_up(&state, &err);
    }
    if (inside->engine != NULL)
        execute_process(&state);
    execute_init(&state);
}
