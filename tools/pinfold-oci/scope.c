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
#include "base/names.h"
#include "base/user_namespace.h"
#include "runtime/bundle/systemd_property.h"
#include "runtime/host/libexec.h"
#include "tools/pinfold-oci/ceiling.h"

enum { NAME_ROOM = 256, WORDS_ROOM = 256, CGROUP_BYTES_MAX = 64 * 1024, PROPERTIES_MAX = 32 };

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
    const char *slice = geteuid() == 0 && !pin_in_user_namespace() ? "system.slice" : "user.slice";
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

/* "a-b.slice" is /a.slice/a-b.slice; "-.slice" is the top. Source: systemd.slice(5) */
const char *pin_oci_scope_place(const char *asked, const char *id, struct pin_arena *arena,
                                struct pin_error *err) {
    struct unit unit;
    const char *path = "";
    if (!parse(asked, id, &unit, err))
        return NULL;
    size_t length = strlen(unit.slice), ending = strlen(".slice");
    if (length <= ending || strcmp(unit.slice + length - ending, ".slice") != 0) {
        (void)pin_fail(err, PIN_ERROR_INVALID, "cgroupsPath names no slice: \"%.80s\"", unit.slice);
        return NULL;
    }
    for (size_t i = 1; i <= length - ending && strcmp(unit.slice, "-.slice") != 0; i++)
        if (unit.slice[i] == '-' || i == length - ending)
            path = pin_arena_printf(arena, "%s/%.*s.slice", path, (int)i, unit.slice);
    return pin_arena_printf(arena, "%s/%s", path, unit.name);
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

/* Which processes the unit has, and where it is, is not the bundle's to say; nor that its group is handed to
 * us. */
static bool check_property(const struct pin_systemd_property *property, struct pin_error *err) {
    static const char *const ours[] = {"PIDs", "PIDFDs", "Slice", "Controller"};
    for (size_t i = 0; i < PIN_COUNT(ours); i++)
        if (strcmp(property->name, ours[i]) == 0)
            return pin_fail(err, PIN_ERROR_INVALID, "is the runtime's to choose");
    return strcmp(property->name, "Delegate") != 0 || property->list ||
           (property->type == 'b' && property->items[0].number == 1) ||
           pin_fail(err, PIN_ERROR_INVALID, "has to be true");
}

/* Read here as well, so that what is wrong is named; the program reads it again. */
static bool add_properties(const struct pin_bundle *bundle, const char **argv, size_t count,
                           struct pin_error *err) {
    static struct pin_systemd_property property;
    size_t first = count;
    for (size_t i = 0; i < bundle->annotation_count; i++) {
        const char *key = bundle->annotations[i].key, *name = pin_systemd_property_of(key);
        if (name == NULL)
            continue;
        if (count + 2 > first + 2 * PROPERTIES_MAX)
            (void)pin_fail(err, PIN_ERROR_INVALID, "more than %d properties of the unit", PROPERTIES_MAX);
        else if (pin_systemd_property_parse(name, bundle->annotations[i].value, &property, err) &&
                 check_property(&property, err)) {
            argv[count++] = name;
            argv[count++] = bundle->annotations[i].value;
            continue;
        }
        (void)pin_point(err, "config.json /annotations");
        return pin_wrap(err, "annotation %.100s", key);
    }
    argv[count] = NULL;
    return true;
}

/* What the program says in its one line is the reason. */
static bool ask_systemd(pid_t holder, const struct unit *unit, const struct pin_bundle *bundle,
                        struct pin_error *err) {
    char program[PATH_MAX], pid[16], said[WORDS_ROOM] = "";
    int ends[2], status = 0;
    (void)snprintf(pid, sizeof(pid), "%d", (int)holder);
    const char *argv[4 + 2 * PROPERTIES_MAX + 1] = {program, pid, unit->name, unit->slice};
    if (!add_properties(bundle, argv, 4, err) || !pin_libexec_find("pinfold-scope", program, err))
        return false;
    posix_spawn_file_actions_t actions;
    pid_t child;
    if (pipe2(ends, O_CLOEXEC) != 0)
        return pin_fail_errno(err, "ask systemd");
    PIN_CLOSE int ours = ends[0];
    PIN_CLOSE int theirs = ends[1];
    (void)posix_spawn_file_actions_init(&actions);
    (void)posix_spawn_file_actions_adddup2(&actions, theirs, STDERR_FILENO);
    errno = posix_spawn(&child, program, &actions, NULL, (char **)(uintptr_t)argv, environ);
    (void)posix_spawn_file_actions_destroy(&actions);
    if (errno != 0)
        return pin_fail_errno(err, "start '%s', which asks systemd", program);
    pin_close_fd(&theirs);
    ssize_t got = read(ours, said, sizeof(said) - 1);
    said[got > 0 ? got : 0] = '\0';
    said[strcspn(said, "\n")] = '\0';
    while (waitpid(child, &status, 0) < 0 && errno == EINTR)
        ;
    if (WIFEXITED(status) && WEXITSTATUS(status) == 0)
        return true;
    (void)pin_fail(err, PIN_ERROR_SYSTEM, "systemd gives no scope '%s': %s", unit->name, said);
    return pin_hint(err, "where systemd doesn't run, choose cgroupfs as the engine's manager");
}

/* What a line of /proc/PID/cgroup says, as the hierarchy's mount shows it: "" where it says nothing of use.
 */
static void read_line(const char *text, const char *label, const struct pin_cgroup_hierarchy *hierarchy,
                      char below[PIN_CGROUP_PATH]) {
    char line[PIN_CGROUP_PATH] = "";
    const char *at = strstr(text, label);
    if (at != NULL)
        (void)snprintf(line, sizeof(line), "%.*s", (int)strcspn(at + strlen(label), "\n"),
                       at + strlen(label));
    at = pin_cgroup_below_mount(hierarchy, line);
    (void)snprintf(below, PIN_CGROUP_PATH, "%s", at != NULL ? at : "");
}

/* Where systemd has put the holder: on version 1 the hierarchy that has its name says so. */
static bool find_place(const struct pin_cgroup_facts *cgroups, struct pin_oci_scope *scope,
                       struct pin_error *err) {
    char file[64], unified[PIN_CGROUP_PATH] = "", place[PIN_CGROUP_PATH] = "";
    size_t size;
    (void)snprintf(file, sizeof(file), "/proc/%d/cgroup", (int)scope->holder);
    PIN_FREE char *text = pin_read_file_at(AT_FDCWD, file, CGROUP_BYTES_MAX, &size, err);
    if (text == NULL)
        return false;
    if (cgroups->unified >= 0)
        read_line(text, "0::", &cgroups->hierarchies[cgroups->unified], unified);
    if (cgroups->kind == PIN_CGROUP_V2)
        memcpy(place, unified, sizeof(place));
    else
        read_line(text, ":name=systemd:", &cgroups->tracking, place);
    int path = snprintf(scope->path, sizeof(scope->path), "%s/container", place);
    int folder = 0;
    if (unified[0] != '\0' && strcmp(unified, place) == 0)
        folder = snprintf(scope->folder, sizeof(scope->folder), "%s%s/holder",
                          cgroups->hierarchies[cgroups->unified].mount, place);
    return (place[0] != '\0' && path > 0 && (size_t)path < sizeof(scope->path) && folder >= 0 &&
            (size_t)folder < sizeof(scope->folder)) ||
           pin_fail(err, PIN_ERROR_SYSTEM, "systemd's scope has no cgroup that can be named");
}

/* A group of version 2 that hands controllers down may have no process of its own. */
static bool step_aside(const struct pin_oci_scope *scope, struct pin_error *err) {
    char pid[16];
    (void)snprintf(pid, sizeof(pid), "%d", (int)scope->holder);
    if (scope->folder[0] == '\0')
        return true;
    if (mkdir(scope->folder, 0755) != 0)
        return pin_fail_errno(err, "make the cgroup '%s'", scope->folder);
    PIN_CLOSE int dir = open(scope->folder, O_PATH | O_DIRECTORY | O_CLOEXEC);
    return dir >= 0 ? pin_write_value_at(dir, "cgroup.procs", pid, err)
                    : pin_fail_errno(err, "open the cgroup '%s'", scope->folder);
}

/* Version 1 has groups of root's alone, and a unit only where systemd's own hierarchy is to be seen. */
static bool can_serve(const struct pin_cgroup_facts *cgroups, struct pin_error *err) {
    if (cgroups->kind == PIN_CGROUP_V2)
        return true;
    if (geteuid() != 0 || pin_in_user_namespace())
        return pin_fail(
            err, PIN_ERROR_UNSUPPORTED,
            "systemd hands an ordinary user no cgroup of version 1, choose cgroupfs as the engine's "
            "manager");
    if (cgroups->tracking.mount[0] != '\0' && !cgroups->tracking.read_only)
        return true;
    return pin_fail(
        err, PIN_ERROR_UNSUPPORTED,
        "systemd's own cgroup hierarchy can't be written to here, choose cgroupfs as the manager");
}

bool pin_oci_scope_make(const struct pin_cgroup_facts *cgroups, const struct pin_bundle *bundle,
                        const char *id, struct pin_oci_scope *scope, struct pin_error *err) {
    struct unit unit;
    if (!can_serve(cgroups, err))
        return false;
    if (parse(bundle->cgroups_path, id, &unit, err) && start_holder(scope, err) &&
        ask_systemd(scope->holder, &unit, bundle, err) && find_place(cgroups, scope, err) &&
        step_aside(scope, err))
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
    if (scope->folder[0] != '\0')
        (void)rmdir(scope->folder);
}
