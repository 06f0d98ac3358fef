#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/names.h"
#include "base/units.h"
#include "base/user_namespace.h"
#include "policy/policy.h"
#include "runtime/build/cgroup/cpuset.h"
#include "runtime/build/cgroup/files.h"
#include "runtime/build/cgroup/group.h"
#include "runtime/build/cgroup/settings.h"

#define UNDO_NS (100 * PIN_NS_PER_MS)

enum { MAKE_TRIES = 8 };

/* One creation or update, on the stack. */
struct making {
    const struct pin_cgroup_facts *facts; /* NULL: an update */
    struct pin_cgroup *group;
    struct pin_cgroup_settings settings;
    uint32_t wanted;            /* set of controllers */
    uint32_t optional, missing; /* sets of protections */
    bool reclaim;               /* a group that exists is a leftover */
    bool adopt;                 /* a group that exists is taken over */
    bool enabled;               /* the controllers of version 2 were handed down */
};

static const char *const protection_words[] = {
    [PIN_PROTECT_MEMORY] = "memory",
    [PIN_PROTECT_SWAP] = "swap",
    [PIN_PROTECT_CPUS] = "cpus",
    [PIN_PROTECT_PIDS] = "pids",
};

static uint32_t controllers_of(const struct pin_cgroup_settings *settings, uint32_t also) {
    uint32_t set =
        also | 1u << PIN_CGROUP_MEMORY | 1u << PIN_CGROUP_PIDS | 1u << PIN_CGROUP_CPUACCT; /* usage */
    for (size_t i = 0; i < settings->count; i++)
        set |= 1u << settings->items[i].controller;
    return set;
}

static bool make_level(void *base, const char *directory) {
    return strcmp(directory, base) == 0 || mkdir(directory, 0755) == 0 || errno == EEXIST;
}

/* The folder above is there nearly always, so that it is made when the group can't be; another command may
 * remove it again at that moment. */
static bool make_directory(const struct pin_cgroup *group, const char *base) {
    char full[PIN_CGROUP_FULL], copy[PIN_CGROUP_PATH];
    pin_cgroup_full_path(group, base, full);
    (void)snprintf(copy, sizeof(copy), "%s", base);
    for (int tries = 0; tries < MAKE_TRIES; tries++) {
        if (mkdir(full, 0755) == 0)
            return true;
        if (errno != ENOENT || !pin_cgroup_walk_levels(group, base, make_level, copy))
            return false;
    }
    return false;
}

static bool remove_leftover(const struct making *making, struct pin_error *err) {
    PIN_CGROUP struct pin_cgroup *old = pin_cgroup_open_at(making->facts, making->group->path, err);
    if (old == NULL) {
        bool gone = err->kind == PIN_ERROR_NOT_FOUND;
        if (gone)
            memset(err, 0, sizeof(*err));
        return gone;
    }
    return pin_cgroup_clear(old, err);
}

/* One that was made and can't be opened is in no list of what is to be undone. */
static bool open_made(struct making *making, const struct pin_cgroup_hierarchy *hierarchy, bool ours) {
    char full[PIN_CGROUP_FULL];
    if (pin_cgroup_open_dir(making->group, hierarchy))
        return true;
    int cause = errno;
    pin_cgroup_full_path(making->group, hierarchy->base, full);
    if (ours)
        (void)rmdir(full); /* or the next command that takes this slot does */
    errno = cause;
    return false;
}

/* Leftovers are removed in all hierarchies at once, so that the first hierarchy is the one that meets them.
 */
static bool make_dir(struct making *making, const struct pin_cgroup_hierarchy *hierarchy,
                     struct pin_error *err) {
    struct pin_cgroup *group = making->group;
    bool made = make_directory(group, hierarchy->base);
    if (!made && errno == EEXIST && making->reclaim) {
        if (!remove_leftover(making, err))
            return pin_wrap(err, "clear the cgroup that a dead sandbox left");
        made = make_directory(group, hierarchy->base);
    }
    bool adopted = !made && errno == EEXIST && making->adopt;
    if ((!made && !adopted) || !open_made(making, hierarchy, made)) {
        (void)pin_fail_errno(err, "make the cgroup '%s/%s'", hierarchy->base, group->path);
        return pin_point(err, "%s/%s", hierarchy->base, group->path);
    }
    return (hierarchy->controllers & 1u << PIN_CGROUP_CPUSET) == 0 || hierarchy->v2 ||
           pin_cgroup_cpuset_inherit(group, hierarchy->base, err);
}

