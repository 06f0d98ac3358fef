#include "images/image_store.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/names.h"

static const char *const folders[] = {"blobs", "layers", "images", "refs", "locks", "tmp"};

static bool print_path(char to[PATH_MAX], const char *base, const char *rest, struct pin_error *err) {
    if (base[0] != '/')
        return pin_fail(err, PIN_ERROR_INVALID, "the path of the image store, '%.200s', isn't absolute",
                        base);
    int size = snprintf(to, PATH_MAX, "%s%s", base, rest);
    if (size < 0 || size >= PATH_MAX)
        return pin_fail(err, PIN_ERROR_INVALID, "the path of the image store is too long");
    return true;
}

static bool choose_path(char to[PATH_MAX], struct pin_error *err) {
    const char *own = secure_getenv("PINFOLD_IMAGES");
    if (own != NULL && own[0] != '\0')
        return print_path(to, own, "", err);
    if (geteuid() == 0)
        return print_path(to, "/var/lib/pinfold/images", "", err);
    const char *data = secure_getenv("XDG_DATA_HOME"), *home = secure_getenv("HOME");
    if (data != NULL && data[0] == '/')
        return print_path(to, data, "/pinfold/images", err);
    if (home != NULL && home[0] == '/')
        return print_path(to, home, "/.local/share/pinfold/images", err);
    (void)pin_fail(err, PIN_ERROR_NOT_FOUND, "there is no home directory to keep images in");
    return pin_hint(err, "set HOME, or PINFOLD_IMAGES to a directory");
}

static bool make_directories(const char *path, struct pin_error *err) {
    char part[PATH_MAX];
    for (size_t i = 1; path[i - 1] != '\0'; i++) {
        if (path[i] != '/' && path[i] != '\0')
            continue;
        memcpy(part, path, i);
        part[i] = '\0';
        if (mkdir(part, path[i] == '\0' ? 0700 : 0755) < 0 && errno != EEXIST) {
            (void)pin_fail_errno(err, "make '%s'", part);
            return pin_point(err, "%s", part);
        }
    }
    return true;
}

/* Somebody who may write here could give a sandbox another root than the one that was checked. */
static bool is_ours(int dir, const char *path, struct pin_error *err) {
    struct stat st = {0};
    if (fstat(dir, &st) < 0)
        return pin_fail_errno(err, "look at '%s'", path);
    if (st.st_uid != geteuid()) {
        (void)pin_point(err, "%s", path);
        (void)pin_fail(err, PIN_ERROR_REFUSED, "the image store belongs to user %u", st.st_uid);
        return pin_hint(err, "use PINFOLD_IMAGES with a directory of your own");
    }
    if (st.st_mode & 077) {
        (void)pin_point(err, "%s", path);
        (void)pin_fail(err, PIN_ERROR_REFUSED, "the image store is open to others (mode %04o)",
                       st.st_mode & 07777);
        return pin_hint(err, "chmod 0700 '%s'", path);
    }
    return true;
}

bool pin_image_store_complete(const struct pin_image_store *store, struct pin_error *err) {
    for (size_t i = 0; i < PIN_COUNT(folders); i++)
        if (mkdirat(store->dir, folders[i], 0700) < 0 && errno != EEXIST)
            return pin_fail_errno(err, "make '%s'", folders[i]);
    return true;
}

bool pin_image_store_open_at(struct pin_image_store *store, const char *path, bool create,
                             struct pin_error *err) {
    if (path[0] != '/' || strlen(path) >= sizeof(store->path))
        return pin_fail(err, PIN_ERROR_INVALID, "the path of the image store, '%.200s', isn't absolute",
                        path);
    if (create && access(path, F_OK) < 0 && !make_directories(path, err))
        return false;
    PIN_CLOSE int dir = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (dir < 0) {
        bool absent = errno == ENOENT;
        (void)pin_fail_errno(err, "open the image store '%s'", path);
        (void)pin_point(err, "%s", path);
        return absent ? pin_hint(err, "no image is stored yet: 'pinfold image import' or 'pull' stores one")
                      : false;
    }
    if (!is_ours(dir, path, err))
        return false;
    memcpy(store->path, path, strlen(path) + 1);
    store->dir = pin_steal_fd(&dir);
    return true;
}

bool pin_image_store_open(struct pin_image_store *store, bool create, struct pin_error *err) {
    char path[PATH_MAX] = "";
    return choose_path(path, err) && pin_image_store_open_at(store, path, create, err);
}

void pin_image_store_close(struct pin_image_store *store) {
    pin_close_fd(&store->dir);
}
