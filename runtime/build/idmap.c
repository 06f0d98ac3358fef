#include "runtime/build/idmap.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <spawn.h>
#include <stdalign.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/io.h"

static bool write_map(pid_t pid, const char *file, const struct pin_id_map *maps, size_t count,
                      uint32_t range, struct pin_error *err) {
    char path[64], text[512];
    size_t used = 0;
    for (size_t i = 0; i < count && used < sizeof(text); i++)
        used += (size_t)snprintf(text + used, sizeof(text) - used, "%u %u %u\n", maps[i].inside,
                                 maps[i].outside + range, maps[i].count);
    (void)snprintf(path, sizeof(path), "/proc/%d/%s", (int)pid, file);
    return used < sizeof(text) ? pin_write_value_at(AT_FDCWD, path, text, err)
                               : pin_fail(err, PIN_ERROR_INVALID, "too many id mappings");
}

/* newuidmap PID INSIDE OUTSIDE COUNT …: the set-uid helper that checks /etc/subuid for us. */
static bool run_helper(const char *program, pid_t pid, const struct pin_id_map *maps, size_t count,
                       struct pin_error *err) {
    char words[2 + 3 * 8][16];
    char *argv[3 + 3 * 8] = {words[0]};
    if (count > 8)
        return pin_fail(err, PIN_ERROR_INVALID, "too many id mappings");
    size_t n = 0;
    (void)snprintf(words[n++], sizeof(words[0]), "%s", program);
    (void)snprintf(words[n++], sizeof(words[0]), "%d", (int)pid);
    for (size_t i = 0; i < count; i++) {
        (void)snprintf(words[n++], sizeof(words[0]), "%u", maps[i].inside);
        (void)snprintf(words[n++], sizeof(words[0]), "%u", maps[i].outside);
        (void)snprintf(words[n++], sizeof(words[0]), "%u", maps[i].count);
    }
    for (size_t i = 0; i < n; i++)
        argv[i] = words[i];
    char path[32], *environment[] = {NULL};
    (void)snprintf(path, sizeof(path), "/usr/bin/%s", program);
    pid_t helper;
    int failed = posix_spawn(&helper, path, NULL, NULL, argv, environment);
    if (failed != 0) {
        errno = failed;
        (void)pin_fail_errno(err, "run '%s'", path);
        return pin_hint(err, "install the package uidmap");
    }
    int status;
    while (waitpid(helper, &status, 0) < 0 && errno == EINTR)
        ;
    if (status != 0) {
        (void)pin_fail(err, PIN_ERROR_REFUSED, "'%s' refused the sandbox's id map", program);
        return pin_hint(err, "see /etc/subuid and /etc/subgid for this user's ranges");
    }
    return true;
}

bool pin_idmap_write(const struct pin_plan *plan, uint32_t range, pid_t pid, struct pin_error *err) {
    if (plan->uid_map_count == 0) /* of an engine's container without a user namespace of its own */
        return true;
    if (plan->map_method == PIN_MAP_HELPERS)
        return run_helper("newuidmap", pid, plan->uid_maps, plan->uid_map_count, err) &&
               run_helper("newgidmap", pid, plan->gid_maps, plan->gid_map_count, err);
    uint32_t first = plan->ranged ? range : 0;
    char setgroups[64];
    (void)snprintf(setgroups, sizeof(setgroups), "/proc/%d/setgroups", (int)pid);
    if (!plan->may_set_groups && !pin_write_value_at(AT_FDCWD, setgroups, "deny", err))
        return false;
    return write_map(pid, "uid_map", plan->uid_maps, plan->uid_map_count, first, err) &&
           write_map(pid, "gid_map", plan->gid_maps, plan->gid_map_count, first, err);
}

/* Not even a kill of ours may leave it behind; when that came before the first line, it has another parent.
 */
__attribute__((noreturn)) static int wait_to_be_killed(void *parent) {
    (void)prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
    while (getppid() == *(const pid_t *)parent)
        (void)pause();
    _exit(0);
}

int pin_idmap_namespace(const struct pin_id_map *uids, const struct pin_id_map *gids, struct pin_error *err) {
    return pin_idmap_namespace_of(uids, 1, gids, 1, err);
}

int pin_idmap_namespace_of(const struct pin_id_map *uids, size_t uid_count, const struct pin_id_map *gids,
                           size_t gid_count, struct pin_error *err) {
    /* The child shares our memory and never returns from pause(), so a fork's page tables aren't copied for
     * it. */
    alignas(16) char stack[8 * 1024];
    pid_t ours = getpid();
    pid_t pid = clone(wait_to_be_killed, stack + sizeof(stack), CLONE_NEWUSER | CLONE_VM | SIGCHLD, &ours);
    if (pid < 0) {
        (void)pin_fail_errno(err, "make a user namespace for an idmapped mount");
        return -1;
    }
    char path[64];
    (void)snprintf(path, sizeof(path), "/proc/%d/ns/user", (int)pid);
    int ns = -1;
    if (write_map(pid, "uid_map", uids, uid_count, 0, err) &&
        write_map(pid, "gid_map", gids, gid_count, 0, err)) {
        ns = open(path, O_RDONLY | O_CLOEXEC);
        if (ns < 0)
            (void)pin_fail_errno(err, "open '%s'", path);
    }
    (void)kill(pid, SIGKILL);
    while (waitpid(pid, NULL, 0) < 0 && errno == EINTR)
        ;
    return ns;
}
