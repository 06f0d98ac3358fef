#include "runtime/state/state_dir.h"

#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"

static bool fits(char path[PATH_MAX], int length, struct pin_error *err) {
    if (length > 0 && length < PATH_MAX)
        return true;
    path[0] = '\0';
    return pin_fail(err, PIN_ERROR_INVALID, "the path of the state directory is too long");
}

bool pin_state_choose(const struct pin_state_where *where, char path[PATH_MAX], struct pin_error *err) {
    if (where->state != NULL) {
        if (where->state[0] != '/') {
            (void)pin_fail(err, PIN_ERROR_USAGE, "PINFOLD_STATE '%s' is not an absolute path", where->state);
            return pin_hint(err, "give an absolute path, or unset PINFOLD_STATE");
        }
        return fits(path, snprintf(path, PATH_MAX, "%s", where->state), err);
    }
    if (where->uid == 0)
        return fits(path, snprintf(path, PATH_MAX, "/run/pinfold"), err);
    if (where->xdg_runtime_dir != NULL && where->xdg_runtime_dir[0] == '/')
        return fits(path, snprintf(path, PATH_MAX, "%s/pinfold", where->xdg_runtime_dir), err);
    return fits(path, snprintf(path, PATH_MAX, "/tmp/pinfold-%u", (unsigned)where->uid), err);
}

/* A variable that was inherited through su names the directory of another user. */
static bool own_directory(const char *path) {
    struct stat facts;
    return path != NULL && stat(path, &facts) == 0 && S_ISDIR(facts.st_mode) && facts.st_uid == geteuid();
}

static const char *set_variable(const char *name) {
    const char *value = secure_getenv(name);
    return value != NULL && value[0] != '\0' ? value : NULL;
}

int pin_state_open(struct pin_error *err) {
    const char *runtime_dir = set_variable("XDG_RUNTIME_DIR");
    struct pin_state_where where = {
        .uid = geteuid(),
        .state = set_variable("PINFOLD_STATE"),
    };
    if (where.state == NULL && where.uid != 0 && own_directory(runtime_dir))
        where.xdg_runtime_dir = runtime_dir;
    char path[PATH_MAX];
    if (!pin_state_choose(&where, path, err))
        return -1;
    return pin_state_open_path(path, err);
}

/* A umask of 0777, or a kill before the next call, leaves a directory of ours that we can't enter. */
static bool make_enterable(int fd, const char *path, struct pin_error *err) {
    char self[64];
    (void)snprintf(self, sizeof(self), "/proc/self/fd/%d", fd);
    return chmod(self, 0700) == 0 || pin_fail_errno(err, "make '%s' accessible to its owner", path);
}

static bool check_directory(int fd, const char *path, struct pin_error *err) {
    struct stat facts;
    if (fstat(fd, &facts) != 0)
        return pin_fail_errno(err, "look at '%s'", path);
    if (facts.st_uid != geteuid()) {
        (void)pin_fail(err, PIN_ERROR_REFUSED, "the state directory '%s' belongs to uid %u, not to uid %u",
                       path, (unsigned)facts.st_uid, (unsigned)geteuid());
        return pin_hint(err, "remove it, or name another one in PINFOLD_STATE");
    }
    if ((facts.st_mode & 0077) != 0) {
        (void)pin_fail(err, PIN_ERROR_REFUSED, "the state directory '%s' is open to others (mode %04o)", path,
                       (unsigned)(facts.st_mode & 07777));
        return pin_hint(err, "check what is in it, then chmod 700 it");
    }
    return (facts.st_mode & 0700) == 0700 || make_enterable(fd, path, err);
}

static int open_checked(int at, const char *path, struct pin_error *err) {
    PIN_CLOSE int place = openat(at, path, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (place < 0 && errno == ENOTDIR) {
        (void)pin_fail(err, PIN_ERROR_REFUSED, "'%s' is a link or a file where the state directory should be",
                       path);
        (void)pin_hint(err, "remove it, or name another directory in PINFOLD_STATE");
        return -1;
    }
    if (place < 0) {
        (void)pin_fail_errno(err, "open the state directory '%s'", path);
        return -1;
    }
    if (!check_directory(place, path, err))
        return -1;
    int fd = openat(place, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0)
        (void)pin_fail_errno(err, "open the state directory '%s'", path);
    return fd;
}

static int make_and_open(int at, const char *path, bool create, struct pin_error *err) {
    if (create && mkdirat(at, path, 0700) != 0 && errno != EEXIST) {
        (void)pin_fail_errno(err, "make the state directory '%s'", path);
        (void)pin_hint(err, "name a directory of your own in PINFOLD_STATE");
        (void)pin_point(err, "%s", path);
        return -1;
    }
    int fd = open_checked(at, path, err);
    if (fd < 0)
        (void)pin_point(err, "%s", path);
    return fd;
}

int pin_state_open_path(const char *path, struct pin_error *err) {
    return make_and_open(AT_FDCWD, path, true, err);
}

/* Most calls find the folder there, so that it is opened before it is made. */
int pin_state_folder(int state_dir, const char *name, bool create, struct pin_error *err) {
    if (create && faccessat(state_dir, name, F_OK, AT_SYMLINK_NOFOLLOW) == 0)
        create = false;
    return make_and_open(state_dir, name, create, err);
}

bool pin_state_tag(int state_dir, char tag[PIN_STATE_TAG], struct pin_error *err) {
    const char *named = set_variable("PINFOLD_STATE");
    if (named == NULL) {
        (void)snprintf(tag, PIN_STATE_TAG, "pinfold");
        return true;
    }
    struct stat facts;
    if (fstat(state_dir, &facts) != 0)
        return pin_fail_errno(err, "look at the state directory");
    uint64_t mixed = ((uint64_t)facts.st_dev * UINT64_C(0x9E3779B97F4A7C15)) ^ (uint64_t)facts.st_ino;
    (void)snprintf(tag, PIN_STATE_TAG, "pinfold-%016llx", (unsigned long long)mixed);
    return true;
}
