#include "images/layer_merge.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "base/arena.h"
#include "base/cleanup.h"
#include "images/remove.h"

#define DEPTH_MAX 256 /* as the unpacker has it */
#define ATTRIBUTES_MAX 4096
#define VALUE_MAX ((size_t)64 * 1024)

struct linked { /* a file with several names, by its first one */
    ino_t inode;
    const char *path;
};

struct merge {
    int target; /* the whole tree's root */
    struct pin_arena arena;
    struct linked *links; /* of this layer */
    size_t link_count;
    unsigned depth;
    char path[PATH_MAX]; /* of what is at work, below the root */
};

static bool failed(const struct merge *merge, const char *what, struct pin_error *err) {
    return pin_fail_errno(err, "%s '%.200s'", what, merge->path);
}

static bool copy_attributes(const struct merge *merge, int from, int to, struct pin_error *err) {
    char names[ATTRIBUTES_MAX], value[VALUE_MAX];
    ssize_t size = flistxattr(from, names, sizeof(names));
    if (size < 0)
        return errno == ENOTSUP || failed(merge, "list the attributes of", err);
    for (const char *name = names; name < names + size; name += strlen(name) + 1) {
        if (strncmp(name, "user.", 5) != 0 || strncmp(name, "user.overlay.", 13) == 0)
            continue;
        ssize_t got = fgetxattr(from, name, value, sizeof(value));
        if (got < 0 || fsetxattr(to, name, value, (size_t)got, 0) < 0)
            return failed(merge, "copy an attribute of", err);
    }
    return true;
}

static bool finish(const struct merge *merge, int to, const struct stat *st, struct pin_error *err) {
    const struct timespec times[2] = {st->st_mtim, st->st_mtim};
    if (geteuid() == 0 && fchown(to, st->st_uid, st->st_gid) < 0)
        return failed(merge, "set the owner of", err);
    return (fchmod(to, st->st_mode & 07777) == 0 && futimens(to, times) == 0) ||
           failed(merge, "set the mode and time of", err);
}

/* Holes stay holes, where the file system tells them. */
static bool copy_data(const struct merge *merge, int from, int to, off_t size, struct pin_error *err) {
    for (off_t at = 0; at < size;) {
        off_t start = lseek(from, at, SEEK_DATA);
        if (start < 0 && errno == ENXIO) /* nothing but a hole is left */
            break;
        off_t end = start < 0 ? size : lseek(from, start, SEEK_HOLE);
        off_t in = start < 0 ? at : start, out = in;
        if (end < 0)
            return failed(merge, "read", err);
        while (in < end) {
            ssize_t got = copy_file_range(from, &in, to, &out, (size_t)(end - in), 0);
            if (got <= 0)
                return got == 0
                           ? pin_fail(err, PIN_ERROR_BUSY, "'%.200s' changes while it is read", merge->path)
                           : failed(merge, "copy", err);
        }
        at = end;
    }
    return ftruncate(to, size) == 0 || failed(merge, "set the size of", err);
}

static const char *first_name(struct merge *merge, const struct stat *st) {
    for (size_t i = 0; i < merge->link_count; i++)
        if (merge->links[i].inode == st->st_ino)
            return merge->links[i].path;
    struct linked *linked =
        pin_arena_grow(&merge->arena, &merge->links, &merge->link_count, sizeof(*merge->links));
    *linked = (struct linked){st->st_ino, pin_arena_strdup(&merge->arena, merge->path)};
    return NULL;
}

