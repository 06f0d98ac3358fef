#include "runtime/private/private_dir.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/user_namespace.h"

static const char *set_variable(const char *name) {
    const char *value = secure_getenv(name);
    return value != NULL && value[0] != '\0' ? value : NULL;
}

static bool fits(int length, struct pin_error *err) {
    return (length > 0 && length < PATH_MAX) || pin_fail(err, PIN_ERROR_INVALID, "a path is too long");
}

bool pin_private_choose(const struct pin_private_place *place, char path[PATH_MAX], struct pin_error *err) {
    const char *named = set_variable(place->variable);
    if (named != NULL && named[0] != '/') {
        (void)pin_fail(err, PIN_ERROR_USAGE, "%s '%s' is not an absolute path", place->variable, named);
        return pin_hint(err, "give an absolute path, or unset %s", place->variable);
    }
    if (named != NULL)
        return fits(snprintf(path, PATH_MAX, "%s", named), err);
    if (geteuid() == 0 && !pin_in_user_namespace()) /* there an ordinary user stands behind it */
        return fits(snprintf(path, PATH_MAX, "%s", place->of_root), err);
    const char *xdg = set_variable(place->xdg), *home = set_variable("HOME");
    if (xdg != NULL && xdg[0] == '/')
        return fits(snprintf(path, PATH_MAX, "%s/%s", xdg, place->below), err);
    if (home != NULL && home[0] == '/')
        return fits(snprintf(path, PATH_MAX, "%s/%s/%s", home, place->home, place->below), err);
    (void)pin_fail(err, PIN_ERROR_USAGE, "HOME names no directory");
    return pin_hint(err, "set HOME or %s", place->variable);
}

/* Modes of parents that are there already are their owners' business. */
static bool make_parents(const char *path, struct pin_error *err) {
    char folder[PATH_MAX];
    if (!fits(snprintf(folder, sizeof(folder), "%s", path), err))
        return false;
    for (char *slash = strchr(folder + 1, '/'); slash != NULL; slash = strchr(slash + 1, '/')) {
        *slash = '\0';
        if (mkdir(folder, 0700) != 0 && errno != EEXIST)
            return pin_fail_errno(err, "make the directory '%s'", folder);
        *slash = '/';
    }
    return true;
}

static bool is_private(const struct stat *facts, const char *what, const char *name, struct pin_error *err) {
    if (facts->st_uid != geteuid()) {
        (void)pin_fail(err, PIN_ERROR_REFUSED, "the %s '%s' belongs to uid %u, not to uid %u", what, name,
                       (unsigned)facts->st_uid, (unsigned)geteuid());
        return pin_hint(err, "chown it, or use another one");
    }
    if ((facts->st_mode & 0077) != 0) {
        (void)pin_fail(err, PIN_ERROR_REFUSED, "the %s '%s' is open to others (mode %04o)", what, name,
                       (unsigned)(facts->st_mode & 07777));
        return pin_hint(err, "check what is in it, then take the others' rights away with chmod go=");
    }
    return true;
}

int pin_private_dir(const char *path, bool create, struct pin_error *err) {
    struct stat facts;
    PIN_CLOSE int fd = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0 && errno == ENOENT && create) {
        if (!make_parents(path, err))
            return -1;
        if (mkdir(path, 0700) != 0 && errno != EEXIST)
            (void)pin_fail_errno(err, "make the directory '%s'", path);
        else
            fd = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    }
    if (fd < 0 && !pin_is_set(err))
        (void)pin_fail_errno(err, "open the directory '%s'", path);
    else if (fd >= 0 && fstat(fd, &facts) != 0)
        (void)pin_fail_errno(err, "look at '%s'", path);
    else if (fd >= 0 && is_private(&facts, "directory", path, err))
        return pin_steal_fd(&fd);
    (void)pin_point(err, "%s", path);
    return -1;
}

int pin_private_file(int dir, const char *name, int flags, struct pin_error *err) {
    struct stat facts;
    /* O_NONBLOCK: a FIFO that somebody put here must not hold us up */
    PIN_CLOSE int fd = openat(dir, name, flags | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC, 0600);
    if (fd < 0 || fstat(fd, &facts) != 0)
        (void)pin_fail_errno(err, "open '%s'", name);
    else if (!S_ISREG(facts.st_mode))
        (void)pin_fail(err, PIN_ERROR_REFUSED, "'%s' is not a regular file", name);
    else if (is_private(&facts, "file", name, err))
        return pin_steal_fd(&fd);
    (void)pin_point(err, "%s", name);
    return -1;
}
