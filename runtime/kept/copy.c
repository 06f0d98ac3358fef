#include "runtime/kept/copy.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/fsuid.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/io.h"
#include "base/text.h"

#define PIECE ((size_t)64 * 1024)

struct walk {
    struct pin_copy *copy;
    int depth;
    struct pin_error *err;
};

static bool copy_entry(struct walk *walk, int from, const char *from_name, int to, const char *to_name);

static bool fail(struct walk *walk, const char *what, const char *name) {
    char text[300];
    (void)pin_escape(text, sizeof(text), name, strlen(name));
    return pin_fail_errno(walk->err, "%s '%s'", what, text);
}

static bool wrap(struct walk *walk, const char *name) {
    char text[300];
    (void)pin_escape(text, sizeof(text), name, strlen(name));
    return pin_wrap(walk->err, "copy '%s'", text);
}

static bool too_much(struct walk *walk, const char *what) {
    (void)pin_fail(walk->err, PIN_ERROR_EXHAUSTED, "%s", what);
    return pin_hint(walk->err, "copy less at once, or give --limit");
}

static bool count(struct walk *walk, uint64_t bytes) {
    if (bytes > walk->copy->limit_bytes - walk->copy->bytes)
        return too_much(walk, "there are more bytes than may be copied");
    walk->copy->bytes += bytes;
    return true;
}

/* Where the next bytes are: a hole counts like bytes, but isn't read, and is a hole of the copy too. */
static off_t past_hole(int in, off_t at) {
    off_t data = lseek(in, at, SEEK_DATA);
    if (data < 0 && errno == ENXIO)
        data = lseek(in, 0, SEEK_END); /* nothing but a hole is left */
    return data > at ? data : at;      /* also where a file system knows nothing of holes */
}

static bool move_bytes(struct walk *walk, int in, int out, const char *name) {
    char piece[PIECE];
    off_t at = 0;
    for (;;) {
        off_t data = past_hole(in, at);
        if (!count(walk, (uint64_t)(data - at)))
            return false;
        at = data;
        ssize_t got = pread(in, piece, sizeof(piece), at);
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0)
            return fail(walk, "read", name);
        if (got == 0)
            return ftruncate(out, at) == 0 || fail(walk, "write", name);
        if (!count(walk, (uint64_t)got))
            return false;
        if (lseek(out, at, SEEK_SET) < 0)
            return fail(walk, "write", name);
        if (!pin_write_all(out, piece, (size_t)got, walk->err))
            return wrap(walk, name);
        at += got;
    }
}

static int make_directory(int folder, const char *name) {
    if (mkdirat(folder, name, 0700) != 0 && errno != EEXIST)
        return -1;
    return openat(folder, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
}

static int make_file(int folder, const char *name) {
    return openat(folder, name, O_WRONLY | O_CREAT | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC, 0600);
}

/* What is made belongs to its owner, and may be made where that user may: as on any other host. What is
 * copied is the caller's to read. */
static int make(const struct pin_copy *copy, int (*maker)(int folder, const char *name), int folder,
                const char *name) {
    if (!copy->has_owner)
        return maker(folder, name);
    int group = setfsgid(copy->gid), user = setfsuid(copy->uid);
    int fd = maker(folder, name), cause = errno;
    (void)setfsuid((uid_t)user);
    (void)setfsgid((gid_t)group);
    errno = cause;
    return fd;
}

/* O_NONBLOCK: a pipe in the place of a file must not make us wait. */
static bool copy_file(struct walk *walk, int from, const char *from_name, int to, const char *to_name) {
    struct stat info;
    PIN_CLOSE int in = openat(from, from_name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
    if (in < 0 || fstat(in, &info) != 0)
        return fail(walk, "open", from_name);
    if (!S_ISREG(info.st_mode)) {
        walk->copy->left_out++;
        return true;
    }
    PIN_CLOSE int out = make(walk->copy, make_file, to, to_name);
    struct stat target;
    if (out < 0 || fstat(out, &target) != 0)
        return fail(walk, "make", to_name);
    if (!S_ISREG(target.st_mode))
        return pin_fail(walk->err, PIN_ERROR_EXISTS, "what is in the place of the copy is no file");
    if (target.st_dev == info.st_dev && target.st_ino == info.st_ino)
        return pin_fail(walk->err, PIN_ERROR_INVALID, "a file can't be copied onto itself");
    if (ftruncate(out, 0) != 0 || !move_bytes(walk, in, out, from_name))
        return pin_is_set(walk->err) ? false : fail(walk, "empty", to_name);
    return fchmod(out, info.st_mode & 0777) == 0 || fail(walk, "set the mode of", to_name);
}

static bool copy_entries(struct walk *walk, DIR *list, int to) {
    const struct dirent *entry;
    while ((entry = pin_next_entry(list, walk->err)) != NULL)
        if (!copy_entry(walk, dirfd(list), entry->d_name, to, entry->d_name))
            return false;
    return !pin_is_set(walk->err);
}

static bool copy_folder(struct walk *walk, int from, const char *from_name, int to, const char *to_name,
                        mode_t mode) {
    PIN_CLOSE int in = openat(from, from_name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (in < 0)
        return fail(walk, "open", from_name);
    PIN_CLOSE int out = make(walk->copy, make_directory, to, to_name);
    if (out < 0)
        return fail(walk, "make", to_name);
    DIR *list = fdopendir(in);
    if (list == NULL)
        return fail(walk, "list", from_name);
    (void)pin_steal_fd(&in);
    bool ok = copy_entries(walk, list, out);
    (void)closedir(list);
    return ok && (fchmod(out, (mode & 0777) | 0700) == 0 || fail(walk, "set the mode of", to_name));
}

static bool copy_entry(struct walk *walk, int from, const char *from_name, int to, const char *to_name) {
    struct stat info;
    if (++walk->copy->entries > PIN_COPY_ENTRIES_MAX)
        return too_much(walk, "there are more files than may be copied");
    if (walk->depth >= PIN_COPY_DEPTH_MAX)
        return too_much(walk, "the directories are nested too deeply");
    if (fstatat(from, from_name, &info, AT_SYMLINK_NOFOLLOW) != 0)
        return fail(walk, "look at", from_name);
    if (S_ISREG(info.st_mode))
        return copy_file(walk, from, from_name, to, to_name);
    if (!S_ISDIR(info.st_mode)) {
        walk->copy->left_out++;
        return true;
    }
    walk->depth++;
    bool ok = copy_folder(walk, from, from_name, to, to_name, info.st_mode);
    walk->depth--;
    return ok;
}

bool pin_copy_entry(struct pin_copy *copy, int from, const char *from_name, int to, const char *to_name,
                    struct pin_error *err) {
    struct walk walk = {.copy = copy, .err = err};
    return copy_entry(&walk, from, from_name, to, to_name);
}
