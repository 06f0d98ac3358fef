#include "runtime/build/cgroup/facts.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/sysinfo.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/io.h"
#include "base/names.h"
#include "policy/policy.h"

#define TEXT_LIMIT ((size_t)4 * 1024 * 1024)

enum { MOUNTINFO_FIELDS = 24 };

static const char *const controller_names[] = {
    [PIN_CGROUP_MEMORY] = "memory",   [PIN_CGROUP_CPU] = "cpu",           [PIN_CGROUP_CPUACCT] = "cpuacct",
    [PIN_CGROUP_PIDS] = "pids",       [PIN_CGROUP_CPUSET] = "cpuset",     [PIN_CGROUP_FREEZER] = "freezer",
    [PIN_CGROUP_IO] = "io",           [PIN_CGROUP_HUGETLB] = "hugetlb",   [PIN_CGROUP_DEVICES] = "devices",
    [PIN_CGROUP_NET_CLS] = "net_cls", [PIN_CGROUP_NET_PRIO] = "net_prio", [PIN_CGROUP_RDMA] = "rdma",
    [PIN_CGROUP_MISC] = "misc",
};
_Static_assert(PIN_COUNT(controller_names) == PIN_CGROUP_CONTROLLER_COUNT, "every controller has a name");

static const char *const kind_names[] = {
    [PIN_CGROUP_NONE] = "none",
    [PIN_CGROUP_V1] = "v1",
    [PIN_CGROUP_HYBRID] = "hybrid",
    [PIN_CGROUP_V2] = "v2",
};
_Static_assert(PIN_COUNT(kind_names) == PIN_CGROUP_KIND_COUNT, "every kind has a name");

const char *pin_cgroup_controller_name(enum pin_cgroup_controller controller, bool v2) {
    return controller == PIN_CGROUP_IO && !v2 ? "blkio" : controller_names[controller];
}

const char *pin_cgroup_kind_name(enum pin_cgroup_kind kind) {
    return kind_names[kind];
}

const struct pin_cgroup_hierarchy *pin_cgroup_facts_of(const struct pin_cgroup_facts *facts,
                                                       enum pin_cgroup_controller controller) {
    int8_t at = facts->where[controller];
    return at < 0 ? NULL : &facts->hierarchies[at];
}

/* A piece of a text. */
struct piece {
    const char *at;
    size_t size;
};

/* Takes what lies before the next `end` (or before the end of the text), and steps over it. */
static bool take_piece(struct piece *from, char end, struct piece *taken) {
    if (from->size == 0)
        return false;
    const char *stop = memchr(from->at, end, from->size);
    taken->at = from->at;
    taken->size = stop == NULL ? from->size : (size_t)(stop - from->at);
    size_t step = taken->size + (stop != NULL);
    from->at += step;
    from->size -= step;
    return true;
}

static bool piece_is(struct piece piece, const char *text) {
    return piece.size == strlen(text) && memcmp(piece.at, text, piece.size) == 0;
}

static bool is_octal(const char *at) {
    return at[0] >= '0' && at[0] <= '3' && at[1] >= '0' && at[1] <= '7' && at[2] >= '0' && at[2] <= '7';
}

/* procfs writes blanks and backslashes in paths as \ooo. False when the path has no room. */
static bool copy_path(struct piece piece, char to[PIN_CGROUP_PATH]) {
    size_t used = 0;
    for (size_t i = 0; i < piece.size; i++) {
        if (used + 1 >= PIN_CGROUP_PATH)
            return false;
        const char *at = piece.at + i;
        if (*at == '\\' && i + 3 < piece.size && is_octal(at + 1)) {
            to[used++] = (char)((at[1] - '0') * 64 + (at[2] - '0') * 8 + (at[3] - '0'));
            i += 3;
        } else {
            to[used++] = *at;
        }
    }
    to[used] = '\0';
    return used > 0 && to[0] == '/';
}

static int find_controller(struct piece name) {
    if (piece_is(name, "blkio"))
        return PIN_CGROUP_IO;
    for (int i = 0; i < PIN_CGROUP_CONTROLLER_COUNT; i++)
        if (piece_is(name, controller_names[i]))
            return i;
    return -1;
}

static uint32_t find_controllers(struct piece list, char between) {
    uint32_t set = 0;
    struct piece name;
    while (take_piece(&list, between, &name)) {
        int found = find_controller(name);
        if (found >= 0)
            set |= 1u << found;
    }
    return set;
}

