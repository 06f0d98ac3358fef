#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/units.h"
#include "runtime/build/cgroup/files.h"
#include "runtime/build/cgroup/group.h"

#define CLEAN_NS                                                                                             \
    (500 * PIN_NS_PER_MS) /* every command sweeps: one that can't be killed mustn't stop them all */
#define FIRST_PAUSE_NS UINT64_C(50000)

enum { DEPTH_MOST = 64 };

static bool remove_below(void *context, int parent, const char *name);

/* False with errno; EBUSY while somebody is in it. */
static bool remove_directory(int parent, const char *name, int *depth) {
    if (unlinkat(parent, name, AT_REMOVEDIR) == 0 || errno == ENOENT)
        return true;
    if (errno != EBUSY && errno != ENOTEMPTY)
        return false;
    PIN_CLOSE int dir = openat(parent, name, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (dir < 0)
        return errno == ENOENT;
    errno = ELOOP;
    if (++*depth > DEPTH_MOST || !pin_cgroup_children(dir, remove_below, depth))
        return false;
    --*depth;
    return unlinkat(parent, name, AT_REMOVEDIR) == 0 || errno == ENOENT;
}

static bool remove_below(void *context, int parent, const char *name) {
    return remove_directory(parent, name, context);
}

/* Where systemd makes no groups for its units we have made the unit's, and those of its slices, which are
 * used no more when they are empty. Elsewhere the slices are systemd's, and so is the unit where it looks for
 * it: it takes a unit for ended by that. */
static void remove_unit(const struct pin_cgroup_dir *dir, char *full) {
    static const uint32_t of_systemd = 1u << PIN_CGROUP_CPU | 1u << PIN_CGROUP_MEMORY | 1u << PIN_CGROUP_IO |
                                       1u << PIN_CGROUP_DEVICES | 1u << PIN_CGROUP_PIDS;
    bool ours = (dir->controllers & of_systemd) == 0;
    size_t top = strlen(dir->base);
    if (dir->v2 || dir->controllers == 0)
        return;
    do
        *strrchr(full, '/') = '\0';
    while (strlen(full) > top && rmdir(full) == 0 && ours);
}

/* A test's own folder goes when it is empty; the one of all sandboxes is used again at once. */
static void remove_parent(const struct pin_cgroup *group, char *full) {
    char *slash = strrchr(full, '/');
    if (group->shared_parent || slash == NULL || strchr(group->path, '/') == NULL)
        return;
    *slash = '\0';
    (void)rmdir(full); /* EBUSY: it isn't empty */
}

static bool remove_dir(const struct pin_cgroup *group, const struct pin_cgroup_dir *dir, uint64_t deadline,
                       struct pin_error *err) {
    char full[PIN_CGROUP_FULL];
    uint64_t pause = FIRST_PAUSE_NS;
    int depth = 0;
    pin_cgroup_full_path(group, dir->base, full);
    while (!remove_directory(AT_FDCWD, full, &depth)) {
        depth = 0;
        if (errno != EBUSY && errno != ENOTEMPTY)
            return pin_fail_errno(err, "remove the cgroup '%s'", full);
        if (!pin_cgroup_pause(deadline, &pause)) {
            errno = EBUSY;
            return pin_fail_errno(err, "remove the cgroup '%s'", full);
        }
    }
    if (group->in_unit)
        remove_unit(dir, full);
    else
        remove_parent(group, full);
    return true;
}

/* All are tried, whatever the first one says. */
bool pin_cgroup_remove(struct pin_cgroup *group, uint64_t timeout_ns, struct pin_error *err) {
    uint64_t deadline = pin_now_ns() + timeout_ns;
    bool ok = true;
    for (size_t i = 0; i < group->count; i++) {
        struct pin_error found = {0};
        if (remove_dir(group, &group->dirs[i], deadline, &found))
            continue;
        if (ok)
            *err = found;
        ok = false;
    }
    return ok;
}

/* Where forks can't be stopped, one kill may lose the race. */
bool pin_cgroup_clear(struct pin_cgroup *group, struct pin_error *err) {
    uint64_t deadline = pin_now_ns() + CLEAN_NS, pause = FIRST_PAUSE_NS;
    for (bool empty = false; !empty && pin_cgroup_pause(deadline, &pause);)
        if (!pin_cgroup_kill(group, err) || !pin_cgroup_is_empty(group, &empty, err))
            return false;
    return pin_cgroup_wait_empty(group, 0, err) && pin_cgroup_remove(group, CLEAN_NS, err);
}

/* False with an error unless there is nothing at that place. */
static bool clean_at(const struct pin_cgroup_facts *facts, const char *path, struct pin_error *err) {
    struct pin_error found = {0};
    PIN_CGROUP struct pin_cgroup *group = pin_cgroup_open_at(facts, path, &found);
    if (group != NULL)
        return pin_cgroup_clear(group, err);
    if (found.kind == PIN_ERROR_NOT_FOUND)
        return true;
    *err = found;
    return false;
}

/* The path of a record, as facts that have the record's folder as their only base. */
static bool place_facts(const struct pin_cgroup_facts *facts, const char *path, const char *name,
                        struct pin_cgroup_facts *at, struct pin_error *err) {
    size_t length = strlen(path), tail = strlen(name);
    const struct pin_cgroup_hierarchy *unified =
        facts->unified < 0 ? NULL : &facts->hierarchies[facts->unified];
    size_t shown = unified == NULL || strcmp(unified->shown, "/") == 0 ? 0 : strlen(unified->shown);
    if (length <= tail + 1 || strcmp(path + length - tail, name) != 0 || path[length - tail - 1] != '/')
        return pin_fail(err, PIN_ERROR_INVALID, "'%s' is no cgroup of the slot's", path);
    if (unified == NULL || strncmp(path, unified->shown, shown) != 0)
        return pin_fail(err, PIN_ERROR_NOT_FOUND, "the cgroup '%s' can't be reached from here", path);
    *at = *facts;
    at->count = 1;
    at->unified = 0;
    memset(at->where, -1, sizeof(at->where));
    at->hierarchies[0] = *unified;
    int size = snprintf(at->hierarchies[0].base, PIN_CGROUP_PATH, "%s%.*s", unified->mount,
                        (int)(length - tail - 1 - shown), path + shown);
    return size < PIN_CGROUP_PATH || pin_fail(err, PIN_ERROR_INVALID, "the path of the cgroup is too long");
}

bool pin_cgroup_clean_slot(const struct pin_cgroup_facts *facts, uint32_t slot, const char *path,
                           struct pin_error *err) {
    char name[sizeof(facts->group) + 16];
    struct pin_cgroup_facts at;
    (void)snprintf(name, sizeof(name), "%s/%u", facts->group, slot);
    if (path[0] != '\0' && (!place_facts(facts, path, name, &at, err) || !clean_at(&at, name, err)))
        return false;
    return clean_at(facts, name, err);
}