static bool is_optional(const struct making *making, const struct pin_cgroup_setting *setting) {
    return setting->protection >= 0 && (making->optional & 1u << setting->protection) != 0;
}

/* A hierarchy whose limits may all be missing may be missing itself. The limits find that out for themselves.
 */
static bool may_do_without(const struct making *making, uint32_t controllers) {
    size_t needed = 0;
    for (size_t i = 0; i < making->settings.count; i++) {
        const struct pin_cgroup_setting *setting = &making->settings.items[i];
        if ((controllers & 1u << setting->controller) == 0 || setting->need == PIN_CGROUP_MAY)
            continue;
        if (!is_optional(making, setting))
            return false;
        needed++;
    }
    return needed > 0;
}

static bool make_dirs(struct making *making, uint32_t wanted, struct pin_error *err) {
    const struct pin_cgroup_facts *facts = making->facts;
    for (size_t i = 0; i < facts->count; i++) {
        const struct pin_cgroup_hierarchy *hierarchy = &facts->hierarchies[i];
        bool needed = (hierarchy->controllers & wanted) != 0 || facts->in_unit ||
                      (hierarchy->v2 && facts->kind == PIN_CGROUP_V2);
        struct pin_error found = {0};
        if (!needed || !hierarchy->usable || make_dir(making, hierarchy, &found) ||
            may_do_without(making, hierarchy->controllers))
            continue;
        *err = found;
        return false;
    }
    return true;
}

struct handing {
    const char *list;
    int cause;
    bool given; /* the levels above are systemd's, which hands down what it gives an ordinary user */
};

/* A list that has one that the level above keeps is refused whole. */
static void hand_down_each(int dir, const char *list) {
    char copy[256];
    (void)snprintf(copy, sizeof(copy), "%s", list);
    char *rest = copy;
    for (char *word; (word = strsep(&rest, " ")) != NULL;)
        (void)pin_cgroup_file_write(dir, "cgroup.subtree_control", word); /* who sets it finds out */
}

