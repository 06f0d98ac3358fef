#include "runtime/build/cgroup/cgroup.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "runtime/build/cgroup/files.h"
#include "runtime/build/cgroup/group.h"

const struct pin_cgroup_dir *pin_cgroup_dir_of(const struct pin_cgroup *group,
                                               enum pin_cgroup_controller controller) {
    int8_t at = group->where[controller];
    return at < 0 ? NULL : &group->dirs[at];
}

void pin_cgroup_full_path(const struct pin_cgroup *group, const char *base, char full[PIN_CGROUP_FULL]) {
    (void)snprintf(full, PIN_CGROUP_FULL, "%s/%s", base, group->path);
}

static bool is_plain_part(const char *part, size_t size) {
    return size > 0 && !(size == 1 && part[0] == '.') && !(size == 2 && memcmp(part, "..", 2) == 0);
}

static bool is_plain(const char *path) {
    for (;;) {
        size_t size = strcspn(path, "/");
        if (!is_plain_part(path, size))
            return false;
        if (path[size] == '\0')
            return true;
        path += size + 1;
    }
}

struct pin_cgroup *pin_cgroup_new(const struct pin_cgroup_facts *facts, const char *path,
                                  struct pin_error *err) {
    if (!is_plain(path) || strlen(path) >= PIN_CGROUP_PATH) {
        (void)pin_fail(err, PIN_ERROR_INVALID, "'%s' is no path of a cgroup", path);
        return NULL;
    }
    struct pin_cgroup *group = calloc(1, sizeof(*group));
    if (group == NULL) {
        (void)pin_fail_errno(err, "make room for a cgroup");
        return NULL;
    }
    memcpy(group->path, path, strlen(path) + 1);
    memset(group->where, -1, sizeof(group->where));
    group->unified = -1;
    group->oom_fd = group->oom_counter = -1;
    group->swap = facts->swap;
    group->shared_parent = strcmp(facts->group, "pinfold") == 0;
    group->in_unit = facts->in_unit;
    return group;
}

void pin_cgroup_free(struct pin_cgroup *group) {
    if (group == NULL)
        return;
    for (size_t i = 0; i < group->count; i++)
        pin_close_fd(&group->dirs[i].fd);
    pin_close_fd(&group->oom_fd);
    pin_close_fd(&group->oom_counter);
    pin_cgroup_close_counters(group);
    free(group);
}

bool pin_cgroup_open_dir(struct pin_cgroup *group, const struct pin_cgroup_hierarchy *hierarchy) {
    char full[PIN_CGROUP_FULL];
    pin_cgroup_full_path(group, hierarchy->base, full);
    int fd = open(full, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0)
        return false;
    size_t at = group->count++;
    struct pin_cgroup_dir *dir = &group->dirs[at];
    dir->fd = fd;
    dir->v2 = hierarchy->v2;
    dir->controllers = hierarchy->controllers;
    memcpy(dir->base, hierarchy->base, sizeof(dir->base));
    for (int c = 0; c < PIN_CGROUP_CONTROLLER_COUNT; c++)
        if (hierarchy->controllers & 1u << c)
            group->where[c] = (int8_t)at;
    if (hierarchy->v2)
        group->unified = (int8_t)at;
    return true;
}

bool pin_cgroup_walk_levels(const struct pin_cgroup *group, const char *base, pin_cgroup_each_level *each,
                            void *context) {
    char full[PIN_CGROUP_FULL];
    pin_cgroup_full_path(group, base, full);
    for (char *slash = full + strlen(base); slash != NULL; slash = strchr(slash + 1, '/')) {
        *slash = '\0';
        bool ok = each(context, full);
        *slash = '/';
        if (!ok)
            return false;
    }
    return true;
}

struct pin_cgroup *pin_cgroup_open_at(const struct pin_cgroup_facts *facts, const char *path,
                                      struct pin_error *err) {
    struct pin_cgroup *group = pin_cgroup_new(facts, path, err);
    if (group == NULL)
        return NULL;
    for (size_t i = 0; i < facts->count; i++) {
        const struct pin_cgroup_hierarchy *hierarchy = &facts->hierarchies[i];
        if (hierarchy->base[0] == '\0' || pin_cgroup_open_dir(group, hierarchy) || errno == ENOENT)
            continue;
        (void)pin_fail_errno(err, "open the cgroup '%s/%s'", hierarchy->base, path);
        pin_cgroup_free(group);
        return NULL;
    }
    if (group->count > 0)
        return group;
    (void)pin_fail(err, PIN_ERROR_NOT_FOUND, "there is no cgroup '%s'", path);
    pin_cgroup_free(group);
    return NULL;
}

bool pin_cgroup_attach(const struct pin_cgroup *group, pid_t pid, struct pin_error *err) {
    char text[24];
    (void)snprintf(text, sizeof(text), "%d", (int)pid);
    for (size_t i = 0; i < group->count; i++)
        if (!pin_cgroup_file_write(group->dirs[i].fd, "cgroup.procs", text)) {
            (void)pin_fail_errno(err, "move process %d into the cgroup '%s/%s'", (int)pid,
                                 group->dirs[i].base, group->path);
            return pin_point(err, "%s/%s", group->dirs[i].base, group->path);
        }
    return true;
}

bool pin_cgroup_directory(const struct pin_cgroup *group, size_t index, int *dir, const char **name) {
    if (index >= group->count)
        return false;
    const char *slash = strrchr(group->dirs[index].base, '/');
    *dir = group->dirs[index].fd;
    *name = slash != NULL ? slash + 1 : "";
    return true;
}

int pin_cgroup_unified_fd(const struct pin_cgroup *group) {
    return group->unified < 0 ? -1 : group->dirs[group->unified].fd;
}

bool pin_cgroup_place(const struct pin_cgroup_facts *facts, uint32_t slot, char path[PIN_CGROUP_PATH],
                      struct pin_error *err) {
    path[0] = '\0';
    if (facts->privileged || facts->unified < 0)
        return true;
    const struct pin_cgroup_hierarchy *unified = &facts->hierarchies[facts->unified];
    if (!unified->usable)
        return true;
    const char *shown = strcmp(unified->shown, "/") == 0 ? "" : unified->shown;
    char made[2 * PIN_CGROUP_PATH + 64];
    int size = snprintf(made, sizeof(made), "%s%s/%s/%u", shown, unified->base + strlen(unified->mount),
                        facts->group, slot);
    if (size >= PIN_CGROUP_PATH)
        return pin_fail(err, PIN_ERROR_INVALID, "the path of the cgroup is too long");
    memcpy(path, made, (size_t)size + 1);
    return true;
}
