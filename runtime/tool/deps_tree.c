#include "runtime/tool/deps_tree.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/io.h"

struct walk {
    struct pin_deps_size *size;
    bool settle;
    dev_t device;
    struct pin_error *err;
};

static bool walk_entry(struct walk *walk, int parent, const char *name, unsigned depth);

/* By the descriptor of the entry itself: a name could have become a link meanwhile. */
static bool settle_entry(struct walk *walk, int parent, const char *name, int entry,
                         const struct stat *facts) {
    char path[40];
    mode_t mode = (facts->st_mode & 0755) | 0444;
    if (S_ISDIR(facts->st_mode) || (facts->st_mode & 0111) != 0)
        mode |= 0111;
    if (!S_ISREG(facts->st_mode) && !S_ISDIR(facts->st_mode) && !S_ISLNK(facts->st_mode))
        return unlinkat(parent, name, 0) == 0 || pin_fail_errno(walk->err, "remove what is no file");
    if (fchownat(entry, "", geteuid(), getegid(), AT_EMPTY_PATH | AT_SYMLINK_NOFOLLOW) != 0)
        return pin_fail_errno(walk->err, "own what was installed");
    if (S_ISLNK(facts->st_mode))
        return true;
    (void)snprintf(path, sizeof(path), "/proc/self/fd/%d", entry);
    return chmod(path, S_ISDIR(facts->st_mode) ? mode | 0700 : mode) == 0 ||
           pin_fail_errno(walk->err, "set the mode of what was installed");
}

static bool walk_directory(struct walk *walk, int entry, unsigned depth) {
    PIN_CLOSE int fd = openat(entry, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *list = fd < 0 ? NULL : fdopendir(fd);
    struct dirent *item;
    bool good = true;
    if (list == NULL)
        return !walk->settle || pin_fail_errno(walk->err, "read what was installed");
    (void)pin_steal_fd(&fd);
    while (good && (item = pin_next_entry(list, walk->err)) != NULL)
        good = walk_entry(walk, dirfd(list), item->d_name, depth + 1);
    (void)closedir(list);
    return good && (!walk->settle || !pin_is_set(walk->err));
}

static bool walk_entry(struct walk *walk, int parent, const char *name, unsigned depth) {
    struct stat facts;
    PIN_CLOSE int entry = openat(parent, name, O_PATH | O_NOFOLLOW | O_CLOEXEC);
    if (entry < 0 || fstat(entry, &facts) != 0)
        return !walk->settle || pin_fail_errno(walk->err, "look at what was installed");
    if (depth == 0)
        walk->device = facts.st_dev;
    if (facts.st_dev != walk->device)
        return true;
    if (depth > PIN_DEPS_DEPTH)
        return !walk->settle || pin_fail(walk->err, PIN_ERROR_INVALID,
                                         "what was installed is nested more than %d deep", PIN_DEPS_DEPTH);
    walk->size->entries++;
    walk->size->bytes += (uint64_t)facts.st_blocks * 512;
    if (walk->settle && !settle_entry(walk, parent, name, entry, &facts))
        return false;
    return !S_ISDIR(facts.st_mode) || walk_directory(walk, entry, depth);
}

void pin_deps_measure(int parent, const char *name, struct pin_deps_size *size) {
    struct pin_error ignored = {0};
    struct walk walk = {.size = size, .err = &ignored};
    *size = (struct pin_deps_size){0};
    (void)walk_entry(&walk, parent, name, 0);
}

bool pin_deps_settle(int parent, const char *name, struct pin_deps_size *size, struct pin_error *err) {
    struct walk walk = {.size = size, .settle = true, .err = err};
    *size = (struct pin_deps_size){0};
    return walk_entry(&walk, parent, name, 0);
}
