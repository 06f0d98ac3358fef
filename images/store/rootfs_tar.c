#include "images/store/rootfs_tar.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#include <archive.h>
#include <archive_entry.h>

#include "base/cleanup.h"

#define CHUNK ((size_t)128 * 1024)
#define DEPTH_MAX 256

struct writing {
    struct archive *tar;
    struct archive_entry_linkresolver *links;
    const struct pin_rootfs_tar_options *options;
    unsigned depth;
    dev_t device;
    char path[PATH_MAX];
    char buffer[CHUNK];
};

static bool failed(struct writing *writing, const char *what, struct pin_error *err) {
    return pin_fail_errno(err, "%s '%.200s'", what, writing->path);
}

static bool tar_failed(struct writing *writing, struct pin_error *err) {
    errno = archive_errno(writing->tar);
    return pin_fail_errno(err, "write '%.100s' to the layer: %.100s", writing->path,
                          archive_error_string(writing->tar));
}

static int64_t id_in_layer(const struct writing *writing, uint32_t id, uint32_t own) {
    if (writing->options->own_is_root && id == own)
        return 0;
    return id >= writing->options->first_id ? id - writing->options->first_id : id;
}

/* Of a file: what came out of a sandbox must not make somebody else of who runs it elsewhere. */
static mode_t drop_set_ids(const struct writing *writing, mode_t mode) {
    if (writing->options->set_ids == NULL || !S_ISREG(mode) || (mode & (S_ISUID | S_ISGID)) == 0)
        return mode & 07777;
    (*writing->options->set_ids)++;
    return mode & 01777;
}

static struct archive_entry *describe(const struct writing *writing, const char *path,
                                      const struct stat *st) {
    struct archive_entry *entry = archive_entry_new();
    int64_t time = st->st_mtim.tv_sec;
    bool late = writing->options->clamp_times && time > writing->options->latest_s;
    archive_entry_copy_pathname(entry, path);
    archive_entry_set_filetype(entry, st->st_mode & S_IFMT);
    archive_entry_set_perm(entry, drop_set_ids(writing, st->st_mode));
    archive_entry_set_uid(entry, id_in_layer(writing, st->st_uid, geteuid()));
    archive_entry_set_gid(entry, id_in_layer(writing, st->st_gid, getegid()));
    archive_entry_set_size(entry, S_ISREG(st->st_mode) ? st->st_size : 0);
    archive_entry_set_mtime(entry, late ? writing->options->latest_s : time, late ? 0 : st->st_mtim.tv_nsec);
    archive_entry_set_dev(entry, st->st_dev);
    archive_entry_set_ino64(entry, (int64_t)st->st_ino);
    archive_entry_set_nlink(entry, (unsigned)st->st_nlink);
    return entry;
}

static bool put_header(struct writing *writing, struct archive_entry *entry, struct pin_error *err) {
    int code = archive_write_header(writing->tar, entry);
    return code == ARCHIVE_OK || tar_failed(writing, err);
}

static bool put_empty(struct writing *writing, const char *path, struct pin_error *err) {
    static const struct stat empty = {.st_mode = S_IFREG | 0600, .st_nlink = 1};
    struct archive_entry *entry = describe(writing, path, &empty);
    archive_entry_set_uid(entry, 0);
    archive_entry_set_gid(entry, 0);
    bool done = put_header(writing, entry, err);
    archive_entry_free(entry);
    return done;
}

static bool put_whiteout(struct writing *writing, const char *name, struct pin_error *err) {
    char path[PATH_MAX + 8];
    size_t above = strlen(writing->path) - strlen(name);
    (void)snprintf(path, sizeof(path), "%.*s.wh.%s", (int)above, writing->path, name);
    return put_empty(writing, path, err);
}

static bool is_opaque(int fd) {
    static const char *const names[] = {"user.overlay.opaque", "trusted.overlay.opaque"};
    char value;
    for (int i = 0; i < 2; i++)
        if (fgetxattr(fd, names[i], &value, 1) == 1 && value == 'y')
            return true;
    return false;
}