static bool merge_file(struct merge *merge, int from, int to, const char *name, const struct stat *st,
                       struct pin_error *err) {
    const char *first = st->st_nlink > 1 ? first_name(merge, st) : NULL;
    if (first != NULL)
        return linkat(merge->target, first, to, name, 0) == 0 || failed(merge, "link", err);
    PIN_CLOSE int source = openat(from, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    PIN_CLOSE int copy = openat(to, name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (source < 0 || copy < 0)
        return failed(merge, "open", err);
    return copy_data(merge, source, copy, st->st_size, err) && copy_attributes(merge, source, copy, err) &&
           finish(merge, copy, st, err);
}

static bool merge_other(const struct merge *merge, int from, int to, const char *name, const struct stat *st,
                        struct pin_error *err) {
    const struct timespec times[2] = {st->st_mtim, st->st_mtim};
    char target[PATH_MAX] = "";
    if (S_ISLNK(st->st_mode) && readlinkat(from, name, target, sizeof(target) - 1) < 0)
        return failed(merge, "read the link", err);
    int made = S_ISLNK(st->st_mode) ? symlinkat(target, to, name) : mkfifoat(to, name, st->st_mode & 0777);
    /* the caller's umask has had its say about a pipe; its name was made just now, and is no link */
    if (made == 0 && S_ISFIFO(st->st_mode))
        made = fchmodat(to, name, st->st_mode & 0777, 0);
    if (made < 0 || (geteuid() == 0 && fchownat(to, name, st->st_uid, st->st_gid, AT_SYMLINK_NOFOLLOW) < 0) ||
        utimensat(to, name, times, AT_SYMLINK_NOFOLLOW) < 0)
        return failed(merge, "make", err);
    return true;
}

static bool merge_inside(struct merge *merge, int from, int to, struct pin_error *err);

/* A directory over a directory adds to it; over anything else it takes its place. */
static bool merge_directory(struct merge *merge, int from, int to, const char *name, const struct stat *st,
                            struct pin_error *err) {
    PIN_CLOSE int source = openat(from, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (source < 0)
        return failed(merge, "open", err);
    struct stat old;
    bool there = fstatat(to, name, &old, AT_SYMLINK_NOFOLLOW) == 0;
    if (there && !S_ISDIR(old.st_mode) && !pin_remove_tree(to, name, err))
        return false;
    if ((!there || !S_ISDIR(old.st_mode)) && mkdirat(to, name, 0700) < 0)
        return failed(merge, "make the directory", err);
    PIN_CLOSE int made = openat(to, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (made < 0)
        return failed(merge, "open", err);
    return fchmod(made, 0700) == 0 && merge_inside(merge, source, made, err) &&
           copy_attributes(merge, source, made, err) && finish(merge, made, st, err);
}

static bool merge_entry(struct merge *merge, int from, int to, const char *name, struct pin_error *err) {
    struct stat st;
    if (fstatat(from, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
        return failed(merge, "look at", err);
    if (S_ISDIR(st.st_mode))
        return merge_directory(merge, from, to, name, &st, err);
    if (!pin_remove_tree(to, name, err))
        return false;
    if (S_ISCHR(st.st_mode)) /* a whiteout: the store has no other */
        return true;
    return S_ISREG(st.st_mode) ? merge_file(merge, from, to, name, &st, err)
                               : merge_other(merge, from, to, name, &st, err);
}

typedef bool visit_entry(struct merge *merge, int from, int to, const char *name, struct pin_error *err);

static bool visit_named(struct merge *merge, int from, int to, const char *name, visit_entry *visit,
                        struct pin_error *err) {
    size_t size = strlen(merge->path), length = strlen(name);
    if (size + length + 2 > sizeof(merge->path))
        return pin_fail(err, PIN_ERROR_INVALID, "the path of '%.100s' is too long", name);
    if (size > 0)
        merge->path[size] = '/';
    memcpy(merge->path + size + (size > 0), name, length + 1);
    bool done = visit(merge, from, to, name, err);
    merge->path[size] = '\0';
    return done;
}

static bool for_each(struct merge *merge, int listed, int from, int to, visit_entry *visit,
                     struct pin_error *err) {
    int fd = openat(listed, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *list = fd < 0 ? NULL : fdopendir(fd);
    if (list == NULL) {
        (void)failed(merge, "list", err);
        pin_close_slot(&fd);
        return false;
    }
    const struct dirent *entry;
    bool done = true;
    while (done && (errno = 0, entry = readdir(list)) != NULL)
        if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0)
            done = visit_named(merge, from, to, entry->d_name, visit, err);
    done = done && (errno == 0 || failed(merge, "list", err));
    (void)closedir(list);
    return done;
}

static bool clear_entry(struct merge *merge, int from, int to, const char *name, struct pin_error *err) {
    (void)merge;
    (void)from;
    return pin_remove_tree(to, name, err);
}

static bool merge_inside(struct merge *merge, int from, int to, struct pin_error *err) {
    char value = 0;
    if (merge->depth >= DEPTH_MAX)
        return pin_fail(err, PIN_ERROR_INVALID, "'%.200s' is nested too deep", merge->path);
    bool opaque = fgetxattr(from, "user.overlay.opaque", &value, 1) == 1 && value == 'y';
    if (opaque && !for_each(merge, to, from, to, clear_entry, err))
        return false;
    merge->depth++;
    bool done = for_each(merge, from, from, to, merge_entry, err);
    merge->depth--;
    return done;
}

bool pin_layers_merge(const char *const *layers, size_t count, int target, struct pin_error *err) {
    for (size_t i = 0; i < count; i++) {
        struct merge merge = {.target = target};
        PIN_CLOSE int layer = open(layers[i], O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        bool done = layer >= 0 ? merge_inside(&merge, layer, target, err)
                               : pin_fail_errno(err, "open the layer '%s'", layers[i]);
        pin_arena_free(&merge.arena);
        if (!done)
            return pin_wrap(err, "layer %zu of the image", i + 1);
    }
    return true;
}
