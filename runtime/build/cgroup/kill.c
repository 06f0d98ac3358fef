#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/io.h"
#include "base/units.h"
#include "runtime/build/cgroup/files.h"
#include "runtime/build/cgroup/group.h"

#define PROCS_LIMIT ((size_t)16 * 1024 * 1024)
#define FIRST_PAUSE_NS UINT64_C(50000)
#define KILL_NS (100 * PIN_NS_PER_MS)

enum { BATCH = 64, DEPTH_MOST = 64 };

/* One pass over a group and the groups below it. */
struct pass {
    size_t found; /* processes */
    int depth;
    struct pin_error *err;
};

static bool is_gone(const struct pin_error *err) {
    return err->os_errno == ENOENT || err->os_errno == ENODEV;
}

/* *text is NULL for a group that was removed meanwhile. */
static bool read_procs(int dir, char **text, struct pin_error *err) {
    struct pin_error found = {0};
    size_t size = 0;
    *text = pin_read_file_at(dir, "cgroup.procs", PROCS_LIMIT, &size, &found);
    if (*text != NULL || is_gone(&found))
        return true;
    *err = found;
    return false;
}

/* Steps to the next pid; 0 at the end. A process that our pid namespace doesn't show is a 0 in the file. */
static pid_t next_pid(const char **at, bool *hidden) {
    while (**at != '\0') {
        char *end;
        long pid = strtol(*at, &end, 10);
        *at = *end == '\n' ? end + 1 : end + strlen(end);
        if (pid > 0)
            return (pid_t)pid;
        *hidden = true;
    }
    return 0;
}

static bool is_listed(const char *text, pid_t pid) {
    bool hidden;
    for (pid_t listed = next_pid(&text, &hidden); listed != 0; listed = next_pid(&text, &hidden))
        if (listed == pid)
            return true;
    return false;
}

/* A number that was read may belong to another process by now. So each is opened first, and signalled only
 * when the group, read once more, still names it: either the descriptor is of the one in the group, or it is
 * of a dead one. */
static bool kill_batch(int dir, const pid_t *pids, size_t count, struct pin_error *err) {
    int fds[BATCH];
    for (size_t i = 0; i < count; i++)
        fds[i] = (int)syscall(SYS_pidfd_open, pids[i], 0);
    PIN_FREE char *again = NULL;
    bool ok = read_procs(dir, &again, err);
    for (size_t i = 0; i < count; i++) {
        if (ok && fds[i] >= 0 && again != NULL && is_listed(again, pids[i]))
            (void)syscall(SYS_pidfd_send_signal, fds[i], SIGKILL, NULL, 0); /* ESRCH: it is dead already */
        pin_close_slot(&fds[i]);
    }
    return ok;
}

static bool kill_procs(int dir, struct pass *pass) {
    PIN_FREE char *text = NULL;
    if (!read_procs(dir, &text, pass->err))
        return false;
    const char *at = text != NULL ? text : "";
    bool hidden = false;
    for (;;) {
        pid_t pids[BATCH];
        size_t count = 0;
        while (count < BATCH && (pids[count] = next_pid(&at, &hidden)) != 0)
            count++;
        pass->found += count;
        if (count == 0)
            break;
        if (!kill_batch(dir, pids, count, pass->err))
            return false;
    }
    return !hidden || pin_fail(pass->err, PIN_ERROR_UNSUPPORTED,
                               "a process of the cgroup is in no pid namespace of ours");
}

