/* The cgroups of commands. To make one and to remove it takes the kernel longer than a small command takes:
 * one that a command has left as it was is the next command's, on cgroup v1. */
#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

#include "runtime/kept/parts.h"
#include "runtime/watch/watch_command.h"

/* Its name says whose a watched process is: then each command has a new one. */
static bool is_watched(const struct pin_kept *kept) {
    return kept->given->sandbox->watch >= 0;
}

static void free_leaf(struct pin_kept *kept, struct leaf *leaf) {
    kept->open_leaves -= leaf->open;
    while (leaf->entrance_count > 0)
        (void)close(leaf->entrances[--leaf->entrance_count]);
    pin_cgroup_free(leaf->group);
    *leaf = (struct leaf){0};
}

static void remove_leaf(struct pin_kept *kept, struct leaf *leaf) {
    struct pin_error later = {0};
    if (leaf->group != NULL)
        (void)pin_cgroup_remove(leaf->group, 0, &later); /* or with the sandbox's */
    free_leaf(kept, leaf);
}

static bool make_leaf(struct exec *exec, struct pin_error *err) {
    struct pin_kept *kept = exec->kept;
    const struct pin_cgroup *group = kept->given->sandbox->cgroup;
    struct pin_error found = {0};
    char name[24];
    if (is_watched(kept))
        (void)snprintf(name, sizeof(name), PIN_WATCH_COMMAND "%u", exec->id);
    else
        (void)snprintf(name, sizeof(name), "command-%u", ++kept->last_leaf);
    exec->leaf.group = group == NULL ? NULL : pin_cgroup_leaf_create(group, name, &found);
    if (exec->leaf.group ==
        NULL) { /* a host without cgroups, which the policy allows: it is among "missing" */
        if (group == NULL || found.kind == PIN_ERROR_UNSUPPORTED)
            return true;
        *err = found;
        return false;
    }
    int count = pin_cgroup_leaf_entrances(exec->leaf.group, exec->leaf.entrances, err);
    exec->leaf.entrance_count = count < 0 ? 0 : count;
    return count >= 0;
}

bool pin_exec_take_leaf(struct exec *exec, struct pin_link_command *command, struct pin_error *err) {
    struct pin_kept *kept = exec->kept;
    if (kept->leaf_count > 0)
        exec->leaf = kept->leaves[--kept->leaf_count];
    else if (!make_leaf(exec, err))
        return false;
    exec->leaf.entered = false;
    for (int i = 0; i < exec->leaf.entrance_count; i++) {
        int entrance = fcntl(exec->leaf.entrances[i], F_DUPFD_CLOEXEC, 0);
        if (entrance < 0)
            return pin_fail_errno(err, "open the entrance of a command's cgroup");
        command->fds[command->fd_count++] = entrance;
    }
    command->entrances = (uint32_t)exec->leaf.entrance_count;
    return true;
}

bool pin_exec_kill_leaf(struct exec *exec, struct pin_error *err) {
    exec->leaf.spent = true;
    return pin_cgroup_kill(exec->leaf.group, err);
}

bool pin_exec_is_empty(struct exec *exec, bool *empty, struct pin_error *err) {
    *empty = true;
    if (exec->leaf.group != NULL && !pin_cgroup_is_empty(exec->leaf.group, empty, err))
        return false;
    exec->leaf.entered = *empty;
    return true;
}

bool pin_exec_usage(const struct exec *exec, struct pin_cgroup_usage *usage) {
    struct pin_error unread = {0};
    if (exec->leaf.group == NULL || !pin_cgroup_usage_read(exec->leaf.group, usage, &unread))
        return false;
    usage->cpu_ns -= exec->leaf.start.cpu_ns;
    return true;
}

/* Few at a time: commands may be many, and descriptors aren't. */
static void keep_open(struct pin_kept *kept, struct leaf *leaf) {
    if (leaf->open || kept->open_leaves == LEAVES_KEPT)
        return;
    leaf->open = pin_cgroup_leaf_keep_open(leaf->group);
    kept->open_leaves += leaf->open;
}

void pin_exec_leave(struct exec *exec) {
    struct pin_kept *kept = exec->kept;
    struct leaf *leaf = &exec->leaf;
    if (leaf->group != NULL && leaf->entered && !leaf->spent && !is_watched(kept) && !kept->ending &&
        kept->leaf_count < LEAVES_KEPT && pin_cgroup_leaf_renew(leaf->group, &leaf->start)) {
        keep_open(kept, leaf);
        kept->leaves[kept->leaf_count++] = *leaf;
        *leaf = (struct leaf){0};
    }
    remove_leaf(kept, leaf);
}

/* What becomes of the directories is the sandbox's end. */
void pin_kept_free_leaves(struct pin_kept *kept) {
    while (kept->leaf_count > 0)
        free_leaf(kept, &kept->leaves[--kept->leaf_count]);
}
