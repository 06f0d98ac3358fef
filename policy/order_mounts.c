#include "policy/order_mounts.h"

#include <string.h>

#include "policy/checks.h"
#include "policy/covers.h"
#include "policy/grants.h"

#define WORKSPACE_SOURCE "//workspace" /* no path of the host is written so */

struct shown { /* a mount that is seen, or the workspace */
    const char *source, *target;
    bool writes;
    const struct pin_mount_rule *rule; /* NULL: the workspace */
    bool granted;                      /* the other policy has a mount that covers it */
};

struct side {
    const struct pin_policy *policy;
    struct shown *shown;
    size_t count;
};

struct paths {
    const char **items;
    size_t count;
};

bool pin_mount_is_seen(const struct pin_policy *policy, size_t index) {
    const struct pin_mount_rule *mounts = policy->filesystem.mounts;
    for (size_t i = index + 1; i < policy->filesystem.mount_count; i++)
        if (pin_path_beneath(mounts[index].target, mounts[i].target))
            return false;
    return true;
}

static void add_shown(struct pin_arena *arena, struct side *side, struct shown shown) {
    *(struct shown *)pin_arena_grow(arena, &side->shown, &side->count, sizeof(shown)) = shown;
}

/* The workspace counts where both have one, with no more access than either: the rest is said elsewhere. */
static void add_workspace(struct pin_arena *arena, struct side *side, const struct pin_policy *other) {
    const struct pin_policy *policy = side->policy;
    for (size_t i = 0; i < policy->filesystem.mount_count; i++)
        if (pin_path_beneath(PIN_WORKSPACE_TARGET, policy->filesystem.mounts[i].target))
            return;
    if (policy->filesystem.workspace == PIN_ACCESS_NONE || other->filesystem.workspace == PIN_ACCESS_NONE)
        return;
    bool writes =
        policy->filesystem.workspace == PIN_ACCESS_WRITE && other->filesystem.workspace == PIN_ACCESS_WRITE;
    add_shown(arena, side, (struct shown){WORKSPACE_SOURCE, PIN_WORKSPACE_TARGET, writes, NULL, true});
}

static struct side side_of(struct pin_arena *arena, const struct pin_policy *policy,
                           const struct pin_policy *other) {
    const struct pin_field_row *row = pin_field_row(PIN_FIELD_MOUNTS);
    struct pin_list by = pin_list_of(other, row);
    struct side side = {.policy = policy};
    add_workspace(arena, &side, other);
    for (size_t i = 0; i < policy->filesystem.mount_count; i++) {
        const struct pin_mount_rule *rule = &policy->filesystem.mounts[i];
        if (pin_mount_is_seen(policy, i))
            add_shown(arena, &side,
                      (struct shown){rule->source, rule->target, rule->access == PIN_ACCESS_WRITE, rule,
                                     pin_is_covered(&by, pin_covers_of(row), rule)});
    }
    return side;
}

static bool strictly_beneath(const char *path, const char *folder) {
    return strcmp(path, folder) != 0 && pin_path_beneath(path, folder);
}

/* Where the path, beneath `from`, is when that lies at `to`. */
static const char *moved(struct pin_arena *arena, const char *path, const char *from, const char *to) {
    const char *rest = strcmp(from, "/") == 0 ? path : path + strlen(from);
    return pin_arena_printf(arena, "%s%s", strcmp(to, "/") == 0 && *rest != '\0' ? "" : to, rest);
}

/* What shows the host's path, and lets it be written where that is asked; NULL: nothing. */
static const struct shown *find_shown(const struct side *side, const char *path, bool writes) {
    for (size_t i = 0; i < side->count; i++) {
        PIN_ARENA struct pin_arena arena = {0};
        const struct shown *shown = &side->shown[i];
        if ((writes && !shown->writes) || !pin_path_beneath(path, shown->source))
            continue;
        const char *at = moved(&arena, path, shown->source, shown->target);
        bool hidden = false;
        for (size_t j = 0; j < side->count && !hidden; j++)
            hidden = strictly_beneath(side->shown[j].target, shown->target) &&
                     pin_path_beneath(at, side->shown[j].target);
        if (!hidden && (!writes || shown->rule == NULL || pin_policy_lets_write(side->policy, at)))
            return shown;
    }
    return NULL;
}