static bool has_word(struct piece list, const char *word) {
    struct piece one;
    while (take_piece(&list, ',', &one))
        if (piece_is(one, word))
            return true;
    return false;
}

/* The line's fields: 3 root, 4 mount point, 5 options, … "-", type, source, super options: proc(5). */
static bool read_mount(struct piece line, struct pin_cgroup_hierarchy *made, bool *tracking) {
    struct piece fields[MOUNTINFO_FIELDS];
    size_t count = 0, dash = 0;
    while (count < MOUNTINFO_FIELDS && take_piece(&line, ' ', &fields[count])) {
        if (count > 5 && dash == 0 && piece_is(fields[count], "-"))
            dash = count;
        count++;
    }
    if (dash == 0 || dash + 3 >= count)
        return false;
    bool v2 = piece_is(fields[dash + 1], "cgroup2");
    if (!v2 && !piece_is(fields[dash + 1], "cgroup"))
        return false;
    memset(made, 0, sizeof(*made));
    made->v2 = v2;
    made->controllers = made->v2 ? 0 : find_controllers(fields[dash + 3], ',');
    made->read_only = has_word(fields[5], "ro") || has_word(fields[dash + 3], "ro");
    *tracking = !made->v2 && has_word(fields[dash + 3], "name=systemd");
    return (made->v2 || made->controllers != 0 || *tracking) && copy_path(fields[3], made->shown) &&
           copy_path(fields[4], made->mount);
}

static bool in_usual_place(const struct pin_cgroup_hierarchy *hierarchy) {
    return strncmp(hierarchy->mount, "/sys/fs/cgroup", strlen("/sys/fs/cgroup")) == 0;
}

/* The same hierarchy is often mounted again elsewhere (in the roots of containers): the usual place wins, and
 * otherwise the first. */
static void add_mount(struct pin_cgroup_facts *facts, const struct pin_cgroup_hierarchy *made) {
    for (size_t i = 0; i < facts->count; i++) {
        struct pin_cgroup_hierarchy *known = &facts->hierarchies[i];
        if (known->v2 != made->v2 || known->controllers != made->controllers)
            continue;
        if (!in_usual_place(known) && in_usual_place(made))
            *known = *made;
        return;
    }
    if (facts->count < PIN_CGROUP_HIERARCHIES)
        facts->hierarchies[facts->count++] = *made;
}

/* A line "4:memory:/path", or "0::/path" for version 2. A path above the namespace's root ("/..") is of no
 * use. */
static void add_own(struct pin_cgroup_facts *facts, struct piece line) {
    struct piece id, names;
    if (!take_piece(&line, ':', &id) || !take_piece(&line, ':', &names))
        return;
    bool v2 = piece_is(id, "0") && names.size == 0;
    uint32_t controllers = v2 ? 0 : find_controllers(names, ',');
    for (size_t i = 0; i < facts->count; i++) {
        struct pin_cgroup_hierarchy *known = &facts->hierarchies[i];
        bool same = known->v2 == v2 && (v2 || (known->controllers & controllers) != 0);
        if (same && (!copy_path(line, known->own) || strncmp(known->own, "/..", 3) == 0))
            known->own[0] = '\0';
    }
}

const char *pin_cgroup_below_mount(const struct pin_cgroup_hierarchy *hierarchy, const char *path) {
    size_t top = strcmp(hierarchy->shown, "/") == 0 ? 0 : strlen(hierarchy->shown);
    if (path[0] == '\0' || strncmp(path, hierarchy->shown, top) != 0)
        return NULL;
    const char *rest = path + top;
    if (strcmp(rest, "/") == 0)
        return "";
    return rest[0] == '\0' || rest[0] == '/' ? rest : NULL;
}

/* A command that was started by one of ours is in the leaf beside our groups: its base is above. */
static void strip_leaf(char *base, const char *group) {
    char leaf[64];
    int size = snprintf(leaf, sizeof(leaf), "/%s-self", group);
    size_t length = strlen(base);
    if (size > 0 && length > (size_t)size && strcmp(base + length - (size_t)size, leaf) == 0)
        base[length - (size_t)size] = '\0';
}