static bool hand_down(void *context, const char *directory) {
    struct handing *handing = context;
    PIN_CLOSE int dir = open(directory, O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (dir >= 0 && pin_cgroup_file_write(dir, "cgroup.subtree_control", handing->list))
        return true;
    handing->cause = errno;
    if (dir < 0 || !handing->given)
        return false;
    if (handing->cause == ENOENT)
        hand_down_each(dir, handing->list);
    return handing->cause == ENOENT || handing->cause == EACCES || handing->cause == EPERM;
}

/* Version 2: a group has a controller's files once each group above it has handed the controller down. False
 * with errno. */
static bool enable_controllers(struct making *making, const struct pin_cgroup_dir *dir) {
    if (making->enabled || making->facts == NULL)
        return false;
    uint32_t set = making->wanted & dir->controllers;
    char list[256] = "";
    for (int c = 0; c < PIN_CGROUP_CONTROLLER_COUNT; c++) {
        size_t used = strlen(list);
        if (set & 1u << c)
            (void)snprintf(list + used, sizeof(list) - used, "%s+%s", used > 0 ? " " : "",
                           pin_cgroup_controller_name((enum pin_cgroup_controller)c, true));
    }
    bool ordinary = geteuid() != 0 || pin_in_user_namespace();
    const struct pin_cgroup_hierarchy *unified = &making->facts->hierarchies[making->facts->unified];
    struct handing handing = {.list = list, .given = ordinary && strcmp(dir->base, unified->mount) == 0};
    making->enabled = pin_cgroup_walk_levels(making->group, dir->base, hand_down, &handing);
    errno = handing.cause;
    return making->enabled;
}

static bool write_setting(struct making *making, const struct pin_cgroup_dir *dir,
                          const struct pin_cgroup_setting *setting) {
    if (pin_cgroup_file_write(dir->fd, setting->file, setting->value))
        return true;
    if (errno == ENOENT && dir->v2 && setting->need == PIN_CGROUP_MUST && enable_controllers(making, dir) &&
        pin_cgroup_file_write(dir->fd, setting->file, setting->value))
        return true;
    return errno == ENOENT && setting->other_file != NULL &&
           pin_cgroup_file_write(dir->fd, setting->other_file, setting->other_value);
}

static bool refuse_missing(const struct making *making, const struct pin_cgroup_setting *setting,
                           struct pin_error *err) {
    const struct pin_cgroup_facts *facts = making->facts;
    if (facts != NULL && facts->why[0] != '\0')
        (void)pin_fail(err, PIN_ERROR_UNSUPPORTED, "%s", facts->why);
    else
        (void)pin_fail(err, PIN_ERROR_UNSUPPORTED, "this host has no cgroup controller '%s' for us",
                       pin_cgroup_controller_name(setting->controller, true));
    if (facts != NULL && facts->hint[0] != '\0')
        (void)pin_hint(err, "%s", facts->hint);
    return false;
}

static bool refuse(const struct making *making, const struct pin_cgroup_setting *setting,
                   const struct pin_cgroup_dir *dir, struct pin_error *err) {
    const char *word = setting->protection < 0 ? NULL : protection_words[setting->protection];
    if (dir == NULL) {
        (void)refuse_missing(making, setting, err);
    } else if (setting->value[0] == '\0' && setting->protection == PIN_PROTECT_SWAP) {
        (void)pin_fail(err, PIN_ERROR_UNSUPPORTED, "cgroup v1 limits swap only together with memory");
        (void)pin_hint(err, "give a memory limit too, or mark 'swap' as optional in the policy");
    } else {
        (void)pin_fail_errno(err, "write '%s' to '%s'", setting->value, setting->file);
        (void)pin_point(err, "%s/%s", making->group->path, setting->file);
    }
    (void)pin_wrap(err, "set the %s limit", word != NULL ? word : setting->file);
    if (word != NULL && dir != NULL && err->os_errno == ENOENT)
        return pin_hint(err, "have the kernel's accounting enabled, or mark '%s' as optional in the policy",
                        word);
    return word == NULL ? false : pin_hint(err, "mark '%s' as optional in the policy to do without it", word);
}

static bool apply(struct making *making, const struct pin_cgroup_setting *setting, struct pin_error *err) {
    const struct pin_cgroup_dir *dir = pin_cgroup_dir_of(making->group, setting->controller);
    bool possible = dir != NULL && setting->value[0] != '\0';
    if (possible && write_setting(making, dir, setting))
        return true;
    bool absent = !possible || errno == ENOENT;
    if (absent && (setting->need == PIN_CGROUP_MAY || (setting->holds_anyway && !making->group->swap)))
        return true;
    if (!is_optional(making, setting))
        return refuse(making, setting, dir, err);
    making->missing |= 1u << setting->protection;
    return true;
}

static bool apply_all(struct making *making, struct pin_error *err) {
    for (size_t i = 0; i < making->settings.count; i++)
        if (!apply(making, &making->settings.items[i], err))
            return false;
    return true;
}

/* Controllers of the directory that are wanted without a limit: no setting would hand them down. */
static bool has_unset(const struct making *making, const struct pin_cgroup_dir *dir) {
    uint32_t set = 0;
    for (size_t i = 0; i < making->settings.count; i++)
        set |= 1u << making->settings.items[i].controller;
    return (making->wanted & dir->controllers & ~set) != 0;
}

static uint32_t v2_controllers(const struct pin_cgroup_facts *facts) {
    return facts->unified < 0 ? 0 : facts->hierarchies[facts->unified].controllers;
}

static bool fill_group(struct making *making, const struct pin_cgroup_limits *limits, struct pin_error *err) {
    uint32_t v2 = v2_controllers(making->facts);
    pin_cgroup_settings_of(limits, v2, &making->settings);
    making->wanted = controllers_of(&making->settings, limits->also);
    if (!make_dirs(making, making->wanted, err))
        return false;
    const struct pin_cgroup *group = making->group;
    if (group->unified >= 0 && has_unset(making, &group->dirs[group->unified]))
        (void)enable_controllers(making,
                                 &group->dirs[group->unified]); /* who sets them later finds them or not */
    return apply_all(making, err);
}

enum existing { EXISTING_REFUSED, EXISTING_CLEARED, EXISTING_ADOPTED };

static struct pin_cgroup *create(const struct pin_cgroup_facts *facts, const char *path,
                                 enum existing existing, const struct pin_cgroup_limits *limits,
                                 uint32_t optional, uint32_t *missing, struct pin_error *err) {
    PIN_ARENA struct pin_arena arena = {0};
    struct making making = {.facts = facts,
                            .settings.arena = &arena,
                            .optional = optional,
                            .reclaim = existing == EXISTING_CLEARED,
                            .adopt = existing == EXISTING_ADOPTED};
    making.group = pin_cgroup_new(facts, path, err);
    if (making.group == NULL)
        return NULL;
    if (fill_group(&making, limits, err)) {
        *missing |= making.missing;
        return making.group;
    }
    struct pin_error later = {0}; /* the first cause counts; an empty group can't keep us from removing it */
    (void)pin_cgroup_remove(making.group, UNDO_NS, &later);
    pin_cgroup_free(making.group);
    return NULL;
}

struct pin_cgroup *pin_cgroup_create(const struct pin_cgroup_facts *facts, uint32_t slot,
                                     const struct pin_cgroup_limits *limits, uint32_t optional,
                                     uint32_t *missing, struct pin_error *err) {
    char path[sizeof(facts->group) + 16];
    (void)snprintf(path, sizeof(path), "%s/%u", facts->group, slot);
    return create(facts, path, EXISTING_CLEARED, limits, optional, missing, err);
}

struct pin_cgroup *pin_cgroup_create_at(const struct pin_cgroup_facts *facts, const char *path,
                                        const struct pin_cgroup_limits *limits, uint32_t optional,
                                        uint32_t *missing, struct pin_error *err) {
    return create(facts, path, EXISTING_REFUSED, limits, optional, missing, err);
}

struct pin_cgroup *pin_cgroup_adopt_at(const struct pin_cgroup_facts *facts, const char *path,
                                       struct pin_error *err) {
    struct pin_cgroup_limits limits = {.memory_bytes = PIN_UNLIMITED,
                                       .swap_bytes = PIN_UNLIMITED,
                                       .pids = PIN_UNLIMITED,
                                       .also = (1u << PIN_CGROUP_CONTROLLER_COUNT) - 1};
    uint32_t missing = 0;
    bool empty = false;
    struct pin_cgroup *group = create(facts, path, EXISTING_ADOPTED, &limits, 0, &missing, err);
    if (group == NULL || (pin_cgroup_is_empty(group, &empty, err) && empty))
        return group;
    struct pin_error later = {0};
    if (pin_is_set(err)) /* nobody knows yet that it has been made */
        (void)pin_cgroup_remove(group, 0, &later);
    else
        (void)pin_fail(err, PIN_ERROR_BUSY, "container's cgroup is not empty: '%s'", path);
    pin_cgroup_free(group);
    return NULL;
}

uint32_t pin_cgroup_v2_controllers(const struct pin_cgroup *group) {
    return group->unified < 0 ? 0 : group->dirs[group->unified].controllers;
}

/* In version 1 memory may never be above memory and swap: which of them has to change first depends on the
 * direction. So all are written twice, and only the second time counts. */
bool pin_cgroup_apply(struct pin_cgroup *group, const struct pin_cgroup_settings *settings,
                      struct pin_error *err) {
    struct making making = {.group = group, .settings = *settings};
    for (size_t i = 0; i < settings->count; i++) {
        const struct pin_cgroup_setting *setting = &settings->items[i];
        const struct pin_cgroup_dir *dir = pin_cgroup_dir_of(group, setting->controller);
        if (dir != NULL)
            (void)pin_cgroup_file_write(dir->fd, setting->file, setting->value);
    }
    return apply_all(&making, err);
}

bool pin_cgroup_update(struct pin_cgroup *group, const struct pin_cgroup_limits *limits,
                       struct pin_error *err) {
    PIN_ARENA struct pin_arena arena = {0};
    struct pin_cgroup_settings settings = {.arena = &arena};
    pin_cgroup_settings_of(limits, pin_cgroup_v2_controllers(group), &settings);
    return pin_cgroup_apply(group, &settings, err);
}
