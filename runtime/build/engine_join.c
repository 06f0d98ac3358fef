#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <linux/sched.h>

#include "base/cleanup.h"
#include "base/io.h"
#include "runtime/build/engine.h"
#include "runtime/plan/plan_parts.h"

#ifndef CLONE_NEWTIME
#define CLONE_NEWTIME 0x80
#endif

bool pin_engine_groups_open(const struct pin_cgroup *group, bool with_trees,
                            const struct pin_cgroup_facts *cgroups, struct pin_engine_groups *groups,
                            struct pin_error *err) {
    int dir;
    const char *name;
    *groups = (struct pin_engine_groups){.v2_alone = cgroups->kind == PIN_CGROUP_V2,
                                         .tracking = cgroups->tracking.mount[0] != '\0'};
    if (group == NULL)
        return true;
    int count = pin_cgroup_entrances(group, groups->entrances, err);
    if (count < 0)
        return false;
    groups->entrance_count = count;
    for (size_t i = 0; with_trees && pin_cgroup_directory(group, i, &dir, &name); i++) {
        int tree = open_tree(dir, "", AT_EMPTY_PATH | OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC);
        if (tree < 0)
            return pin_fail_errno(err, "show the cgroup '%s'", name);
        groups->trees[groups->tree_count] = tree;
        groups->names[groups->tree_count++] = name;
    }
    return true;
}

void pin_engine_groups_close(struct pin_engine_groups *groups) {
    while (groups->entrance_count > 0)
        (void)close(groups->entrances[--groups->entrance_count]);
    while (groups->tree_count > 0)
        (void)close(groups->trees[--groups->tree_count]);
}

bool pin_engine_needs_helper(const struct pin_plan *plan, const struct pin_engine_build *engine) {
    bool needed = engine->container >= 0 || plan->engine.time_offsets != NULL;
    for (int ns = 0; ns < PIN_NS_COUNT; ns++)
        needed |= plan->engine.join[ns] != NULL && ns != PIN_NS_MOUNT;
    return needed;
}

/* Asked of what will be joined, not of its name; ours is the engine's, that of process 1 the host's. */
static bool is_hosts(int fd, enum pin_namespace ns) {
    static const char *const files[PIN_NS_COUNT] = {
        [PIN_NS_USER] = "user", [PIN_NS_MOUNT] = "mnt", [PIN_NS_PID] = "pid",       [PIN_NS_NETWORK] = "net",
        [PIN_NS_IPC] = "ipc",   [PIN_NS_UTS] = "uts",   [PIN_NS_CGROUP] = "cgroup", [PIN_NS_TIME] = "time",
    };
    static const char *const whose[] = {"self", "1"};
    struct stat joined, own;
    if (fstat(fd, &joined) != 0)
        return true;
    for (size_t i = 0; i < sizeof(whose) / sizeof(whose[0]); i++) {
        char path[64];
        (void)snprintf(path, sizeof(path), "/proc/%s/ns/%s", whose[i], files[ns]);
        if (stat(path, &own) == 0 && own.st_dev == joined.st_dev && own.st_ino == joined.st_ino)
            return true;
    }
    return false;
}

/* The user namespace last where it is joined by path: the others may belong to the caller's. */
static bool refuse_path(const struct pin_plan *plan, enum pin_namespace ns, struct pin_error *err) {
    const char *path = plan->engine.join[ns];
    (void)pin_fail(err, PIN_ERROR_REFUSED, "'%s' is the host's own %s namespace", path,
                   pin_namespace_name(ns));
    (void)pin_hint(err, "the policy's /engine/shares doesn't have it");
    return pin_point(err, "config.json /linux/namespaces");
}

static bool fail_join(enum pin_namespace ns, const char *path, struct pin_error *err) {
    return pin_fail_errno(err, "join the %s namespace '%s'", pin_namespace_name(ns), path) ||
           pin_point(err, "/linux/namespaces");
}

/* Each is opened before any is joined: a path is one of ours. A file of another kind of namespace is refused
 * by the kernel. */
static bool join_paths(const struct pin_plan *plan, struct pin_error *err) {
    static const enum pin_namespace order[] = {PIN_NS_NETWORK, PIN_NS_IPC,  PIN_NS_UTS, PIN_NS_PID,
                                               PIN_NS_CGROUP,  PIN_NS_TIME, PIN_NS_USER};
    enum { COUNT = sizeof(order) / sizeof(order[0]) };
    int fds[COUNT]; /* closed by the end of the helper, or by that of the steps */
    for (size_t i = 0; i < COUNT; i++) {
        const char *path = plan->engine.join[order[i]];
        fds[i] = path != NULL ? open(path, O_RDONLY | O_CLOEXEC) : -1;
        if (path != NULL && fds[i] < 0)
            return fail_join(order[i], path, err);
        if (path != NULL && (plan->engine.foreign & 1u << order[i]) != 0 && is_hosts(fds[i], order[i]))
            return refuse_path(plan, order[i], err);
    }
    for (size_t i = 0; i < COUNT; i++)
        if (fds[i] >= 0 && setns(fds[i], (int)pin_plan_clone_flags[order[i]]) != 0)
            return fail_join(order[i], plan->engine.join[order[i]], err);
    return true;
}