static bool add_attributes(struct writing *writing, int fd, struct archive_entry *entry,
                           struct pin_error *err) {
    char names[4096];
    ssize_t size = flistxattr(fd, names, sizeof(names));
    if (size < 0)
        return errno == ENOTSUP || failed(writing, "list the attributes of", err);
    for (const char *name = names; name < names + size; name += strlen(name) + 1) {
        if (strncmp(name, "user.", 5) != 0 || strncmp(name, "user.overlay.", 13) == 0)
            continue;
        ssize_t got = fgetxattr(fd, name, writing->buffer, CHUNK);
        if (got < 0)
            return failed(writing, "read an attribute of", err);
        archive_entry_xattr_add_entry(entry, name, writing->buffer, (size_t)got);
    }
    return true;
}

static bool put_content(struct writing *writing, int fd, int64_t size, struct pin_error *err) {
    while (size > 0) {
        ssize_t got = read(fd, writing->buffer, CHUNK);
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0)
            return failed(writing, "read", err);
        if (got == 0 || got > size)
            return pin_fail(err, PIN_ERROR_BUSY, "'%.200s' changes while it is read", writing->path);
        if (archive_write_data(writing->tar, writing->buffer, (size_t)got) != got)
            return tar_failed(writing, err);
        size -= got;
    }
    return true;
}

static bool put_opened(struct writing *writing, int fd, struct archive_entry *entry, struct pin_error *err) {
    if (!add_attributes(writing, fd, entry, err))
        return false;
    struct archive_entry *spare = NULL;
    archive_entry_linkify(writing->links, &entry, &spare); /* the second name of a file becomes a link */
    if (!put_header(writing, entry, err))
        return false;
    return archive_entry_hardlink(entry) != NULL || put_content(writing, fd, archive_entry_size(entry), err);
}

