#include "runtime/changes/changes.h"

#include <dirent.h>
#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/random.h>
#include <sys/sendfile.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/io.h"
#include "base/text.h"
#include "runtime/changes/walk.h"
#include "runtime/state/tree.h"

struct merge {
    const struct pin_changes_owner *owner;
    size_t *skipped;
};

static bool fail_at(struct pin_error *err, const char *name) {
    int cause = errno;
    char escaped[128];
    (void)pin_escape(escaped, sizeof(escaped), name, strlen(name));
    errno = cause;
    return pin_fail_errno(err, "merge '%s'", escaped);
}

static bool give(const struct merge *merge, int fd) {
    return !merge->owner->set || fchown(fd, merge->owner->uid, merge->owner->gid) == 0;
}

static bool copy_range(int from, int to, off_t at, off_t end) {
    if (lseek(to, at, SEEK_SET) != at)
        return false;
    while (at < end) {
        ssize_t moved = sendfile(to, from, &at, (size_t)(end - at));
        if (moved < 0 && errno == EINTR)
            continue;
        if (moved < 0)
            return false;
        if (moved == 0)
            break;
    }
    return true;
}

/* Holes stay holes: a file of no size inside may claim to be larger than the host's disk. */
static bool copy_bytes(int from, int to, off_t size) {
    for (off_t at = 0; at < size;) {
        off_t data = lseek(from, at, SEEK_DATA);
        if (data < 0 && errno == ENXIO)
            break;
        off_t end = data < 0 ? -1 : lseek(from, data, SEEK_HOLE);
        if (end < 0 || !copy_range(from, to, data, end))
            return false;
        at = end;
    }
    return ftruncate(to, size) == 0;
}

/* A name that nobody else uses, so that the rename replaces the old file in one step. */
static void temporary_name(char name[32]) {
    uint64_t random = 0; /* what could be foreseen, the changes could have in the way */
    ssize_t drawn = getrandom(&random, sizeof(random), 0);
    (void)snprintf(name, 32, ".pinfold-%016llx",
                   (unsigned long long)(drawn > 0 ? random : (uint64_t)getpid()));
}

/* Renames over what is there; a folder in the way is removed first. */
static bool put_in_place(int target, const char *temporary, const char *name, struct pin_error *err) {
    struct stat st;
    if (fstatat(target, name, &st, AT_SYMLINK_NOFOLLOW) == 0 && S_ISDIR(st.st_mode) &&
        !pin_tree_remove(target, name, err))
        return false;
    if (renameat(target, temporary, target, name) == 0)
        return true;
    (void)fail_at(err, name);
    (void)unlinkat(target, temporary, 0);
    return false;
}

