/* walk.h: what the two walks over an upper directory share. */
#pragma once

#include <fcntl.h>
#include <stdbool.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/xattr.h>

static inline bool pin_is_whiteout(const struct stat *st) {
    return S_ISCHR(st->st_mode) && st->st_rdev == makedev(0, 0);
}

static inline bool pin_is_opaque(int directory) {
    char value[2];
    return fgetxattr(directory, "user.overlay.opaque", value, sizeof(value)) == 1 && value[0] == 'y';
}

static inline bool pin_is_dots(const char *name) {
    return strcmp(name, ".") == 0 || strcmp(name, "..") == 0;
}

/* A folder in a folder: never through a link. */
static inline int pin_open_folder(int directory, const char *name) {
    return openat(directory, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
}
