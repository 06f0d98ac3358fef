#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "runtime/build/seccomp/cache.h"

/* Where the cache lies: `base` is given, `below` is made where it is missing. */
struct cache_path {
    char base[PATH_MAX];
    const char *const *below;
};

static bool check_directory(int dir, const char *path, bool last, struct pin_error *err) {
    struct stat status;
    if (fstat(dir, &status) < 0)
        return pin_fail_errno(err, "read the status of '%s'", path);
    bool others_write = (status.st_mode & (S_IWGRP | S_IWOTH)) != 0;
    bool sticky = (status.st_mode & S_ISVTX) != 0;
    if (status.st_uid != 0 && status.st_uid != geteuid())
        (void)pin_fail(err, PIN_ERROR_REFUSED, "'%s' belongs to user %u", path, (unsigned)status.st_uid);
    else if (others_write && (last || !sticky))
        (void)pin_fail(err, PIN_ERROR_REFUSED, "'%s' can be written by others", path);
    else
        return true;
    return pin_hint(err, "PINFOLD_CACHE names another directory");
}

/* Opens `name` below `*dir` and puts it in its place. */
static bool descend(int *dir, const char *name, bool make, bool last, struct pin_error *err) {
    if (make && mkdirat(*dir, name, 0700) < 0 && errno != EEXIST)
        return pin_fail_errno(err, "make the directory '%s' of the filter cache", name);
    PIN_CLOSE int next = openat(*dir, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (next < 0)
        return pin_fail_errno(err, "open the directory '%s' of the filter cache", name);
    if (!check_directory(next, name, last, err))
        return false;
    pin_close_fd(dir);
    *dir = pin_steal_fd(&next);
    return true;
}

/* Walks an absolute path from the root, without symbolic links. */
static bool walk(int *dir, const char *path, struct pin_error *err) {
    char copy[PATH_MAX], *rest = NULL;
    (void)snprintf(copy, sizeof(copy), "%s", path);
    for (char *part = strtok_r(copy, "/", &rest); part != NULL; part = strtok_r(NULL, "/", &rest))
        if (strcmp(part, "..") == 0 || !descend(dir, part, false, false, err))
            return pin_is_set(err) ? false : pin_fail(err, PIN_ERROR_INVALID, "'%s' has '..' in it", path);
    return true;
}

static bool from_environment(struct cache_path *path, const char *variable, const char *const *below) {
    const char *value = secure_getenv(variable);
    path->below = below;
    return value != NULL && value[0] == '/' &&
           snprintf(path->base, sizeof(path->base), "%s", value) < (int)sizeof(path->base);
}

static bool find_path(struct cache_path *path, struct pin_error *err) {
    static const char *const given[] = {"seccomp", NULL};
    static const char *const cache[] = {"pinfold", "seccomp", NULL};
    static const char *const home[] = {".cache", "pinfold", "seccomp", NULL};
    if (from_environment(path, "PINFOLD_CACHE", given))
        return true;
    if (geteuid() == 0) {
        *path = (struct cache_path){.base = "/var/cache", .below = cache};
        return true;
    }
    return from_environment(path, "XDG_CACHE_HOME", cache) || from_environment(path, "HOME", home) ||
           pin_fail(err, PIN_ERROR_NOT_FOUND, "there is no place for the filter cache: HOME is not set");
}

static bool open_base(int *dir, struct cache_path *path, struct pin_error *err) {
    /* Links on the way, such as /home -> /var/home, are followed by name first; what they lead to is then
     * walked and judged without any. */
    char resolved[PATH_MAX];
    if (realpath(path->base, resolved) == NULL)
        return pin_fail_errno(err, "find the directory '%s' of the filter cache", path->base);
    *dir = open("/", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (*dir < 0)
        return pin_fail_errno(err, "open '/'");
    return walk(dir, resolved, err);
}

int pin_cache_open(struct pin_error *err) {
    struct cache_path path = {.base = ""};
    PIN_CLOSE int dir = -1;
    if (!find_path(&path, err) || !open_base(&dir, &path, err))
        return -1;
    for (const char *const *name = path.below; *name != NULL; name++)
        if (!descend(&dir, *name, true, name[1] == NULL, err))
            return -1;
    return pin_steal_fd(&dir);
}