static bool merge_file(const struct merge *merge, int upper, int target, const char *name,
                       const struct stat *st, struct pin_error *err) {
    char temporary[32];
    temporary_name(temporary);
    PIN_CLOSE int from = pin_open_changed(upper, name, st->st_mode);
    PIN_CLOSE int to =
        from < 0 ? -1 : openat(target, temporary, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (to < 0)
        return fail_at(err, name);
    if (!copy_bytes(from, to, st->st_size) || !give(merge, to) ||
        fchmod(to, st->st_mode & PIN_PERMISSIONS) != 0) {
        (void)fail_at(err, name);
        (void)unlinkat(target, temporary, 0);
        return false;
    }
    return put_in_place(target, temporary, name, err);
}

/* The workspace's owner may rename there, too: a file of root's in the link's place must not be given away.
 */
static bool give_link(const struct merge *merge, int target, const char *name) {
    struct stat st;
    if (!merge->owner->set)
        return true;
    PIN_CLOSE int link = openat(target, name, O_PATH | O_NOFOLLOW | O_CLOEXEC);
    if (link < 0 || fstat(link, &st) != 0)
        return false;
    errno = ESTALE;
    return S_ISLNK(st.st_mode) &&
           fchownat(link, "", merge->owner->uid, merge->owner->gid, AT_EMPTY_PATH) == 0;
}

static bool merge_link(const struct merge *merge, int upper, int target, const char *name,
                       struct pin_error *err) {
    char points_to[PATH_MAX], temporary[32];
    temporary_name(temporary);
    ssize_t length = readlinkat(upper, name, points_to, sizeof(points_to) - 1);
    if (length < 0)
        return fail_at(err, name);
    points_to[length] = '\0';
    if (symlinkat(points_to, target, temporary) != 0)
        return fail_at(err, name);
    if (!give_link(merge, target, temporary)) {
        (void)fail_at(err, name);
        (void)unlinkat(target, temporary, 0);
        return false;
    }
    return put_in_place(target, temporary, name, err);
}

static bool merge_folder(const struct merge *merge, int upper, int target, struct pin_error *err);

static bool is_empty(int folder) {
    int copy = fcntl(folder, F_DUPFD_CLOEXEC, 3);
    DIR *stream = copy >= 0 ? fdopendir(copy) : NULL;
    const struct dirent *entry;
    if (stream == NULL)
        return false;
    do
        entry = readdir(stream);
    while (entry != NULL && pin_is_dots(entry->d_name));
    (void)closedir(stream);
    return entry == NULL;
}

/* The folder that was looked at, or the one that was made: not one of root's that its owner has put there. */
static bool is_expected(int folder, const struct stat *before, bool exists) {
    struct stat st;
    if (!exists)
        return is_empty(folder);
    return fstat(folder, &st) == 0 && st.st_dev == before->st_dev && st.st_ino == before->st_ino;
}

static bool merge_subfolder(const struct merge *merge, int upper, int target, const char *name,
                            const struct stat *st, struct pin_error *err) {
    struct stat before;
    PIN_CLOSE int from = pin_open_changed(upper, name, st->st_mode);
    if (from < 0)
        return fail_at(err, name);
    bool exists = fstatat(target, name, &before, AT_SYMLINK_NOFOLLOW) == 0;
    if (exists && (!S_ISDIR(before.st_mode) || pin_is_opaque(from))) {
        if (!pin_tree_remove(target, name, err))
            return false;
        exists = false;
    }
    if (!exists && mkdirat(target, name, 0700) != 0)
        return fail_at(err, name);
    PIN_CLOSE int to = pin_open_folder(target, name);
    if (to >= 0 && !is_expected(to, &before, exists)) {
        errno = ESTALE;
        return fail_at(err, name);
    }
    if (to < 0 || (!exists && !give(merge, to)))
        return fail_at(err, name);
    if (!merge_folder(merge, from, to, err))
        return false;
    mode_t kept = exists ? before.st_mode & 07000 : 0; /* the owner's own: set-group-id, sticky */
    if (exists && ((before.st_mode ^ st->st_mode) & PIN_PERMISSIONS) == 0)
        return true;
    /* last: a folder without write permission could not have been filled */
    return fchmod(to, kept | (st->st_mode & PIN_PERMISSIONS)) == 0 || fail_at(err, name);
}

static bool merge_entry(const struct merge *merge, int upper, int target, const char *name,
                        struct pin_error *err) {
    struct stat st;
    if (fstatat(upper, name, &st, AT_SYMLINK_NOFOLLOW) != 0)
        return fail_at(err, name);
    if (pin_is_whiteout(&st))
        return pin_tree_remove(target, name, err);
    if (S_ISDIR(st.st_mode))
        return merge_subfolder(merge, upper, target, name, &st, err);
    if (S_ISREG(st.st_mode))
        return merge_file(merge, upper, target, name, &st, err);
    if (S_ISLNK(st.st_mode))
        return merge_link(merge, upper, target, name, err);
    (*merge->skipped)++;
    return true;
}

static bool merge_folder(const struct merge *merge, int upper, int target, struct pin_error *err) {
    int copy = fcntl(upper, F_DUPFD_CLOEXEC, 3);
    DIR *stream = copy >= 0 ? fdopendir(copy) : NULL;
    if (stream == NULL)
        return pin_fail_errno(err, "read a changed directory");
    rewinddir(stream);
    bool ok = true;
    const struct dirent *entry;
    while (ok && (entry = pin_next_entry(stream, err)) != NULL)
        ok = merge_entry(merge, upper, target, entry->d_name, err);
    (void)closedir(stream);
    return ok && !pin_is_set(err);
}

bool pin_changes_merge(int upper, int target, const struct pin_changes_owner *owner, size_t *skipped,
                       struct pin_error *err) {
    size_t passed_over = 0;
    struct merge merge = {owner, &passed_over};
    if (!merge_folder(&merge, upper, target, err))
        return pin_wrap(err, "make the changes of the workspace");
    *skipped = passed_over;
    return true;
}