static bool put_file(struct writing *writing, int dir, const char *name, struct pin_error *err) {
    PIN_CLOSE int fd = openat(dir, name, O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    struct stat st;
    if (fd < 0 || fstat(fd, &st) < 0)
        return failed(writing, "open", err);
    if (!S_ISREG(st.st_mode))
        return pin_fail(err, PIN_ERROR_BUSY, "'%.200s' changes while it is read", writing->path);
    struct archive_entry *entry = describe(writing, writing->path, &st);
    bool done = put_opened(writing, fd, entry, err);
    archive_entry_free(entry);
    return done;
}

static bool put_plain(struct writing *writing, int dir, const char *name, const struct stat *st,
                      struct pin_error *err) {
    char target[PATH_MAX];
    struct archive_entry *entry = describe(writing, writing->path, st);
    bool done = true;
    if (S_ISLNK(st->st_mode)) {
        ssize_t got = readlinkat(dir, name, target, sizeof(target) - 1);
        done = got >= 0 || failed(writing, "read the link", err);
        target[got < 0 ? 0 : got] = '\0';
        archive_entry_copy_symlink(entry, target);
    }
    archive_entry_set_nlink(entry, 1);
    done = done && put_header(writing, entry, err);
    archive_entry_free(entry);
    return done;
}

static bool put_directory(struct writing *writing, int dir, const char *name, struct pin_error *err);

static bool is_left_out(const struct writing *writing) {
    for (const char *const *path = writing->options->leave_out; path != NULL && *path != NULL; path++)
        if (strcmp(*path, writing->path) == 0)
            return true;
    return false;
}

static bool put_entry(struct writing *writing, int dir, const char *name, struct pin_error *err) {
    struct stat st;
    if (is_left_out(writing))
        return true;
    if (fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
        return failed(writing, "look at", err);
    if (strncmp(name, ".wh.", 4) == 0)
        return pin_fail(err, PIN_ERROR_INVALID, "'%.200s' would be taken for a whiteout", writing->path);
    switch (st.st_mode & S_IFMT) {
    case S_IFDIR: return put_directory(writing, dir, name, err);
    case S_IFREG: return put_file(writing, dir, name, err);
    case S_IFLNK:
    case S_IFIFO: return put_plain(writing, dir, name, &st, err);
    case S_IFCHR: return !writing->options->changes || st.st_rdev != 0 || put_whiteout(writing, name, err);
    default: return true; /* devices and sockets have no place in an image */
    }
}

static int no_dots(const struct dirent *entry) {
    return strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0;
}

static int by_bytes(const struct dirent **a, const struct dirent **b) {
    return strcmp((*a)->d_name, (*b)->d_name);
}

static bool put_names(struct writing *writing, int dir, struct dirent **list, int count,
                      struct pin_error *err) {
    size_t size = strlen(writing->path);
    for (int i = 0; i < count; i++) {
        size_t name = strlen(list[i]->d_name);
        if (size + name + 8 > sizeof(writing->path))
            return pin_fail(err, PIN_ERROR_INVALID, "the path of '%.100s' is too long", list[i]->d_name);
        if (size > 0)
            writing->path[size] = '/';
        memcpy(writing->path + size + (size > 0), list[i]->d_name, name + 1);
        bool done = put_entry(writing, dir, list[i]->d_name, err);
        writing->path[size] = '\0';
        if (!done)
            return false;
    }
    return true;
}

static bool put_directory_header(struct writing *writing, int fd, struct pin_error *err) {
    struct stat st;
    if (fstat(fd, &st) < 0)
        return failed(writing, "look at", err);
    if (writing->depth > DEPTH_MAX || (writing->device != 0 && writing->device != st.st_dev))
        return pin_fail(err, PIN_ERROR_INVALID, "'%.200s' is a mount point, or nested too deep",
                        writing->path);
    if (writing->options->never_inode == st.st_ino && writing->options->never_device == st.st_dev) {
        (void)pin_fail(err, PIN_ERROR_INVALID, "the store of the images is in it, as '%.200s'",
                       writing->path);
        return pin_hint(err, "import a directory without it, or have the store elsewhere (PINFOLD_IMAGES)");
    }
    writing->device = st.st_dev;
    char path[PATH_MAX + 2], opaque[PATH_MAX + 16];
    const char *here = writing->path[0] != '\0' ? writing->path : ".";
    (void)snprintf(path, sizeof(path), "%s/", here);
    struct archive_entry *entry = describe(writing, path, &st);
    bool done = add_attributes(writing, fd, entry, err) && put_header(writing, entry, err);
    archive_entry_free(entry);
    if (!done || !writing->options->changes || !is_opaque(fd))
        return done;
    (void)snprintf(opaque, sizeof(opaque), "%s/.wh..wh..opq", here);
    return put_empty(writing, opaque, err);
}

static bool put_directory(struct writing *writing, int dir, const char *name, struct pin_error *err) {
    PIN_CLOSE int fd = openat(dir, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    struct dirent **list = NULL;
    if (fd < 0)
        return failed(writing, "open", err);
    if (!put_directory_header(writing, fd, err))
        return false;
    int count = scandirat(fd, ".", &list, no_dots, by_bytes);
    if (count < 0)
        return failed(writing, "list", err);
    writing->depth++;
    bool done = put_names(writing, fd, list, count, err);
    writing->depth--;
    for (int i = 0; i < count; i++)
        free(list[i]);
    free(list);
    return done;
}

bool pin_rootfs_tar_write(int root, int to, const struct pin_rootfs_tar_options *options,
                          struct pin_error *err) {
    struct writing whole = {.options = options}, *writing = &whole;
    writing->tar = archive_write_new();
    writing->links = archive_entry_linkresolver_new();
    bool done = true;
    if (archive_write_set_format_pax_restricted(writing->tar) != ARCHIVE_OK ||
        archive_write_set_options(writing->tar, "pax:hdrcharset=BINARY") < ARCHIVE_WARN ||
        archive_write_open_fd(writing->tar, to) != ARCHIVE_OK)
        done = tar_failed(writing, err);
    if (done)
        archive_entry_linkresolver_set_strategy(writing->links, archive_format(writing->tar));
    done = done && put_directory(writing, root, ".", err);
    if (done && archive_write_close(writing->tar) != ARCHIVE_OK)
        done = tar_failed(writing, err);
    archive_entry_linkresolver_free(writing->links);
    (void)archive_write_free(writing->tar);
    return done;
}
