#include "runtime/plan/mount_options.h"

#include <string.h>

#include <linux/mount.h>

#include "base/names.h"

enum effect { SET, CLEAR, BIND, RBIND, NOTHING, REFUSE };

struct option {
    const char *name;
    enum effect effect;
    uint64_t attribute;
};

static const struct option table[] = {
    {"ro",          SET,     MOUNT_ATTR_RDONLY     },
    {"rro",         SET,     MOUNT_ATTR_RDONLY     },
    {"rw",          CLEAR,   MOUNT_ATTR_RDONLY     },
    {"rrw",         CLEAR,   MOUNT_ATTR_RDONLY     },
    {"nosuid",      SET,     MOUNT_ATTR_NOSUID     },
    {"rnosuid",     SET,     MOUNT_ATTR_NOSUID     },
    {"suid",        CLEAR,   MOUNT_ATTR_NOSUID     },
    {"nodev",       SET,     MOUNT_ATTR_NODEV      },
    {"rnodev",      SET,     MOUNT_ATTR_NODEV      },
    {"dev",         CLEAR,   MOUNT_ATTR_NODEV      },
    {"noexec",      SET,     MOUNT_ATTR_NOEXEC     },
    {"rnoexec",     SET,     MOUNT_ATTR_NOEXEC     },
    {"exec",        CLEAR,   MOUNT_ATTR_NOEXEC     },
    {"nosymfollow", SET,     MOUNT_ATTR_NOSYMFOLLOW},
    {"noatime",     SET,     MOUNT_ATTR_NOATIME    },
    {"strictatime", SET,     MOUNT_ATTR_STRICTATIME},
    {"nodiratime",  SET,     MOUNT_ATTR_NODIRATIME },
    {"relatime",    NOTHING, 0                     },
    {"atime",       NOTHING, 0                     },
    {"defaults",    NOTHING, 0                     },
    {"bind",        BIND,    0                     },
    {"rbind",       RBIND,   0                     },
    {"private",     NOTHING, 0                     }, /* every mount of a sandbox is private */
    {"rprivate",    NOTHING, 0                     },
    {"shared",      REFUSE,  0                     },
    {"rshared",     REFUSE,  0                     },
    {"slave",       REFUSE,  0                     },
    {"rslave",      REFUSE,  0                     },
    {"unbindable",  REFUSE,  0                     },
    {"runbindable", REFUSE,  0                     },
    {"idmap",       REFUSE,  0                     },
    {"ridmap",      REFUSE,  0                     },
    {"tmpcopyup",   REFUSE,  0                     },
    {"remount",     REFUSE,  0                     },
};

static const struct option *find(const char *name) {
    for (size_t i = 0; i < PIN_COUNT(table); i++)
        if (strcmp(table[i].name, name) == 0)
            return &table[i];
    return NULL;
}

static void add_data(const char *option, struct pin_arena *arena, struct pin_mount_options *sorted) {
    const char *equals = strchr(option, '=');
    const char **pair = pin_arena_grow(arena, &sorted->data, &sorted->data_count, 2 * sizeof(*pair));
    pair[0] = equals != NULL ? pin_arena_strndup(arena, option, (size_t)(equals - option)) : option;
    pair[1] = equals != NULL ? equals + 1 : NULL;
}

void pin_mount_options_sort(const char *const *options, size_t count, const char *pointer,
                            struct pin_arena *arena, struct pin_mount_options *sorted,
                            struct pin_findings *found) {
    for (size_t i = 0; i < count; i++) {
        const struct option *known = find(options[i]);
        if (known == NULL) {
            add_data(options[i], arena, sorted);
            continue;
        }
        switch (known->effect) {
        case SET:
            sorted->attributes |= known->attribute;
            sorted->cleared &= ~known->attribute;
            break;
        case CLEAR:
            sorted->attributes &= ~known->attribute;
            sorted->cleared |= known->attribute;
            break;
        case BIND: sorted->bind = true; break;
        case RBIND: sorted->bind = sorted->recursive = true; break;
        case NOTHING: break;
        case REFUSE:
            (void)pin_find(found, PIN_ERROR_UNSUPPORTED, pointer, "leave the option out",
                           "a mount can't have the option '%s' here", options[i]);
            break;
        }
    }
}
