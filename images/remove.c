#include "images/remove.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/io.h"

#define DEPTH_MAX 600 /* deeper than any layer that we unpack, within the usual 1,024 descriptors */

struct removal {
    dev_t device;
    unsigned depth;
};

static bool remove_inside(struct removal *removal, int dir, const char *name, struct pin_error *err);

static bool remove_entries(struct removal *removal, DIR *list, struct pin_error *err) {
    for (;;) {
        const struct dirent *entry = pin_next_entry(list, err);
        if (entry == NULL)
            return !pin_is_set(err) || pin_wrap(err, "list a directory to remove");
        if (unlinkat(dirfd(list), entry->d_name, 0) == 0)
            continue;
        if (errno != EISDIR && errno != EPERM)
            return pin_fail_errno(err, "remove '%s'", entry->d_name);
        if (!remove_inside(removal, dirfd(list), entry->d_name, err))
            return false;
    }
}

static bool remove_inside(struct removal *removal, int dir, const char *name, struct pin_error *err) {
    if (removal->depth >= DEPTH_MAX)
        return pin_fail(err, PIN_ERROR_INVALID, "'%s' is nested too deep", name);
    int fd = openat(dir, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    struct stat st;
    DIR *list = fd < 0 ? NULL : fdopendir(fd);
    if (list == NULL) {
        (void)pin_fail_errno(err, "open '%s' to remove it", name);
        pin_close_slot(&fd);
        return false;
    }
    bool done = fstat(fd, &st) == 0 && (removal->device == 0 || st.st_dev == removal->device);
    if (!done)
        (void)pin_fail(err, PIN_ERROR_REFUSED, "'%s' is a mount point", name);
    removal->device = st.st_dev;
    removal->depth++;
    (void)fchmod(fd, 0700); /* an ordinary user's own directory may be closed to its owner */
    done = done && remove_entries(removal, list, err);
    removal->depth--;
    (void)closedir(list);
    if (done && unlinkat(dir, name, AT_REMOVEDIR) < 0)
        return pin_fail_errno(err, "remove the directory '%s'", name);
    return done;
}

bool pin_remove_tree(int dir, const char *name, struct pin_error *err) {
    struct removal removal = {0};
    if (unlinkat(dir, name, 0) == 0 || errno == ENOENT)
        return true;
    if (errno != EISDIR && errno != EPERM)
        return pin_fail_errno(err, "remove '%s'", name);
    return remove_inside(&removal, dir, name, err);
}
