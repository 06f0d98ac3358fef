#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/io.h"
#include "images/layer_merge.h"
#include "images/rootfs.h"
#include "runtime/bundle/bundle_wall.h"
#include "runtime/bundle/bundle_write.h"

static bool write_file(int directory, const char *path, const void *data, size_t size, uint32_t mode,
                       struct pin_error *err) {
    PIN_CLOSE int fd = pin_open_beneath(directory, path, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW, mode, err);
    return fd >= 0 && pin_write_all(fd, data, size, err);
}

/* The parent, opened without following a link, and the last part of the path. */
static int open_parent(int root, const char *path, const char **last, struct pin_error *err) {
    const char *slash = strrchr(path, '/');
    char parent[4096] = ".";
    *last = slash == NULL ? path : slash + 1;
    if (slash != NULL) {
        if ((size_t)(slash - path) >= sizeof(parent)) {
            (void)pin_fail(err, PIN_ERROR_INVALID, "the path '%.60s…' is too long", path);
            return -1;
        }
        memcpy(parent, path, (size_t)(slash - path));
        parent[slash - path] = '\0';
    }
    return pin_open_beneath(root, parent, O_PATH | O_DIRECTORY, 0, err);
}

static bool make_directory(int root, const char *path, uint32_t mode, struct pin_error *err) {
    const char *last;
    PIN_CLOSE int parent = open_parent(root, path, &last, err);
    if (parent < 0)
        return false;
    if (mkdirat(parent, last, mode & 07777) < 0 && errno != EEXIST)
        return pin_fail_errno(err, "make the directory '%s'", path);
    return true;
}

static bool make_link(int root, const char *path, const char *target, struct pin_error *err) {
    const char *last;
    PIN_CLOSE int parent = open_parent(root, path, &last, err);
    if (parent < 0)
        return false;
    return symlinkat(target, parent, last) == 0 || pin_fail_errno(err, "make the link '%s'", path);
}

static bool make_entry(int root, const struct pin_rootfs_entry *entry, struct pin_error *err) {
    switch (entry->kind) {
    case PIN_ENTRY_DIRECTORY: return make_directory(root, entry->path, entry->mode, err);
    case PIN_ENTRY_SYMLINK: return make_link(root, entry->path, entry->content, err);
    case PIN_ENTRY_FILE: return write_file(root, entry->path, entry->content, entry->size, entry->mode, err);
    }
    return pin_fail(err, PIN_ERROR_INTERNAL, "an entry of no kind");
}

static bool make_skeleton(int root, const struct pin_rootfs *rootfs, struct pin_error *err) {
    for (size_t i = 0; i < rootfs->entry_count; i++)
        if (!make_entry(root, &rootfs->entries[i], err))
            return pin_wrap(err, "rootfs");
    return true;
}

/* A file is bound over a file. */
static bool is_file(const struct pin_bundle_mount *mount) {
    struct stat status;
    return pin_bundle_mount_is_bind(mount) && mount->source != NULL && stat(mount->source, &status) == 0 &&
           !S_ISDIR(status.st_mode);
}

/* As it will be found inside: the links of an image lead to where they do in the root. */
static bool is_there(int root, const char *path) {
    struct pin_error absent = {0};
    PIN_CLOSE int there = pin_open_in_root(root, path, O_PATH | O_NOFOLLOW, 0, &absent);
    return there >= 0;
}

static bool make_parents(int root, const char *path, struct pin_error *err) {
    for (const char *slash = strchr(path, '/'); slash != NULL; slash = strchr(slash + 1, '/')) {
        char parent[4096] = "";
        if ((size_t)(slash - path) >= sizeof(parent))
            return pin_fail(err, PIN_ERROR_INVALID, "the path '%.60s…' is too long", path);
        memcpy(parent, path, (size_t)(slash - path));
        if (!is_there(root, parent) && !make_directory(root, parent, 0755, err))
            return false;
    }
    return true;
}

/* The layers become files of the bundle's own, and what every sandbox gets is added where they lack it. */
static bool merge_layers(int root, const struct pin_rootfs *rootfs, struct pin_error *err) {
    if (!pin_layers_merge(rootfs->layers, rootfs->layer_count, root, err))
        return false;
    for (size_t i = 0; i < rootfs->entry_count; i++)
        if (!is_there(root, rootfs->entries[i].path) && (!make_parents(root, rootfs->entries[i].path, err) ||
                                                         !make_entry(root, &rootfs->entries[i], err)))
            return pin_wrap(err, "rootfs");
    return true;
}

/* A mount point below the root that is missing; one inside another mount is that mount's matter. */
static bool make_mount_point(int root, const struct pin_bundle *bundle, size_t index, struct pin_error *err) {
    const char *path = bundle->mounts[index].destination + 1;
    for (size_t i = 0; i < index; i++) {
        const char *above = bundle->mounts[i].destination + 1;
        size_t length = strlen(above);
        if (strncmp(path, above, length) == 0 && path[length] == '/')
            return true;
    }
    if (is_there(root, path))
        return true;
    if (!make_parents(root, path, err))
        return false;
    if (is_file(&bundle->mounts[index]))
        return write_file(root, path, "", 0, 0644, err);
    return make_directory(root, path, 0755, err);
}

static bool make_root(int directory, const struct pin_bundle *bundle, struct pin_error *err) {
    if (!make_directory(directory, "rootfs", 0755, err))
        return false;
    PIN_CLOSE int root = pin_open_beneath(directory, "rootfs", O_RDONLY | O_DIRECTORY, 0, err);
    const struct pin_rootfs *rootfs = bundle->rootfs;
    if (root < 0 || !(rootfs->kind == PIN_ROOTFS_LAYERS ? merge_layers(root, rootfs, err)
                                                        : make_skeleton(root, rootfs, err)))
        return false;
    for (size_t i = 0; i < bundle->mount_count; i++)
        if (!make_mount_point(root, bundle, i, err))
            return pin_wrap(err, "mount point '%s'", bundle->mounts[i].destination);
    return true;
}

bool pin_bundle_export(const struct pin_bundle *bundle, int directory, struct pin_error *err) {
    struct pin_bundle flat = *bundle; /* shallow: its root is the one that is made here */
    size_t size;
    flat.ext.layers = NULL;
    flat.ext.layer_count = 0;
    PIN_FREE char *text = pin_bundle_print(&flat, true, &size, err);
    if (text == NULL)
        return false;
    if (bundle->rootfs != NULL && bundle->rootfs->kind != PIN_ROOTFS_DIRECTORY &&
        !make_root(directory, bundle, err))
        return false;
    return write_file(directory, "config.json", text, size, 0644, err) || pin_wrap(err, "config.json");
}