static void find_base(struct pin_cgroup_hierarchy *hierarchy, bool privileged, const char *group) {
    const char *below = privileged ? "" : pin_cgroup_below_mount(hierarchy, hierarchy->own);
    if (hierarchy->read_only || below == NULL)
        return;
    int size = snprintf(hierarchy->base, PIN_CGROUP_PATH, "%s%s", hierarchy->mount, below);
    if (size < 0 || size >= PIN_CGROUP_PATH) {
        hierarchy->base[0] = '\0';
        return;
    }
    strip_leaf(hierarchy->base, group);
    hierarchy->usable = true;
}

static enum pin_cgroup_kind kind_of(bool v1, bool v2) {
    if (v1)
        return v2 ? PIN_CGROUP_HYBRID : PIN_CGROUP_V1;
    return v2 ? PIN_CGROUP_V2 : PIN_CGROUP_NONE;
}

static void index_hierarchies(struct pin_cgroup_facts *facts) {
    bool v1 = false, v2 = false;
    for (size_t i = 0; i < facts->count; i++) {
        const struct pin_cgroup_hierarchy *hierarchy = &facts->hierarchies[i];
        v1 = v1 || !hierarchy->v2;
        v2 = v2 || hierarchy->v2;
        if (hierarchy->v2)
            facts->unified = (int8_t)i;
        for (int c = 0; c < PIN_CGROUP_CONTROLLER_COUNT; c++)
            if (hierarchy->controllers & 1u << c)
                facts->where[c] = (int8_t)i;
    }
    facts->kind = kind_of(v1, v2);
}

void pin_cgroup_facts_parse(const char *mountinfo, const char *cgroup, bool privileged, const char *group,
                            struct pin_cgroup_facts *facts) {
    /* but the hierarchies: those below `count` are written whole, and the room for the others is eight pages
     */
    memset(facts, 0, offsetof(struct pin_cgroup_facts, hierarchies));
    memset(&facts->tracking, 0, sizeof(*facts) - offsetof(struct pin_cgroup_facts, tracking));
    memset(facts->where, -1, sizeof(facts->where));
    facts->unified = -1;
    facts->privileged = privileged;
    (void)snprintf(facts->group, sizeof(facts->group), "%s", group);
    struct piece mounts = {mountinfo, strlen(mountinfo)}, groups = {cgroup, strlen(cgroup)}, line;
    struct pin_cgroup_hierarchy made;
    bool tracking;
    while (take_piece(&mounts, '\n', &line)) {
        if (!read_mount(line, &made, &tracking))
            continue;
        if (!tracking)
            add_mount(facts, &made);
        else if (facts->tracking.mount[0] == '\0' || in_usual_place(&made))
            facts->tracking = made;
    }
    while (take_piece(&groups, '\n', &line))
        add_own(facts, line);
    for (size_t i = 0; i < facts->count; i++)
        find_base(&facts->hierarchies[i], privileged, facts->group);
    index_hierarchies(facts);
}

void pin_cgroup_facts_unified(struct pin_cgroup_facts *facts, const char *controllers) {
    if (facts->unified < 0)
        return;
    struct pin_cgroup_hierarchy *unified = &facts->hierarchies[facts->unified];
    struct piece list = {controllers, strcspn(controllers, "\n")};
    unified->controllers = find_controllers(list, ' ');
    for (int c = 0; c < PIN_CGROUP_CONTROLLER_COUNT; c++) {
        if (facts->where[c] == facts->unified)
            facts->where[c] = -1;
        if (unified->controllers & 1u << c && facts->where[c] < 0)
            facts->where[c] = facts->unified;
    }
}

static const char *const unusable_hints[][2] = {
    [PIN_CGROUP_NONE] = {"no cgroup file system is mounted",                           "mount cgroup2 at /sys/fs/cgroup"},
    [PIN_CGROUP_V1] = {"this user may not make groups in the cgroup v1 hierarchies",
                         "boot with systemd.unified_cgroup_hierarchy=1, or run pinfold as root"                         },
    [PIN_CGROUP_HYBRID] = {"this user may not make groups in the cgroup v1 hierarchies",
                         "boot with systemd.unified_cgroup_hierarchy=1, or run pinfold as root"                         },
    [PIN_CGROUP_V2] = {"this process's cgroup is not delegated to the user",
                         "run under a systemd user session, or in a service with Delegate=yes"                          },
};

