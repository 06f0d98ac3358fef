#include <stdio.h>
#include <string.h>

#include "base/names.h"
#include "policy/checks.h"
#include "runtime/bundle/bundle_wall.h"

bool pin_bundle_mount_has(const struct pin_bundle_mount *mount, const char *option) {
    for (size_t i = 0; i < mount->option_count; i++)
        if (strcmp(mount->options[i], option) == 0)
            return true;
    return false;
}

bool pin_bundle_mount_is_bind(const struct pin_bundle_mount *mount) {
    return mount->type == NULL || strcmp(mount->type, "bind") == 0 || pin_bundle_mount_has(mount, "bind") ||
           pin_bundle_mount_has(mount, "rbind");
}

/* The last word counts, as it does for mount(8). */
bool pin_bundle_mount_is_writable(const struct pin_bundle_mount *mount) {
    static const char *const closed[] = {"ro", "rro"}, *const open[] = {"rw", "rrw"};
    bool writable = true;
    for (size_t i = 0; i < mount->option_count; i++) {
        if (pin_name_find(closed, PIN_COUNT(closed), mount->options[i]) >= 0)
            writable = false;
        else if (pin_name_find(open, PIN_COUNT(open), mount->options[i]) >= 0)
            writable = true;
    }
    return writable;
}

struct check {
    const struct pin_bundle_mount *mount;
    char pointer[48];
    struct pin_findings *found;
};

static void refuse(const struct check *check, const char *hint, const char *what, const char *value) {
    (void)pin_find(check->found, PIN_ERROR_REFUSED, check->pointer, hint, "%s '%.120s'", what, value);
}

static void check_options(const struct check *check) {
    static const char *const bad[] = {"shared",  "rshared", "slave",      "rslave",      "suid",
                                      "rsuid",   "dev",     "rdev",       "idmap",       "ridmap",
                                      "remount", "mand",    "unbindable", "runbindable", "tmpcopyup"};
    for (size_t i = 0; i < check->mount->option_count; i++)
        if (pin_name_find(bad, PIN_COUNT(bad), check->mount->options[i]) >= 0)
            refuse(check, "leave the option out", "a mount can't have the option", check->mount->options[i]);
    if (check->mount->uid_map_count + check->mount->gid_map_count > 0)
        refuse(check, "leave out uidMappings and gidMappings", "chooses the host ids of",
               check->mount->destination);
}

/* A new file system. What the host's kernel shows of itself is seen in /proc alone, which has its masks. */
static void check_file_system(const struct check *check) {
    static const struct {
        const char *type, *destination; /* NULL: anywhere */
    } allowed[] = {
        {"proc",   "/proc"      },
        {"devpts", "/dev/pts"   },
        {"mqueue", "/dev/mqueue"},
        {"tmpfs",  NULL         },
    };
    for (size_t i = 0; i < PIN_COUNT(allowed); i++) {
        if (strcmp(allowed[i].type, check->mount->type) != 0)
            continue;
        if (allowed[i].destination != NULL && strcmp(allowed[i].destination, check->mount->destination) != 0)
            refuse(check, "mount it at its usual place", "a file system of the kernel at",
                   check->mount->destination);
        return;
    }
    refuse(check, "proc, devpts, mqueue and tmpfs can be mounted; leave this one out",
           "would show more of the host: a mount of type", check->mount->type);
}

static bool is_kernel_place(const char *path) {
    return pin_path_beneath(path, "/proc") || pin_path_beneath(path, "/sys") ||
           pin_path_beneath(path, "/dev");
}

static void check_destination(const struct check *check) {
    static const char *const own[] = {"/dev", "/dev/shm"};
    const char *path = check->mount->destination;
    bool bind = pin_bundle_mount_is_bind(check->mount);
    bool tmpfs = !bind && strcmp(check->mount->type, "tmpfs") == 0;
    if (!pin_is_plain_path(path) || strcmp(path, "/") == 0)
        (void)pin_find(check->found, PIN_ERROR_INVALID, check->pointer,
                       "an absolute path below /, without '.' and '..'", "can't mount at '%.120s'", path);
    else if ((bind || tmpfs) && is_kernel_place(path) &&
             !(tmpfs && pin_name_find(own, PIN_COUNT(own), path) >= 0))
        refuse(check, "nothing can be mounted on /proc, /sys or /dev",
               "would cover a part of the kernel's at", path);
}

static void check_source(const struct check *check) {
    const char *source = check->mount->source;
    if (source == NULL || !pin_is_plain_path(source))
        (void)pin_find(check->found, PIN_ERROR_INVALID, check->pointer,
                       "an absolute path, or one inside the bundle, without '.' and '..'",
                       "'%.120s' can't be bound", source != NULL ? source : "");
    else if (strcmp(source, "/") == 0 || is_kernel_place(source))
        refuse(check, "leave the mount out", "would show the kernel's own of the host:", source);
}

void pin_bundle_check_mounts(const struct pin_bundle *bundle, struct pin_findings *found) {
    for (size_t i = 0; i < bundle->mount_count; i++) {
        struct check check = {.mount = &bundle->mounts[i], .found = found};
        (void)snprintf(check.pointer, sizeof(check.pointer), "config.json /mounts/%zu", i);
        check_options(&check);
        check_destination(&check);
        if (pin_bundle_mount_is_bind(check.mount))
            check_source(&check);
        else
            check_file_system(&check);
    }
}
