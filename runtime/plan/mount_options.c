#include "runtime/plan/mount_options.h"

#include <string.h>
#include <sys/mount.h>

#include <linux/mount.h>

#include "base/names.h"

enum effect { SET, CLEAR, BIND, RBIND, NOTHING, PROPAGATION, IDMAP, IDMAP_BELOW, COPY_UP, REFUSE };

struct option {
    const char *name;
    enum effect effect;
    uint64_t value; /* MOUNT_ATTR_*, or the flags of mount(2) that set a propagation */
    bool below;     /* for the mounts below, too */
};

static const struct option table[] = {
    {"ro",             SET,         MOUNT_ATTR_RDONLY,      false},
    {"rro",            SET,         MOUNT_ATTR_RDONLY,      true },
    {"nosuid",         SET,         MOUNT_ATTR_NOSUID,      false},
    {"rnosuid",        SET,         MOUNT_ATTR_NOSUID,      true },
    {"nodev",          SET,         MOUNT_ATTR_NODEV,       false},
    {"rnodev",         SET,         MOUNT_ATTR_NODEV,       true },
    {"noexec",         SET,         MOUNT_ATTR_NOEXEC,      false},
    {"rnoexec",        SET,         MOUNT_ATTR_NOEXEC,      true },
    {"noatime",        SET,         MOUNT_ATTR_NOATIME,     false},
    {"rnoatime",       SET,         MOUNT_ATTR_NOATIME,     true },
    {"strictatime",    SET,         MOUNT_ATTR_STRICTATIME, false},
    {"rstrictatime",   SET,         MOUNT_ATTR_STRICTATIME, true },
    {"nodiratime",     SET,         MOUNT_ATTR_NODIRATIME,  false},
    {"rnodiratime",    SET,         MOUNT_ATTR_NODIRATIME,  true },
    {"nosymfollow",    SET,         MOUNT_ATTR_NOSYMFOLLOW, false},
    {"rnosymfollow",   SET,         MOUNT_ATTR_NOSYMFOLLOW, true },
    {"rw",             CLEAR,       MOUNT_ATTR_RDONLY,      false},
    {"rrw",            CLEAR,       MOUNT_ATTR_RDONLY,      true },
    {"suid",           CLEAR,       MOUNT_ATTR_NOSUID,      false},
    {"rsuid",          CLEAR,       MOUNT_ATTR_NOSUID,      true },
    {"dev",            CLEAR,       MOUNT_ATTR_NODEV,       false},
    {"rdev",           CLEAR,       MOUNT_ATTR_NODEV,       true },
    {"exec",           CLEAR,       MOUNT_ATTR_NOEXEC,      false},
    {"rexec",          CLEAR,       MOUNT_ATTR_NOEXEC,      true },
    {"diratime",       CLEAR,       MOUNT_ATTR_NODIRATIME,  false},
    {"rdiratime",      CLEAR,       MOUNT_ATTR_NODIRATIME,  true },
    {"symfollow",      CLEAR,       MOUNT_ATTR_NOSYMFOLLOW, false},
    {"rsymfollow",     CLEAR,       MOUNT_ATTR_NOSYMFOLLOW, true },
    {"atime",          CLEAR,       MOUNT_ATTR_NOATIME,     false},
    {"ratime",         CLEAR,       MOUNT_ATTR_NOATIME,     true },
    {"nostrictatime",  CLEAR,       MOUNT_ATTR_STRICTATIME, false},
    {"rnostrictatime", CLEAR,       MOUNT_ATTR_STRICTATIME, true },
    {"relatime",       NOTHING,     0,                      false},
    {"rrelatime",      NOTHING,     0,                      false},
    {"norelatime",     NOTHING,     0,                      false},
    {"rnorelatime",    NOTHING,     0,                      false},
    {"defaults",       NOTHING,     0,                      false},
    {"silent",         NOTHING,     0,                      false}, /* of the kernel's log */
    {"loud",           NOTHING,     0,                      false},
    {"noiversion",     NOTHING,     0,                      false}, /* the default everywhere */
    {"bind",           BIND,        0,                      false},
    {"rbind",          RBIND,       0,                      false},
    {"private",        PROPAGATION, MS_PRIVATE,             false},
    {"rprivate",       PROPAGATION, MS_PRIVATE | MS_REC,    false},
    {"shared",         PROPAGATION, MS_SHARED,              false},
    {"rshared",        PROPAGATION, MS_SHARED | MS_REC,     false},
    {"slave",          PROPAGATION, MS_SLAVE,               false},
    {"rslave",         PROPAGATION, MS_SLAVE | MS_REC,      false},
    {"unbindable",     PROPAGATION, MS_UNBINDABLE,          false},
    {"runbindable",    PROPAGATION, MS_UNBINDABLE | MS_REC, false},
    {"idmap",          IDMAP,       0,                      false},
    {"ridmap",         IDMAP_BELOW, 0,                      false},
    {"tmpcopyup",      COPY_UP,     0,                      false},
    {"remount",        REFUSE,      0,                      false}, /* the last: see pin_mount_option_name() */
};