/* CVE-2016-9962: what enters a container is seen by its processes before it has let go of the host, and one
 * of them that has every capability that we have may open our descriptors. Where there are id maps to write,
 * an ordinary user's would be out of its own reach. */
static bool hide(const struct pin_engine_build *engine, struct pin_error *err) {
    bool writes_maps = engine->container < 0 && geteuid() != 0;
    return writes_maps || prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) == 0 || pin_fail_errno(err, "hide the helper");
}

bool pin_oom_score_set(const struct pin_plan *plan, pid_t pid, struct pin_error *err) {
    char path[64], value[16];
    if (!plan->has_oom_score_adj)
        return true;
    (void)snprintf(path, sizeof(path), "/proc/%d/oom_score_adj", (int)pid);
    (void)snprintf(value, sizeof(value), "%d", plan->oom_score_adj);
    return pin_write_value_at(AT_FDCWD, path, value, err);
}

/* The child inherits the score: once the helper is hidden, an ordinary user can't write its own. */
static bool prepare(const struct pin_plan *plan, const struct pin_engine_build *engine,
                    struct pin_error *err) {
    if (!pin_oom_score_set(plan, getpid(), err) || !hide(engine, err))
        return false;
    if (engine->container >= 0 && engine->joins != 0 && setns(engine->container, (int)engine->joins) != 0)
        return pin_fail_errno(err, "join the namespaces of the container");
    if (!join_paths(plan, err))
        return false;
    if (plan->engine.time_offsets == NULL)
        return true;
    /* the offsets are taken until the first process enters: time_namespaces(7) */
    if (unshare(CLONE_NEWTIME) != 0)
        return pin_fail_errno(err, "make a time namespace");
    return pin_write_value_at(AT_FDCWD, "/proc/self/timens_offsets", plan->engine.time_offsets, err);
}

struct told { /* by the helper, in memory that we share */
    pid_t pid;
    struct pin_error err;
};

bool pin_engine_join_mounts(const struct pin_plan *plan, struct pin_error *err) {
    const char *path = plan->engine.join[PIN_NS_MOUNT];
    if (path == NULL)
        return true;
    PIN_CLOSE int fd = open(path, O_RDONLY | O_CLOEXEC);
    return (fd >= 0 && setns(fd, CLONE_NEWNS) == 0) ||
           pin_fail_errno(err, "join the mount namespace '%s'", path);
}

/* From within a cgroup namespace nobody moves out of what is not to be seen from there, and we come from
 * outside ("nsdelegate", as systemd mounts version 2): then the helper has to be in the group already, which
 * takes one more of its processes for a moment. Where the child may, it enters the namespace by itself. */
static bool joins_cgroups(const struct pin_plan *plan, const struct pin_engine_build *engine) {
    return (engine->container >= 0 && (engine->joins & (uint64_t)CLONE_NEWCGROUP) != 0) ||
           plan->engine.join[PIN_NS_CGROUP] != NULL;
}

/* As fork(2), into the group where there is one. */
static pid_t clone_into(int cgroup, uint64_t flags) {
    struct clone_args args = {.flags = flags,
                              .exit_signal = (flags & (uint64_t)CLONE_PARENT) != 0 ? 0 : SIGCHLD};
    if (cgroup >= 0) {
        args.flags |= (uint64_t)CLONE_INTO_CGROUP;
        args.cgroup = (unsigned)cgroup;
    }
    return (pid_t)syscall(SYS_clone3, &args, sizeof(args));
}

pid_t pin_engine_clone(const struct pin_plan *plan, const struct pin_engine_build *engine, uint64_t flags,
                       int cgroup, int *pidfd, struct pin_error *err) {
    struct told *told = mmap(NULL, sizeof(*told), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (told == MAP_FAILED) {
        (void)pin_fail_errno(err, "map the helper's answer");
        return -1;
    }
    bool first = joins_cgroups(plan, engine);
    pid_t helper = clone_into(first ? cgroup : -1, 0);
    if (helper == 0) {
        if (plan->engine.time_offsets != NULL)
            flags &= ~(uint64_t)CLONE_NEWTIME;
        if (!prepare(plan, engine, &told->err))
            _exit(1);
        pid_t pid = clone_into(first ? -1 : cgroup, flags | (uint64_t)CLONE_PARENT);
        if (pid == 0)
            return 0;
        if (pid < 0)
            (void)pin_fail_errno(&told->err, "make the namespaces");
        told->pid = pid;
        _exit(0);
    }
    if (helper < 0)
        (void)pin_fail_errno(err, "start a helper");
    while (helper > 0 && waitpid(helper, NULL, 0) < 0 && errno == EINTR)
        ;
    pid_t pid = helper > 0 ? told->pid : -1;
    if (pid <= 0 && helper > 0 && pin_is_set(&told->err))
        *err = told->err;
    else if (pid <= 0 && !pin_is_set(err))
        (void)pin_fail(err, PIN_ERROR_SYSTEM, "the helper that joins the namespaces died");
    (void)munmap(told, sizeof(*told));
    if (pid <= 0)
        return -1;
    *pidfd = (int)syscall(SYS_pidfd_open, pid, 0); /* our child and not reaped: the number is its own */
    return pid;
}
