#include "tools/pinfold-oci/scope.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/io.h"
#include "runtime/host/libexec.h"
#include "tools/pinfold-oci/ceiling.h"

enum { NAME_ROOM = 256, WORDS_ROOM = 256, CGROUP_BYTES_MAX = 64 * 1024 };

struct unit {
    char name[NAME_ROOM], slice[NAME_ROOM];
};

static bool fits(char *to, const char *text, size_t length, struct pin_error *err) {
    if (length >= NAME_ROOM)
        return pin_fail(err, PIN_ERROR_INVALID, "cgroupsPath is too long for a unit of systemd");
    (void)snprintf(to, NAME_ROOM, "%.*s", (int)length, text);
    return true;
}

static bool parse(const char *asked, const char *id, struct unit *unit, struct pin_error *err) {
    char prefix[NAME_ROOM] = "pinfold-oci", name[NAME_ROOM];
    const char *slice = geteuid() == 0 ? "system.slice" : "user.slice";
    (void)snprintf(unit->slice, sizeof(unit->slice), "%s", slice);
    if (!fits(name, id, strlen(id), err))
        return false;
    if (asked != NULL && asked[0] != '\0') {
        const char *first = strchr(asked, ':'), *second = first == NULL ? NULL : strchr(first + 1, ':');
        if (second == NULL || strchr(second + 1, ':') != NULL)
            return pin_fail(err, PIN_ERROR_INVALID,
                            "expected cgroupsPath to be of format \"slice:prefix:name\" for systemd cgroups, "
                            "got \"%.80s\" instead",
                            asked);
        if ((first > asked && !fits(unit->slice, asked, (size_t)(first - asked), err)) ||
            !fits(prefix, first + 1, (size_t)(second - first) - 1, err) ||
            !fits(name, second + 1, strlen(second + 1), err))
            return false;
    }
    const char *dash = prefix[0] != '\0' ? "-" : "";
    int length = snprintf(unit->name, sizeof(unit->name), "%s%s%s.scope", prefix, dash, name);
    return (length > 0 && (size_t)length < sizeof(unit->name) && strchr(unit->name, '/') == NULL &&
            strchr(unit->slice, '/') == NULL) ||
           pin_fail(err, PIN_ERROR_INVALID, "cgroupsPath gives no name of a unit: \"%.80s\"", asked);
}

static bool start_holder(struct pin_oci_scope *scope, struct pin_error *err) {
    scope->holder = fork();
    if (scope->holder == 0) {
        (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
        for (;;)
            (void)pause();
    }
    if (scope->holder > 0)
        return true;
    scope->holder = 0;
    return pin_fail_errno(err, "hold a place for the container");
}

/* What the program says in its one line is the reason. */
static bool ask_systemd(pid_t holder, const struct unit *unit, struct pin_error *err) {
    char program[PATH_MAX], pid[16], said[WORDS_ROOM] = "";
    int ends[2], status = 0;
    if (!pin_libexec_find("pinfold-scope", program, err))
        return false;
    (void)snprintf(pid, sizeof(pid), "%d", (int)holder);
    char *argv[] = {program, pid, (char *)(uintptr_t)unit->name, (char *)(uintptr_t)unit->slice, NULL};
    posix_spawn_file_actions_t actions;
    pid_t child;
    if (pipe2(ends, O_CLOEXEC) != 0)
        return pin_fail_errno(err, "ask systemd");
    PIN_CLOSE int ours = ends[0];
    PIN_CLOSE int theirs = ends[1];
    (void)posix_spawn_file_actions_init(&actions);
    (void)posix_spawn_file_actions_adddup2(&actions, theirs, STDERR_FILENO);
    errno = posix_spawn(&child, program, &actions, NULL, argv, environ);
    (void)posix_spawn_file_actions_destroy(&actions);
    if (errno != 0)
        return pin_fail_errno(err, "start '%s', which asks systemd", program);
    pin_close_fd(&theirs);
    ssize_t got = read(ours, said, sizeof(said) - 1);
    said[got > 0 ? got : 0] = '\0';
    said[strcspn(said, "\n")] = '\0';
    while (waitpid(child, &status, 0) < 0 && errno == EINTR)
        ;
    return (WIFEXITED(status) && WEXITSTATUS(status) == 0) ||
           pin_fail(err, PIN_ERROR_SYSTEM, "systemd gives no scope '%s': %s", unit->name, said);
}

/* Where systemd has put the holder. */
static bool find_place(const struct pin_cgroup_facts *cgroups, struct pin_oci_scope *scope,
                       struct pin_error *err) {
    char file[64], line[PIN_CGROUP_PATH + 8] = "";
    size_t size;
    (void)snprintf(file, sizeof(file), "/proc/%d/cgroup", (int)scope->holder);
    PIN_FREE char *text = pin_read_file_at(AT_FDCWD, file, CGROUP_BYTES_MAX, &size, err);
    if (text == NULL)
        return false;
    const char *at = strstr(text, "0::/");
    (void)snprintf(line, sizeof(line), "%.*s", at != NULL ? (int)strcspn(at + 3, "\n") : 0,
                   at != NULL ? at + 3 : "");
    const char *mount = cgroups->hierarchies[cgroups->unified].mount;
    int path = snprintf(scope->path, sizeof(scope->path), "%s/container", line);
    int folder = snprintf(scope->folder, sizeof(scope->folder), "%s%s/holder", mount, line);
    return (at != NULL && path > 0 && (size_t)path < sizeof(scope->path) && folder > 0 &&
            (size_t)folder < sizeof(scope->folder)) ||
           pin_fail(err, PIN_ERROR_SYSTEM, "systemd's scope has no cgroup that can be named");
}

/* A group that hands controllers down may have no process of its own. */
static bool step_aside(const struct pin_oci_scope *scope, struct pin_error *err) {
    char pid[16];
    (void)snprintf(pid, sizeof(pid), "%d", (int)scope->holder);
    if (mkdir(scope->folder, 0755) != 0)
        return pin_fail_errno(err, "make the cgroup '%s'", scope->folder);
    PIN_CLOSE int dir = open(scope->folder, O_PATH | O_DIRECTORY | O_CLOEXEC);
    return dir >= 0 ? pin_write_value_at(dir, "cgroup.procs", pid, err)
                    : pin_fail_errno(err, "open the cgroup '%s'", scope->folder);
}

bool pin_oci_scope_make(const struct pin_cgroup_facts *cgroups, const char *asked, const char *id,
                        struct pin_oci_scope *scope, struct pin_error *err) {
    struct unit unit;
    if (cgroups->kind != PIN_CGROUP_V2)
        return pin_fail(err, PIN_ERROR_UNSUPPORTED,
                        "the systemd cgroup manager needs cgroup v2 alone, choose cgroupfs as the engine's "
                        "manager");
    if (parse(asked, id, &unit, err) && start_holder(scope, err) && ask_systemd(scope->holder, &unit, err) &&
        find_place(cgroups, scope, err) && step_aside(scope, err))
        return true;
    pin_oci_scope_release(scope);
    return false;
}

void pin_oci_scope_release(struct pin_oci_scope *scope) {
    if (scope->holder <= 0)
        return;
    (void)kill(scope->holder, SIGKILL); /* our child, not reaped: the number is its own */
    while (waitpid(scope->holder, NULL, 0) < 0 && errno == EINTR)
        ;
    scope->holder = 0;
    (void)rmdir(scope->folder);
}
