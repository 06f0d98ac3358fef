#include <errno.h>
#include <fcntl.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/names.h"
#include "runtime/build/cgroup/cgroup.h"
#include "runtime/build/cgroup/files.h"

/* What limits need; a controller that wasn't delegated is found missing later, by its limit. */
static const enum pin_cgroup_controller wanted[] = {PIN_CGROUP_MEMORY, PIN_CGROUP_CPU, PIN_CGROUP_PIDS};

static bool say(struct pin_cgroup_facts *facts, const char *why, const char *hint) {
    (void)snprintf(facts->why, sizeof(facts->why), "%s", why);
    (void)snprintf(facts->hint, sizeof(facts->hint), "%s", hint);
    facts->hierarchies[facts->unified].usable = false;
    return false;
}

static bool is_handed_down(int base, const char *name) {
    char text[512];
    if (pin_cgroup_file_read(base, "cgroup.subtree_control", text, sizeof(text)) < 0)
        return false;
    size_t size = strlen(name);
    for (const char *at = text; *at != '\0'; at += strspn(at, " \n")) {
        size_t word = strcspn(at, " \n");
        if (word == size && strncmp(at, name, size) == 0)
            return true;
        at += word;
    }
    return false;
}

/* "+memory +pids": those that are delegated and not yet handed down. */
static void list_lacking(const struct pin_cgroup_hierarchy *unified, int base, char list[128]) {
    list[0] = '\0';
    for (size_t i = 0; i < PIN_COUNT(wanted); i++) {
        const char *name = pin_cgroup_controller_name(wanted[i], true);
        size_t used = strlen(list);
        if ((unified->controllers & 1u << wanted[i]) != 0 && !is_handed_down(base, name))
            (void)snprintf(list + used, 128 - used, "%s+%s", used > 0 ? " " : "", name);
    }
}

static bool is_alone(int base) {
    char text[64], own[24];
    (void)snprintf(own, sizeof(own), "%d\n", (int)getpid());
    ssize_t size = pin_cgroup_file_read(base, "cgroup.procs", text, sizeof(text));
    return size == 0 || (size > 0 && strcmp(text, own) == 0);
}

/* A group that hands controllers down may have no processes of its own (cgroup-v2.rst, "No Internal Process
 * Constraint"): we step down into a leaf beside our groups. */
static bool step_into_leaf(const struct pin_cgroup_facts *facts, int base) {
    char leaf[64], pid[24];
    (void)snprintf(leaf, sizeof(leaf), "%s-self", facts->group);
    (void)snprintf(pid, sizeof(pid), "%d", (int)getpid());
    if (mkdirat(base, leaf, 0755) != 0 && errno != EEXIST)
        return false;
    PIN_CLOSE int dir = openat(base, leaf, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    return dir >= 0 && pin_cgroup_file_write(dir, "cgroup.procs", pid);
}

static bool settle(struct pin_cgroup_facts *facts) {
    struct pin_cgroup_hierarchy *unified = &facts->hierarchies[facts->unified];
    PIN_CLOSE int base =
        unified->usable ? open(unified->base, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC) : -1;
    char lacking[128];
    if (base < 0)
        return false; /* facts say why */
    list_lacking(unified, base, lacking);
    if (lacking[0] == '\0')
        return true;
    if (!is_alone(base))
        return say(facts, "other processes are in the cgroup that is delegated to this user",
                   "run pinfold in a scope of its own: systemd-run --user --scope -p Delegate=yes");
    if (!step_into_leaf(facts, base) || !pin_cgroup_file_write(base, "cgroup.subtree_control", lacking))
        return say(facts, "the cgroup that is delegated to this user can't be divided",
                   "run pinfold in a scope of its own: systemd-run --user --scope -p Delegate=yes");
    return true;
}

static pid_t spawn_scope(const char *program, int complaints) {
    char pid[24];
    (void)snprintf(pid, sizeof(pid), "%d", (int)getpid());
    char *name = strdup(program);
    char *const argv[] = {name, pid, NULL};
    posix_spawn_file_actions_t actions;
    pid_t child = -1;
    if (name == NULL || posix_spawn_file_actions_init(&actions) != 0) {
        free(name);
        return -1;
    }
    if (posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0) != 0 ||
        posix_spawn_file_actions_adddup2(&actions, complaints, 1) != 0 ||
        posix_spawn_file_actions_adddup2(&actions, complaints, 2) != 0 ||
        posix_spawn(&child, program, &actions, NULL, argv, environ) != 0)
        child = -1;
    (void)posix_spawn_file_actions_destroy(&actions);
    free(name);
    return child;
}

/* The last line that the program said is the reason. */
static void read_complaint(int from, char text[128]) {
    size_t used = 0;
    for (ssize_t got = 1; got > 0 && used<127; used += got> 0 ? (size_t)got : 0)
        got = read(from, text + used, 127 - used);
    text[used] = '\0';
    text[strcspn(text, "\n")] = '\0';
}

static bool run_scope_program(const char *program, char complaint[128]) {
    int ends[2] = {-1, -1}, status = -1;
    (void)snprintf(complaint, 128, "'%s' can't be run", program);
    if (pipe2(ends, O_CLOEXEC) != 0)
        return false;
    pid_t child = spawn_scope(program, ends[1]);
    pin_close_fd(&ends[1]);
    if (child > 0) {
        read_complaint(ends[0], complaint);
        while (waitpid(child, &status, 0) < 0 && errno == EINTR)
            ;
    }
    pin_close_fd(&ends[0]);
    return child > 0 && status == 0;
}

/* The scope moves this process, so that all facts about its own place are new. */
static void move_into_scope(struct pin_cgroup_facts *facts, const char *program) {
    char complaint[128], group[sizeof(facts->group)], first[sizeof(facts->why)];
    struct pin_error none = {0};
    memcpy(group, facts->group, sizeof(group));
    memcpy(first, facts->why, sizeof(first));
    if (!run_scope_program(program, complaint)) {
        (void)snprintf(facts->why, sizeof(facts->why), "%.70s, and no scope from systemd: %.60s", first,
                       complaint);
        return;
    }
    if (pin_cgroup_facts_get(group, facts, &none))
        (void)settle(facts);
}

void pin_cgroup_prepare(struct pin_cgroup_facts *facts, const char *scope_program) {
    if (facts->privileged || facts->kind != PIN_CGROUP_V2)
        return;
    if (!settle(facts) && scope_program != NULL)
        move_into_scope(facts, scope_program);
}
