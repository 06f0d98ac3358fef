#include "images/image_user.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/io.h"
#include "base/users.h"

#define FILE_MAX ((size_t)1024 * 1024) /* bytes */

enum layer_has { LAYER_HAS, LAYER_HASNT, LAYER_HIDES };

/* An opaque directory, or a whiteout, hides what the layers below have. */
static enum layer_has look(int root, const char *name, int *file) {
    struct stat st;
    struct pin_error ignored = {0};
    char opaque;
    PIN_CLOSE int etc = pin_open_beneath(root, "etc", O_RDONLY | O_DIRECTORY, 0, &ignored);
    if (etc < 0)
        return fstatat(root, "etc", &st, AT_SYMLINK_NOFOLLOW) == 0 ? LAYER_HIDES : LAYER_HASNT;
    if (fstatat(etc, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
        return fgetxattr(etc, "user.overlay.opaque", &opaque, 1) == 1 ? LAYER_HIDES : LAYER_HASNT;
    if (!S_ISREG(st.st_mode))
        return LAYER_HIDES;
    *file = openat(etc, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC | O_NOCTTY);
    return *file >= 0 && fstat(*file, &st) == 0 && S_ISREG(st.st_mode) ? LAYER_HAS : LAYER_HIDES;
}

static int open_root(const struct pin_rootfs *rootfs, size_t layer) {
    const char *path = rootfs->kind == PIN_ROOTFS_LAYERS ? rootfs->layers[layer] : rootfs->directory;
    return open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
}

/* The text of etc/NAME; NULL: the image has none. */
static char *read_database(const struct pin_rootfs *rootfs, const char *name) {
    size_t layers = rootfs->kind == PIN_ROOTFS_LAYERS ? rootfs->layer_count : 1;
    for (size_t i = layers; i > 0; i--) {
        PIN_CLOSE int root = open_root(rootfs, i - 1), file = -1;
        enum layer_has has = root < 0 ? LAYER_HIDES : look(root, name, &file);
        struct pin_error ignored = {0}; /* a file too large to read knows nobody */
        size_t size;
        if (has == LAYER_HAS)
            return pin_read_all(file, FILE_MAX, &size, &ignored);
        if (has == LAYER_HIDES)
            return NULL;
    }
    return NULL;
}

static bool find_user(const struct pin_rootfs *rootfs, const char *user, uint32_t *uid, uint32_t *gid,
                      struct pin_error *err) {
    PIN_FREE char *passwd = read_database(rootfs, "passwd");
    bool has_gid;
    if (!pin_user_find(passwd, user, uid, gid, &has_gid)) {
        (void)pin_fail(err, PIN_ERROR_NOT_FOUND,
                       "the image runs as '%.60s', whom its etc/passwd doesn't have", user);
        return pin_hint(err, "name a user by its number in the request or the policy");
    }
    if (!has_gid)
        *gid = 0;
    return true;
}

static bool find_group(const struct pin_rootfs *rootfs, const char *group, uint32_t *gid,
                       struct pin_error *err) {
    uint32_t number;
    PIN_FREE char *database = pin_user_id(group, &number) ? NULL : read_database(rootfs, "group");
    if (pin_group_find(database, group, gid))
        return true;
    (void)pin_fail(err, PIN_ERROR_NOT_FOUND,
                   "the image runs in group '%.60s', which its etc/group doesn't have", group);
    return pin_hint(err, "name a group by its number in the request or the policy");
}

bool pin_image_user(const struct pin_rootfs *rootfs, const char *user, uint32_t *uid, uint32_t *gid,
                    struct pin_error *err) {
    struct pin_user_name name;
    uint32_t found_uid = UINT32_MAX, found_gid = UINT32_MAX;
    if (!pin_user_split(user[0] == '\0' ? "0" : user, &name))
        return pin_fail(err, PIN_ERROR_INVALID, "the image's user isn't 'user' or 'user:group'");
    if (!find_user(rootfs, name.user, &found_uid, &found_gid, err))
        return false;
    if (name.group[0] != '\0' && !find_group(rootfs, name.group, &found_gid, err))
        return false;
    *uid = found_uid;
    *gid = found_gid;
    return true;
}