static void add_path(struct pin_arena *arena, struct paths *paths, const char *path) {
    *(const char **)pin_arena_grow(arena, &paths->items, &paths->count, sizeof(path)) = path;
}

/* The host's paths at which it can change whether they are seen or written: between them it is the same. */
static void add_paths(struct pin_arena *arena, const struct side *side, struct paths *paths) {
    const struct pin_strings *write = &side->policy->filesystem.write;
    for (size_t i = 0; i < side->count; i++) {
        const struct shown *shown = &side->shown[i];
        add_path(arena, paths, shown->source);
        for (size_t j = 0; j < side->count; j++)
            if (strictly_beneath(side->shown[j].target, shown->target))
                add_path(arena, paths, moved(arena, side->shown[j].target, shown->target, shown->source));
        for (size_t j = 0; j < write->count && shown->writes; j++)
            if (strictly_beneath(write->items[j].text, shown->target))
                add_path(arena, paths, moved(arena, write->items[j].text, shown->target, shown->source));
    }
}

/* Of what lies above; what isn't seen isn't written either. */
static bool is_said(const struct pin_mount_excess *list, size_t count, const char *path, bool writes) {
    for (size_t i = 0; i < count; i++)
        if ((list[i].writes == writes || !list[i].writes) && pin_path_beneath(path, list[i].path))
            return true;
    return false;
}

/* Without mounts over mounts, and with each wholly writable or not at all, the lists say all. */
static bool is_plain(const struct side *side) {
    const struct pin_strings *write = &side->policy->filesystem.write;
    for (size_t i = 0; i < side->policy->filesystem.mount_count; i++)
        if (!pin_mount_is_seen(side->policy, i))
            return false;
    for (size_t i = 0; i < side->count; i++) {
        for (size_t j = 0; j < side->count; j++)
            if (strictly_beneath(side->shown[j].target, side->shown[i].target))
                return false;
        for (size_t j = 0; j < write->count && side->shown[i].rule != NULL && side->shown[i].writes; j++)
            if (strictly_beneath(write->items[j].text, side->shown[i].target))
                return false;
    }
    return true;
}

struct pin_mount_excess *pin_mounts_excess(struct pin_arena *arena, const struct pin_policy *inner,
                                           const struct pin_policy *outer, size_t *count) {
    struct pin_mount_excess *found = NULL;
    struct paths paths = {0};
    *count = 0;
    if (outer->is_site) /* nothing runs under it: its mounts are grants, one by one */
        return NULL;
    struct side mine = side_of(arena, inner, outer), theirs = side_of(arena, outer, inner);
    if (is_plain(&theirs))
        return NULL;
    add_paths(arena, &mine, &paths);
    add_paths(arena, &theirs, &paths);
    for (unsigned writes = 0; writes < 2; writes++)
        for (size_t i = 0; i < paths.count; i++) {
            const struct shown *shown = find_shown(&mine, paths.items[i], writes != 0);
            if (shown == NULL || !shown->granted || is_said(found, *count, paths.items[i], writes != 0) ||
                find_shown(&theirs, paths.items[i], writes != 0) != NULL)
                continue;
            *(struct pin_mount_excess *)pin_arena_grow(arena, &found, count, sizeof(*found)) =
                (struct pin_mount_excess){shown->rule, paths.items[i], writes != 0};
        }
    for (size_t i = 0; i < *count; i++)
        if (found[i].by == NULL)
            found[i].path++; /* "/workspace/…" */
    return found;
}