const char *pin_mount_option_name(size_t index) {
    return index < PIN_COUNT(table) - 1 ? table[index].name : NULL;
}

static const struct option *find(const char *name) {
    for (size_t i = 0; i < PIN_COUNT(table); i++)
        if (strcmp(table[i].name, name) == 0)
            return &table[i];
    return NULL;
}

/* crun's own: an engine that asks for it counts on other owners. */
static bool has_maps(const char *option) {
    return strncmp(option, "idmap=", strlen("idmap=")) == 0 ||
           strncmp(option, "ridmap=", strlen("ridmap=")) == 0;
}

static void add_data(const char *option, struct pin_arena *arena, struct pin_mount_options *sorted) {
    const char *equals = strchr(option, '=');
    const char **pair = pin_arena_grow(arena, &sorted->data, &sorted->data_count, 2 * sizeof(*pair));
    pair[0] = equals != NULL ? pin_arena_strndup(arena, option, (size_t)(equals - option)) : option;
    pair[1] = equals != NULL ? equals + 1 : NULL;
}

static void set_attribute(struct pin_mount_options *sorted, const struct option *known) {
    bool set = known->effect == SET;
    sorted->attributes = set ? sorted->attributes | known->value : sorted->attributes & ~known->value;
    sorted->cleared = set ? sorted->cleared & ~known->value : sorted->cleared | known->value;
    if (!known->below)
        return;
    sorted->below = set ? sorted->below | known->value : sorted->below & ~known->value;
    sorted->below_cleared =
        set ? sorted->below_cleared & ~known->value : sorted->below_cleared | known->value;
}

/* Every mount of `pinfold run` is private, and its options come without these. */
static bool is_special(const struct option *known) {
    bool private = known->effect == PROPAGATION && (known->value & MS_PRIVATE) != 0;
    return (known->effect == PROPAGATION && !private) || known->effect >= IDMAP;
}

void pin_mount_options_sort(const char *const *options, size_t count, const char *pointer,
                            struct pin_arena *arena, struct pin_mount_options *sorted,
                            struct pin_findings *found) {
    for (size_t i = 0; i < count; i++) {
        const struct option *known = find(options[i]);
        if (has_maps(options[i]))
            (void)pin_find(found, PIN_ERROR_UNSUPPORTED, pointer,
                           "leave its maps out, and give the mount uidMappings and gidMappings",
                           "a mount can't have the option '%s'", options[i]);
        if (known == NULL) {
            add_data(options[i], arena, sorted);
            continue;
        }
        if (is_special(known) && sorted->special == NULL)
            sorted->special = known->name;
        switch (known->effect) {
        case SET:
        case CLEAR: set_attribute(sorted, known); break;
        case BIND: sorted->bind = true; break;
        case RBIND: sorted->bind = sorted->recursive = true; break;
        case NOTHING: break;
        case PROPAGATION: sorted->propagation = (unsigned)known->value; break;
        case IDMAP_BELOW: sorted->idmap_below = true; /* fall through */
        case IDMAP: sorted->idmap = true; break;
        case COPY_UP: sorted->copy_up = true; break;
        case REFUSE:
            (void)pin_find(found, PIN_ERROR_UNSUPPORTED, pointer, "leave the option out",
                           "a mount can't have the option '%s' here", options[i]);
            break;
        }
    }
}