/* An ordinary user's own cgroup is a base only where it was handed over. */
static void check_rights(struct pin_cgroup_facts *facts) {
    bool any = false;
    for (size_t i = 0; i < facts->count; i++) {
        struct pin_cgroup_hierarchy *hierarchy = &facts->hierarchies[i];
        if (hierarchy->usable && !facts->privileged)
            hierarchy->usable = faccessat(AT_FDCWD, hierarchy->base, W_OK, AT_EACCESS) == 0;
        any = any || (hierarchy->usable && (!hierarchy->v2 || facts->kind == PIN_CGROUP_V2));
    }
    if (any)
        return;
    bool read_only = facts->privileged && facts->count > 0;
    (void)snprintf(facts->why, sizeof(facts->why), "%s",
                   read_only ? "the cgroup file system is mounted read-only"
                             : unusable_hints[facts->kind][0]);
    (void)snprintf(facts->hint, sizeof(facts->hint), "%s",
                   read_only ? "mount it read-write in this container" : unusable_hints[facts->kind][1]);
}

static void read_unified(struct pin_cgroup_facts *facts) {
    if (facts->unified < 0)
        return;
    const struct pin_cgroup_hierarchy *unified = &facts->hierarchies[facts->unified];
    PIN_CLOSE int dir = unified->base[0] == '\0' ? -1 : open(unified->base, O_PATH | O_DIRECTORY | O_CLOEXEC);
    struct pin_error none = {0}; /* unreadable: no controllers, and the limits say so */
    size_t size = 0;
    PIN_FREE char *text =
        dir < 0 ? NULL : pin_read_file_at(dir, "cgroup.controllers", TEXT_LIMIT, &size, &none);
    if (text != NULL)
        pin_cgroup_facts_unified(facts, text);
}

bool pin_cgroup_facts_get(const char *group, struct pin_cgroup_facts *facts, struct pin_error *err) {
    size_t size = 0;
    PIN_FREE char *mounts = pin_read_file_at(AT_FDCWD, "/proc/self/mountinfo", TEXT_LIMIT, &size, err);
    PIN_FREE char *groups =
        mounts == NULL ? NULL : pin_read_file_at(AT_FDCWD, "/proc/self/cgroup", TEXT_LIMIT, &size, err);
    if (groups == NULL)
        return pin_wrap(err, "find the cgroups of this host");
    pin_cgroup_facts_parse(mounts, groups, geteuid() == 0, group, facts);
    read_unified(facts);
    check_rights(facts);
    struct sysinfo info;
    facts->swap = sysinfo(&info) != 0 || info.totalswap > 0;
    return true;
}

static bool can(const struct pin_cgroup_facts *facts, enum pin_cgroup_controller controller) {
    const struct pin_cgroup_hierarchy *hierarchy = pin_cgroup_facts_of(facts, controller);
    return hierarchy != NULL && hierarchy->usable;
}

uint32_t pin_cgroup_facts_lack(const struct pin_cgroup_facts *facts, const char **hint) {
    static const struct {
        enum pin_cgroup_controller controller;
        enum pin_protection protection;
    } needs[] = {
        {PIN_CGROUP_MEMORY, PIN_PROTECT_MEMORY},
        {PIN_CGROUP_MEMORY, PIN_PROTECT_SWAP  },
        {PIN_CGROUP_CPU,    PIN_PROTECT_CPUS  },
        {PIN_CGROUP_PIDS,   PIN_PROTECT_PIDS  },
    };
    uint32_t lack = 0;
    for (size_t i = 0; i < PIN_COUNT(needs); i++)
        if (!can(facts, needs[i].controller) && !(needs[i].protection == PIN_PROTECT_SWAP && !facts->swap))
            lack |= 1u << needs[i].protection;
    if (hint != NULL && lack != 0)
        *hint = facts->hint[0] != '\0' ? facts->hint
                                       : "have the missing cgroup controllers enabled and delegated";
    return lack;
}

void pin_cgroup_facts_at_top(struct pin_cgroup_facts *facts) {
    facts->in_unit = facts->kind != PIN_CGROUP_V2;
    if (facts->in_unit && facts->tracking.mount[0] != '\0' && facts->count < PIN_CGROUP_HIERARCHIES)
        facts->hierarchies[facts->count++] = facts->tracking;
    for (size_t i = 0; i < facts->count; i++) {
        struct pin_cgroup_hierarchy *hierarchy = &facts->hierarchies[i];
        if (!hierarchy->v2 && hierarchy->controllers != 0)
            continue;
        memcpy(hierarchy->base, hierarchy->mount, sizeof(hierarchy->base));
        hierarchy->usable = !hierarchy->read_only;
    }
}