/* Visits a group below, which is no fault where it has gone meanwhile. */
static bool go_below(struct pass *pass, int parent, const char *name,
                     bool (*visit)(int dir, struct pass *pass)) {
    PIN_CLOSE int dir = openat(parent, name, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (dir < 0)
        return errno == ENOENT || pin_fail_errno(pass->err, "open a cgroup below");
    if (++pass->depth > DEPTH_MOST)
        return pin_fail(pass->err, PIN_ERROR_INVALID, "the cgroups below are nested too deeply");
    bool ok = visit(dir, pass);
    pass->depth--;
    return ok;
}

static bool kill_below(void *context, int parent, const char *name);

static bool kill_all(int dir, struct pass *pass) {
    return kill_procs(dir, pass) && pin_cgroup_children(dir, kill_below, pass);
}

static bool kill_below(void *context, int parent, const char *name) {
    return go_below(context, parent, name, kill_all);
}

/* Those that were signalled need a moment to leave, and one that forks meanwhile leaves a child: so it is
 * repeated until a pass finds nobody, or for a while: a process that waits for a disk isn't waited for. */
static bool kill_dir(const struct pin_cgroup_dir *dir, struct pin_error *err) {
    uint64_t deadline = pin_now_ns() + KILL_NS, pause = FIRST_PAUSE_NS;
    for (;;) {
        struct pass pass = {.err = err};
        if (!kill_all(dir->fd, &pass))
            return err->kind == PIN_ERROR_NONE ? pin_fail_errno(err, "list the cgroups below") : false;
        if (pass.found == 0 || !pin_cgroup_pause(deadline, &pause))
            return true;
    }
}

static bool kill_one(const struct pin_cgroup_dir *dir, struct pin_error *err) {
    if (dir->v2 && pin_cgroup_file_write(dir->fd, "cgroup.kill", "1"))
        return true;
    if (dir->v2 && errno != ENOENT) /* before Linux 5.14 */
        return pin_fail_errno(err, "write to 'cgroup.kill'");
    return kill_dir(dir, err);
}

static size_t searched(const struct pin_cgroup *group) {
    return group->same_processes && group->count > 1 ? 1 : group->count;
}

/* True when all that is there now has its signal: whoever is found afterwards was found before. */
static bool kill_listed(int dir, bool *whole, struct pin_error *err) {
    struct pass pass = {.err = err};
    PIN_FREE char *before = NULL, *after = NULL;
    if (!read_procs(dir, &before, err) || !kill_procs(dir, &pass) || !read_procs(dir, &after, err))
        return false;
    const char *at = after != NULL ? after : "";
    bool known = true, hidden = false;
    for (pid_t pid; known && (pid = next_pid(&at, &hidden)) != 0;)
        known = before != NULL && is_listed(before, pid);
    *whole = known && !hidden;
    return true;
}

static void end_forks(const struct pin_cgroup *group) {
    const struct pin_cgroup_dir *pids = pin_cgroup_dir_of(group, PIN_CGROUP_PIDS);
    const struct pin_cgroup_dir *freezer = pin_cgroup_dir_of(group, PIN_CGROUP_FREEZER);
    if (pids != NULL && !pids->v2)
        (void)pin_cgroup_file_write(pids->fd, "pids.max", "0"); /* no more forks: makes it quick, not right */
    if (freezer != NULL && !freezer->v2)
        (void)pin_cgroup_file_write(freezer->fd, "freezer.state", "THAWED"); /* the frozen don't die */
}

bool pin_cgroup_kill(const struct pin_cgroup *group, struct pin_error *err) {
    end_forks(group);
    for (size_t i = 0; i < searched(group); i++)
        if (!kill_one(&group->dirs[i], err))
            return pin_wrap(err, "kill the processes of the cgroup '%s'", group->path);
    return true;
}

bool pin_cgroup_strike(const struct pin_cgroup *group, bool *whole, struct pin_error *err) {
    const struct pin_cgroup_dir *dir = &group->dirs[0];
    *whole = false;
    if (searched(group) != 1)
        return pin_cgroup_kill(group, err);
    if (dir->v2 && pin_cgroup_file_write(dir->fd, "cgroup.kill", "1")) {
        *whole = true;
        return true;
    }
    end_forks(group);
    return kill_listed(dir->fd, whole, err) ||
           pin_wrap(err, "kill the processes of the cgroup '%s'", group->path);
}

static bool count_below(void *context, int parent, const char *name);

static bool count_procs(int dir, struct pass *pass) {
    PIN_FREE char *text = NULL;
    if (!read_procs(dir, &text, pass->err))
        return false;
    pass->found += text != NULL && text[0] != '\0';
    return pass->found > 0 || pin_cgroup_children(dir, count_below, pass);
}

static bool count_below(void *context, int parent, const char *name) {
    return go_below(context, parent, name, count_procs);
}

/* Version 1 counts there who is in the group or below it, from before a fork until it is reaped. That
 * somebody is counted says nothing, since a zombie is. */
static bool counts_nobody(const struct pin_cgroup *group, const struct pin_cgroup_dir *dir) {
    uint64_t count = 0;
    return !dir->v2 && dir == pin_cgroup_dir_of(group, PIN_CGROUP_PIDS) &&
           pin_cgroup_counter_u64(group, PIN_CGROUP_COUNT_PIDS, dir, "pids.current", &count) && count == 0;
}

static bool is_dir_empty(const struct pin_cgroup *group, const struct pin_cgroup_dir *dir, bool *empty,
                         struct pin_error *err) {
    char text[256];
    uint64_t populated = 0;
    struct pass pass = {.err = err};
    if (counts_nobody(group, dir)) {
        *empty = true;
        return true;
    }
    if (dir->v2 && pin_cgroup_file_read(dir->fd, "cgroup.events", text, sizeof(text)) > 0 &&
        pin_cgroup_flat_key(text, "populated", &populated)) {
        *empty = populated == 0;
        return true;
    }
    if (!count_procs(dir->fd, &pass))
        return err->kind == PIN_ERROR_NONE ? pin_fail_errno(err, "list the cgroups below") : false;
    *empty = pass.found == 0;
    return true;
}

bool pin_cgroup_is_empty(const struct pin_cgroup *group, bool *empty, struct pin_error *err) {
    bool all = true;
    for (size_t i = 0; all && i < searched(group); i++)
        if (!is_dir_empty(group, &group->dirs[i], &all, err))
            return pin_wrap(err, "see who is in the cgroup '%s'", group->path);
    *empty = all;
    return true;
}

bool pin_cgroup_wait_empty(const struct pin_cgroup *group, uint64_t timeout_ns, struct pin_error *err) {
    uint64_t deadline = pin_now_ns() + timeout_ns, pause = FIRST_PAUSE_NS;
    for (;;) {
        bool empty = false;
        if (!pin_cgroup_is_empty(group, &empty, err))
            return false;
        if (empty)
            return true;
        if (!pin_cgroup_pause(deadline, &pause))
            break;
    }
    (void)pin_fail(err, PIN_ERROR_BUSY, "processes are still in the cgroup '%s'", group->path);
    return pin_hint(err,
                    "look at /proc/PID/stack of those in its cgroup.procs: a killed one may wait for a disk");
}
