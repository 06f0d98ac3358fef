#include "runtime/state/tree.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/cleanup.h"

enum { PASSES = 4 };

struct walk {
    DIR *levels[PIN_TREE_DEPTH]; /* levels[0] is the top of the tree */
    char names[PIN_TREE_DEPTH][NAME_MAX + 1];
    size_t depth;    /* of open levels */
    uint64_t lifted; /* directories that were moved up */
};

static int open_directory(int parent, const char *name, uint64_t flags) {
    struct open_how how = {
        .flags = flags | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC,
        .resolve = RESOLVE_BENEATH | RESOLVE_NO_XDEV | RESOLVE_NO_SYMLINKS,
    };
    return (int)syscall(SYS_openat2, parent, name, &how, sizeof(how));
}

/* Root needs no permissions, an owner does: to read, and to remove what is inside. The link of procfs leads
 * to the very directory that was opened. */
static void permit(int parent, const char *name) {
    PIN_CLOSE int place = open_directory(parent, name, O_PATH);
    struct stat facts;
    char self[64];
    if (place < 0 || fstat(place, &facts) != 0 || (facts.st_mode & 0700) == 0700)
        return;
    (void)snprintf(self, sizeof(self), "/proc/self/fd/%d", place);
    (void)chmod(self, 0700); /* a failure shows when the directory is used */
}

static bool enter(struct walk *walk, int parent, const char *name, struct pin_error *err) {
    permit(parent, name);
    PIN_CLOSE int fd = open_directory(parent, name, O_RDONLY);
    if (fd < 0 && errno == EXDEV)
        return pin_fail(err, PIN_ERROR_BUSY, "a file system is mounted on a directory in it");
    DIR *level = fd < 0 ? NULL : fdopendir(fd);
    if (level == NULL)
        return pin_fail_errno(err, "open a directory in it");
    (void)pin_steal_fd(&fd);
    walk->levels[walk->depth] = level;
    (void)snprintf(walk->names[walk->depth], sizeof(walk->names[0]), "%s", name);
    walk->depth++;
    return true;
}

static DIR *bottom(const struct walk *walk) {
    return walk->levels[walk->depth - 1];
}

/* A name that the tree chose may be taken: then the next number is tried. */
static bool lift(struct walk *walk, const char *name, struct pin_error *err) {
    permit(dirfd(bottom(walk)), name); /* a directory that changes its parent must be writable */
    for (;;) {
        char fresh[NAME_MAX + 1];
        (void)snprintf(fresh, sizeof(fresh), "pinfold-lifted-%llu", (unsigned long long)walk->lifted++);
        if (renameat(dirfd(bottom(walk)), name, dirfd(walk->levels[0]), fresh) == 0)
            return true; /* in the place of an empty directory, perhaps: that is removed as well then */
        if (errno != EEXIST && errno != ENOTEMPTY && errno != ENOTDIR)
            return pin_fail_errno(err, "move a deep directory up");
    }
}

enum outcome { REMOVED, DIRECTORY, FAILED };

static enum outcome remove_entry(int parent, const char *name, unsigned char type, struct pin_error *err) {
    if (type != DT_DIR && (unlinkat(parent, name, 0) == 0 || errno == ENOENT))
        return REMOVED;
    if (type == DT_DIR || errno == EISDIR)
        return unlinkat(parent, name, AT_REMOVEDIR) == 0 ? REMOVED : DIRECTORY;
    (void)pin_fail_errno(err, "remove a file in it");
    return FAILED;
}

static bool is_dots(const char *name) {
    return strcmp(name, ".") == 0 || strcmp(name, "..") == 0;
}

/* One step at the lowest open level: *end when it has no more entries. */
static bool step(struct walk *walk, bool *end, struct pin_error *err) {
    DIR *level = bottom(walk);
    errno = 0;
    const struct dirent *entry = readdir(level);
    *end = entry == NULL;
    if (entry == NULL)
        return errno == 0 || pin_fail_errno(err, "list a directory in it");
    if (is_dots(entry->d_name))
        return true;
    switch (remove_entry(dirfd(level), entry->d_name, entry->d_type, err)) {
    case REMOVED: return true;
    case FAILED: return false;
    case DIRECTORY: break;
    }
    if (walk->depth == PIN_TREE_DEPTH)
        return lift(walk, entry->d_name, err);
    return enter(walk, dirfd(level), entry->d_name, err);
}

/* Leaves the lowest level, which is read to its end, and removes it. What was moved to the top may have been
 * missed by the reading, and a file system may skip entries while others are removed: then it is read again.
 */
static bool leave(struct walk *walk, int parent, unsigned *again, struct pin_error *err) {
    size_t lowest = walk->depth - 1;
    int above = lowest == 0 ? parent : dirfd(walk->levels[lowest - 1]);
    if (unlinkat(above, walk->names[lowest], AT_REMOVEDIR) != 0 && errno != ENOENT) {
        if (errno != ENOTEMPTY || (*again)++ >= PASSES)
            return pin_fail_errno(err, "remove a directory in it");
        rewinddir(walk->levels[lowest]);
        return true;
    }
    *again = 0;
    (void)closedir(walk->levels[lowest]);
    walk->depth--;
    return true;
}

static bool run(struct walk *walk, int parent, struct pin_error *err) {
    unsigned again = 0;
    uint64_t lifted = 0;
    while (walk->depth > 0) {
        bool end = false;
        if (!step(walk, &end, err))
            return false;
        if (walk->lifted != lifted) {
            lifted = walk->lifted;
            again = 0; /* the top has new entries: reading it again is progress */
        }
        if (end && !leave(walk, parent, &again, err))
            return false;
    }
    return true;
}

bool pin_tree_remove(int parent, const char *name, struct pin_error *err) {
    if (unlinkat(parent, name, 0) == 0 || errno == ENOENT)
        return true;
    if (unlinkat(parent, name, AT_REMOVEDIR) == 0)
        return true;
    struct walk walk = {0};
    bool ok = enter(&walk, parent, name, err) && run(&walk, parent, err);
    while (walk.depth > 0)
        (void)closedir(walk.levels[--walk.depth]);
    return ok || pin_wrap(err, "remove the tree '%s'", name);
}
