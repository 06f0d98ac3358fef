#include "images/store/source.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/io.h"
#include "base/names.h"
#include "images/store/spool.h"

const char *const pin_source_kind_names[PIN_SOURCE_KIND_COUNT + 1] = {
    [PIN_SOURCE_AUTO] = "auto",
    [PIN_SOURCE_OCI] = "oci",
    [PIN_SOURCE_DOCKER] = "docker",
    [PIN_SOURCE_ROOTFS] = "rootfs",
};

static bool has_file(int dir, const char *name) {
    struct stat st;
    return fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW) == 0 && S_ISREG(st.st_mode);
}

static void tell_directory(struct pin_image_source *source) {
    source->is_directory = true;
    if (source->kind != PIN_SOURCE_AUTO)
        return;
    if (has_file(source->dir, "oci-layout") && has_file(source->dir, "index.json"))
        source->kind = PIN_SOURCE_OCI;
    else
        source->kind = PIN_SOURCE_ROOTFS;
}

bool pin_source_open(struct pin_image_source *source, struct pin_store_work *work, const char *path,
                     enum pin_source_kind kind, struct pin_error *err) {
    *source = (struct pin_image_source){.kind = kind, .dir = -1, .file = -1};
    PIN_CLOSE int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    struct stat st;
    if (fd < 0 || fstat(fd, &st) < 0) {
        (void)pin_fail_errno(err, "open '%.200s'", path);
        return pin_point(err, "%s", path);
    }
    if (S_ISDIR(st.st_mode)) {
        source->dir = pin_steal_fd(&fd);
        tell_directory(source);
        return true;
    }
    if (!S_ISREG(st.st_mode)) {
        (void)pin_fail(err, PIN_ERROR_INVALID, "'%.200s' is neither a directory nor a file", path);
        return pin_point(err, "%s", path);
    }
    if (source->kind == PIN_SOURCE_AUTO && !pin_spool_tell(fd, &source->kind, err))
        return pin_wrap(err, "'%.100s'", path);
    source->file = pin_steal_fd(&fd);
    if (source->kind == PIN_SOURCE_ROOTFS)
        return true;
    source->spooled = true;
    source->dir = pin_spool(work, source->file, err);
    return source->dir >= 0 || pin_wrap(err, "'%.100s'", path);
}

void pin_source_close(struct pin_image_source *source) {
    pin_close_fd(&source->dir);
    pin_close_fd(&source->file);
}

static int open_member(const struct pin_image_source *source, const char *path, struct pin_error *err) {
    const int flags = O_RDONLY | O_NONBLOCK | O_NOCTTY | O_NOFOLLOW;
    if (!source->spooled)
        return pin_open_beneath(source->dir, path, flags, 0, err);
    char name[PIN_SPOOL_NAME];
    /* Links in the spool are ours: to other digests in it. */
    int fd = openat(source->dir, pin_spool_name(name, path), (flags & ~O_NOFOLLOW) | O_CLOEXEC);
    if (fd < 0)
        (void)pin_fail_errno(err, "find '%.100s' in the archive", path);
    return fd;
}

int pin_source_member(const struct pin_image_source *source, const char *path, struct pin_error *err) {
    PIN_CLOSE int fd = open_member(source, path, err);
    struct stat st;
    if (fd < 0)
        return -1;
    if (fstat(fd, &st) == 0 && S_ISREG(st.st_mode))
        return pin_steal_fd(&fd);
    (void)pin_fail(err, PIN_ERROR_INVALID, "'%.100s' of the image isn't a regular file", path);
    return -1;
}

char *pin_source_read(const struct pin_image_source *source, const char *path, size_t limit, size_t *size,
                      struct pin_error *err) {
    PIN_CLOSE int fd = pin_source_member(source, path, err);
    char *data = fd < 0 ? NULL : pin_read_all(fd, limit, size, err);
    if (data == NULL)
        (void)pin_wrap(err, "'%.100s' of the image", path);
    return data;
}
