#include "runtime/build/cgroup/leaf.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
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
    leaf->shared_parent = true;
    int size = snprintf(leaf->path, sizeof(leaf->path), "%s/%s", parent->path, name);
    if (size < (int)sizeof(leaf->path))
        return leaf;
    (void)pin_fail(err, PIN_ERROR_INVALID, "the path of the cgroup is too long");
    free(leaf);
    return NULL;
}

static bool open_leaf(struct pin_cgroup *leaf, const struct pin_cgroup_dir *above, const char *name) {
    struct pin_cgroup_dir *dir = &leaf->dirs[0];
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
    leaf->count = 1;
    for (int c = 0; c < PIN_CGROUP_CONTROLLER_COUNT; c++)
        if (above->controllers & 1u << c)
            leaf->where[c] = 0;
    leaf->unified = (int8_t)(above->v2 ? 0 : -1);
    return true;
}

struct pin_cgroup *pin_cgroup_leaf_create(const struct pin_cgroup *parent, const char *name,
                                          struct pin_error *err) {
    const struct pin_cgroup_dir *above = pin_cgroup_dir_of(parent, PIN_CGROUP_PIDS);
    if (parent->count == 0) {
        (void)pin_fail(err, PIN_ERROR_UNSUPPORTED, "the sandbox has no cgroup");
        return NULL;
    }
    struct pin_cgroup *leaf = new_leaf(parent, name, err);
    if (leaf == NULL || open_leaf(leaf, above != NULL ? above : &parent->dirs[0], name))
        return leaf;
    (void)pin_fail_errno(err, "make the cgroup '%s'", leaf->path);
    pin_cgroup_free(leaf);
    return NULL;
}

int pin_cgroup_leaf_entrance(const struct pin_cgroup *leaf, struct pin_error *err) {
    const struct pin_cgroup_dir *dir = &leaf->dirs[0];
    int fd = openat(dir->fd, dir->v2 ? "cgroup.procs" : "tasks", O_WRONLY | O_CLOEXEC | O_NOFOLLOW);
    if (fd < 0)
        (void)pin_fail_errno(err, "open the entrance of the cgroup '%s'", leaf->path);
    return fd;
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
