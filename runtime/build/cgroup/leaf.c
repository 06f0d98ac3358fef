#include "runtime/build/cgroup/leaf.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/names.h"
#include "runtime/build/cgroup/files.h"
#include "runtime/build/cgroup/group.h"

static struct pin_cgroup *new_leaf(const struct pin_cgroup *parent, const char *name, struct pin_error *err) {
    struct pin_cgroup *leaf = calloc(1, sizeof(*leaf));
    if (leaf == NULL) {
        (void)pin_fail_errno(err, "make room for a cgroup");
        return NULL;
    }
    memset(leaf->where, -1, sizeof(leaf->where));
    leaf->unified = -1;
    leaf->oom_fd = leaf->oom_counter = -1;
    leaf->swap = parent->swap;
    leaf->shared_parent = leaf->same_processes = true;
    int size = snprintf(leaf->path, sizeof(leaf->path), "%s/%s", parent->path, name);
    if (size < (int)sizeof(leaf->path))
        return leaf;
    (void)pin_fail(err, PIN_ERROR_INVALID, "the path of the cgroup is too long");
    free(leaf);
    return NULL;
}

static bool open_below(struct pin_cgroup *leaf, const struct pin_cgroup_dir *above, const char *name) {
    struct pin_cgroup_dir *dir = &leaf->dirs[leaf->count];
    if (mkdirat(above->fd, name, 0755) != 0)
        return false;
    *dir = *above;
    dir->fd = openat(above->fd, name, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (dir->fd < 0) {
        int cause = errno;
        (void)unlinkat(above->fd, name, AT_REMOVEDIR);
        errno = cause;
        return false;
    }
    for (int c = 0; c < PIN_CGROUP_CONTROLLER_COUNT; c++)
        if (above->controllers & 1u << c)
            leaf->where[c] = (int8_t)leaf->count;
    if (above->v2)
        leaf->unified = (int8_t)leaf->count;
    leaf->count++;
    return true;
}

/* Those of version 1 that count what is used; on v2 the one directory counts all. */
static bool open_accounts(struct pin_cgroup *leaf, const struct pin_cgroup *parent, const char *name) {
    static const enum pin_cgroup_controller accounts[] = {PIN_CGROUP_MEMORY, PIN_CGROUP_CPUACCT};
    for (size_t i = 0; i < PIN_COUNT(accounts); i++) {
        const struct pin_cgroup_dir *above = pin_cgroup_dir_of(parent, accounts[i]);
        if (above != NULL && !above->v2 && leaf->where[accounts[i]] < 0 && !open_below(leaf, above, name))
            return false;
    }
    return true;
}

struct pin_cgroup *pin_cgroup_leaf_create(const struct pin_cgroup *parent, const char *name,
                                          struct pin_error *err) {
    const struct pin_cgroup_dir *above = pin_cgroup_dir_of(parent, PIN_CGROUP_PIDS);
    struct pin_error later = {0};
    if (parent->count == 0) {
        (void)pin_fail(err, PIN_ERROR_UNSUPPORTED, "the sandbox has no cgroup");
        return NULL;
    }
    struct pin_cgroup *leaf = new_leaf(parent, name, err);
    if (leaf == NULL || (open_below(leaf, above != NULL ? above : &parent->dirs[0], name) &&
                         open_accounts(leaf, parent, name)))
        return leaf;
    (void)pin_fail_errno(err, "make the cgroup '%s'", leaf->path);
    (void)pin_cgroup_remove(leaf, 0, &later); /* or with the sandbox's */
    pin_cgroup_free(leaf);
    return NULL;
}

static int open_entrance(const struct pin_cgroup_dir *dir) {
    return openat(dir->fd, dir->v2 ? "cgroup.procs" : "tasks", O_WRONLY | O_CLOEXEC | O_NOFOLLOW);
}

int pin_cgroup_leaf_entrances(const struct pin_cgroup *leaf, int files[PIN_CGROUP_LEAF_DIRS],
                              struct pin_error *err) {
    for (size_t i = 0; i < leaf->count; i++) {
        files[i] = open_entrance(&leaf->dirs[i]);
        if (files[i] >= 0)
            continue;
        (void)pin_fail_errno(err, "open the entrance of the cgroup '%s'", leaf->path);
        while (i > 0)
            (void)close(files[--i]);
        return -1;
    }
    return (int)leaf->count;
}

bool pin_cgroup_leaf_renew(const struct pin_cgroup *leaf, struct pin_cgroup_usage *start) {
    const struct pin_cgroup_dir *memory = pin_cgroup_dir_of(leaf, PIN_CGROUP_MEMORY);
    struct pin_cgroup_usage now;
    struct pin_error unread = {0};
    if (leaf->unified >= 0 ||
        (memory != NULL && !pin_cgroup_file_write(memory->fd, "memory.max_usage_in_bytes", "0")) ||
        !pin_cgroup_usage_read(leaf, &now, &unread) || now.memory_peak_bytes > PIN_CGROUP_LEAF_LEFT ||
        now.pids_peak > 1 || now.oom_kills > 0)
        return false;
    *start = (struct pin_cgroup_usage){.cpu_ns = now.cpu_ns};
    return true;
}

/* A group of version 2 that has processes can't hand controllers down: cgroup-v2.rst, "No Internal Process
 * Constraint". */
bool pin_cgroup_leaf_prepare(const struct pin_cgroup *parent, pid_t init, struct pin_error *err) {
    char text[24];
    const struct pin_cgroup_dir *dir = pin_cgroup_dir_of(parent, PIN_CGROUP_MEMORY);
    if (dir == NULL || !dir->v2)
        return true;
    if (mkdirat(dir->fd, "init", 0755) != 0 && errno != EEXIST)
        return pin_fail_errno(err, "make a cgroup for init");
    PIN_CLOSE int below = openat(dir->fd, "init", O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    (void)snprintf(text, sizeof(text), "%d", (int)init);
    if (below < 0 || !pin_cgroup_file_write(below, "cgroup.procs", text) ||
        !pin_cgroup_file_write(dir->fd, "cgroup.subtree_control", "+memory +pids"))
        return pin_fail_errno(err, "hand the controllers of the sandbox's cgroup down");
    return true;
}

bool pin_cgroup_join(struct pin_cgroup *group, const struct pin_cgroup_facts *facts,
                     enum pin_cgroup_controller controller, pid_t pid, struct pin_error *err) {
    const struct pin_cgroup_hierarchy *hierarchy = pin_cgroup_facts_of(facts, controller);
    char full[PIN_CGROUP_FULL], parent[PIN_CGROUP_FULL], text[24];
    if (group->count == 0 || group->where[controller] >= 0 || hierarchy == NULL || hierarchy->v2)
        return true;
    pin_cgroup_full_path(group, hierarchy->base, full);
    memcpy(parent, full, sizeof(parent));
    *strrchr(parent, '/') = '\0';
    if ((mkdir(parent, 0755) != 0 && errno != EEXIST) || (mkdir(full, 0755) != 0 && errno != EEXIST) ||
        !pin_cgroup_open_dir(group, hierarchy))
        return pin_fail_errno(err, "make the cgroup '%s'", full);
    (void)snprintf(text, sizeof(text), "%d", (int)pid);
    return pin_cgroup_file_write(group->dirs[group->where[controller]].fd, "cgroup.procs", text) ||
           pin_fail_errno(err, "move process %d into the cgroup '%s'", (int)pid, full);
}
