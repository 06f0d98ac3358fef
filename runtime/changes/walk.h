/* walk.h: what the two walks over an upper directory share. */
#pragma once

#include <fcntl.h>
#include <stdbool.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/xattr.h>

#include "base/io.h"

#define PIN_PERMISSIONS 0777u /* set-id and sticky bits from inside mean nothing outside */

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

/* An entry of the upper directory, whose processes are all dead. Without its owner's permission to read it,
 * an ordinary user couldn't: it is given, and who needs the mode afterwards gives it back. */
static inline int pin_open_changed(int upper, const char *name, mode_t mode) {
    mode_t needed = S_ISDIR(mode) ? 0500 : 0400;
    if ((mode & needed) != needed)
        pin_ignore(fchmodat(upper, name, (mode | needed) & 07777, 0)); /* the open says what is wrong */
    return openat(upper, name,
                  O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK | (S_ISDIR(mode) ? O_DIRECTORY : 0));
}
