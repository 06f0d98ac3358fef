/* What the image has below a tmpfs with "tmpcopyup" is copied into it. Its content is the image's, so it is
 * walked by descriptors, and nothing is followed. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/io.h"
#include "runtime/build/engine.h"

enum { DEPTH_MOST = 64 };

static bool copy_level(int from, int to, int depth, struct pin_error *err);

static bool copy_file(int from, int to, const char *name, const struct stat *st, struct pin_error *err) {
    PIN_CLOSE int in = openat(from, name, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
    PIN_CLOSE int out = openat(to, name, O_CREAT | O_EXCL | O_WRONLY | O_NOFOLLOW | O_CLOEXEC, 0600);
    ssize_t sent = 1;
    while (in >= 0 && out >= 0 && sent > 0)
        sent = sendfile(out, in, NULL, 1 << 20);
    if (in < 0 || out < 0 || sent < 0 || fchown(out, st->st_uid, st->st_gid) != 0 ||
        fchmod(out, st->st_mode & 07777) != 0)
        return pin_fail_errno(err, "copy '%s'", name);
    return true;
}

static bool copy_link(int from, int to, const char *name, struct pin_error *err) {
    char target[PATH_MAX];
    ssize_t size = readlinkat(from, name, target, sizeof(target) - 1);
    if (size < 0)
        return pin_fail_errno(err, "read the link '%s'", name);
    target[size] = '\0';
    return symlinkat(target, to, name) == 0 || pin_fail_errno(err, "copy the link '%s'", name);
}

static bool copy_folder(int from, int to, const char *name, const struct stat *st, int depth,
                        struct pin_error *err) {
    if (mkdirat(to, name, 0700) != 0)
        return pin_fail_errno(err, "make '%s'", name);
    PIN_CLOSE int in = openat(from, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    PIN_CLOSE int out = openat(to, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (in < 0 || out < 0)
        return pin_fail_errno(err, "open '%s'", name);
    if (!copy_level(in, out, depth + 1, err))
        return false;
    if (fchown(out, st->st_uid, st->st_gid) != 0 || fchmod(out, st->st_mode & 07777) != 0)
        return pin_fail_errno(err, "copy '%s'", name);
    return true;
}

static bool copy_entry(int from, int to, const char *name, int depth, struct pin_error *err) {
    struct stat st;
    if (fstatat(from, name, &st, AT_SYMLINK_NOFOLLOW) != 0)
        return pin_fail_errno(err, "look at '%s'", name);
    if (S_ISREG(st.st_mode))
        return copy_file(from, to, name, &st, err);
    if (S_ISLNK(st.st_mode))
        return copy_link(from, to, name, err);
    return !S_ISDIR(st.st_mode) || copy_folder(from, to, name, &st, depth, err);
}

static void close_listing(DIR **listing) {
    if (*listing != NULL)
        (void)closedir(*listing);
}

static bool copy_level(int from, int to, int depth, struct pin_error *err) {
    PIN_CLOSE int again = openat(from, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    __attribute__((cleanup(close_listing))) DIR *listing = again < 0 ? NULL : fdopendir(again);
    if (listing == NULL)
        return pin_fail_errno(err, "list a directory of the image");
    (void)pin_steal_fd(&again);
    if (depth > DEPTH_MOST)
        return pin_fail(err, PIN_ERROR_INVALID, "the directories to copy up are nested too deeply");
    const struct dirent *entry;
    while ((entry = pin_next_entry(listing, err)) != NULL)
        if (!copy_entry(from, to, entry->d_name, depth, err))
            return false;
    return !pin_is_set(err);
}

bool pin_engine_copy_up(int from, int to, struct pin_error *err) {
    struct stat st;
    if (fstat(from, &st) != 0)
        return pin_fail_errno(err, "look at the directory of the image");
    if (!copy_level(from, to, 0, err))
        return pin_wrap(err, "tmpcopyup");
    pin_ignore(fchown(to, st.st_uid, st.st_gid)); /* an unmapped owner stays root */
    (void)fchmod(to, st.st_mode & 07777);
    return true;
}
