#include "runtime/kept/scratch.h"

#include <dirent.h>
#include <fcntl.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/io.h"
#include "runtime/state/tree.h"

bool pin_scratch_open(struct pin_scratch *scratch, int root, const char *const *paths, size_t count,
                      struct pin_error *err) {
    for (size_t i = 0; i < count; i++) {
        int dir = pin_open_in_root(root, paths[i], O_RDONLY | O_DIRECTORY, 0, err);
        if (dir < 0)
            return pin_wrap(err, "open '%.60s' in the sandbox", paths[i]);
        scratch->items[scratch->count++].dir = dir;
        if (fstat(dir, &scratch->items[i].was) != 0)
            return pin_fail_errno(err, "look at '%.60s' in the sandbox", paths[i]);
    }
    return true;
}

/* An entry that can't be removed would be seen by the next call. */
static bool empty(int parent, struct pin_error *err) {
    int fd = openat(parent, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *dir = fd < 0 ? NULL : fdopendir(fd);
    if (dir == NULL) {
        (void)pin_fail_errno(err, "list what a call has left");
        pin_close_fd(&fd);
        return false;
    }
    bool ok = true;
    for (struct dirent *entry; ok && (entry = pin_next_entry(dir, err)) != NULL;)
        ok = pin_tree_remove(parent, entry->d_name, err);
    (void)closedir(dir);
    return ok && !pin_is_set(err);
}

bool pin_scratch_clean(const struct pin_scratch *scratch, struct pin_error *err) {
    for (size_t i = 0; i < scratch->count; i++) {
        const struct stat *was = &scratch->items[i].was;
        struct stat now;
        if (!empty(scratch->items[i].dir, err))
            return false;
        if (fstat(scratch->items[i].dir, &now) != 0)
            return pin_fail_errno(err, "look at what a call has left");
        if (now.st_mode != was->st_mode || now.st_uid != was->st_uid || now.st_gid != was->st_gid)
            return pin_fail(err, PIN_ERROR_REFUSED,
                            "a call has changed the mode of a directory that it shares");
    }
    return true;
}

void pin_scratch_close(struct pin_scratch *scratch) {
    while (scratch->count > 0)
        pin_close_fd(&scratch->items[--scratch->count].dir);
}
