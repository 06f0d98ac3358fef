#include "images/store/layer_tree.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#include <linux/openat2.h>

#include "base/cleanup.h"
#include "base/io.h"
#include "images/remove.h"

#define TIMES_MAX ((size_t)256 * 1024 * 1024) /* bytes of noted directories */
#define OPAQUE "user.overlay.opaque"

struct noted_time { /* followed by the path and its zero */
    struct timespec time;
    uint32_t path_size;
};

struct pin_layer_tree {
    int root;
    bool privileged; /* root's store keeps the owners of the image */
    int parent;      /* the directory of the last entry, which most often is that of the next one too */
    bool stale;      /* a directory or link has gone since: the same path may lead elsewhere */
    char parent_path[PATH_MAX];
    char *times;
    size_t times_size, times_room;
};

struct pin_layer_tree *pin_layer_tree_open(int root) {
    struct pin_layer_tree *tree = calloc(1, sizeof(*tree));
    if (tree == NULL)
        abort();
    tree->root = root;
    tree->parent = -1;
    tree->privileged = geteuid() == 0;
    return tree;
}

static void forget_parent(struct pin_layer_tree *tree) {
    pin_close_fd(&tree->parent);
}

static int open_directory(struct pin_layer_tree *tree, const char *path, int flags) {
    return pin_openat2(tree->root, path[0] == '\0' ? "." : path, flags | O_RDONLY | O_DIRECTORY | O_NONBLOCK,
                       0, RESOLVE_IN_ROOT | RESOLVE_NO_MAGICLINKS | RESOLVE_NO_XDEV);
}

static bool set_opaque(int directory, struct pin_error *err) {
    if (fsetxattr(directory, OPAQUE, "y", 1, 0) < 0) {
        (void)pin_fail_errno(err, "mark a directory as opaque");
        return pin_hint(err, "the store's filesystem must have extended attributes");
    }
    return true;
}

static bool is_whiteout(const struct stat *st) {
    return S_ISCHR(st->st_mode) && st->st_rdev == 0;
}

/* A directory that the tar has no entry for, or that comes before it. `name` isn't one yet. */
static bool make_parent(int above, const char *name, struct pin_error *err) {
    struct stat st;
    bool there = fstatat(above, name, &st, AT_SYMLINK_NOFOLLOW) == 0;
    bool whiteout = there && is_whiteout(&st);
    if (there && !whiteout)
        return pin_fail(err, PIN_ERROR_INVALID,
                        S_ISLNK(st.st_mode) ? "the layer writes through '%.100s', a link that leads nowhere"
                                            : "the layer writes below '%.100s', which isn't a directory",
                        name);
    if (whiteout && unlinkat(above, name, 0) < 0)
        return pin_fail_errno(err, "replace the whiteout of '%s'", name);
    if (mkdirat(above, name, 0755) < 0)
        return pin_fail_errno(err, "make the directory '%s'", name);
    PIN_CLOSE int made = openat(above, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    static const struct timespec epoch[2] = {{0}, {0}};
    if (made < 0 || fchmod(made, 0755) < 0 || futimens(made, epoch) < 0)
        return pin_fail_errno(err, "make the directory '%s'", name);
    return !whiteout || set_opaque(made, err); /* below, it was removed before it was made anew */
}

static int make_parents(struct pin_layer_tree *tree, const char *path, struct pin_error *err) {
    char part[PATH_MAX];
    PIN_CLOSE int above = open_directory(tree, "", 0);
    for (const char *at = path; above >= 0; at++) {
        size_t size = (size_t)(at - path) + strcspn(at, "/");
        memcpy(part, path, size);
        part[size] = '\0';
        int next = open_directory(tree, part, 0);
        if (next < 0 && errno != ENOENT && errno != ENOTDIR)
            break;
        const char *name = strrchr(part, '/') == NULL ? part : strrchr(part, '/') + 1;
        if (next < 0 && !make_parent(above, name, err))
            return -1;
        if (next < 0)
            next = open_directory(tree, part, 0);
        pin_close_fd(&above);
        above = next;
        at = path + size;
        if (*at == '\0')
            break;
    }
    if (above < 0)
        (void)pin_fail_errno(err, "open the directory '%s' of the layer", path);
    return pin_steal_fd(&above);
}

/* The descriptor stays the tree's, until the next call. */
static int open_parent(struct pin_layer_tree *tree, const char *path, struct pin_error *err) {
    if (tree->parent >= 0 && !tree->stale && strcmp(tree->parent_path, path) == 0)
        return tree->parent;
    forget_parent(tree);
    tree->stale = false;
    int parent = open_directory(tree, path, 0);
    if (parent < 0 && (errno == ENOENT || errno == ENOTDIR))
        parent = make_parents(tree, path, err);
    else if (parent < 0)
        (void)pin_fail_errno(err, "open the directory '%s' of the layer", path);
    if (parent < 0)
        return -1;
    memcpy(tree->parent_path, path, strlen(path) + 1);
    return tree->parent = parent;
}

/* Makes room for an entry: the last one of a name wins. Kept descriptors may name what goes. */
static bool clear_place(struct pin_layer_tree *tree, int parent, const char *name, struct pin_error *err) {
    struct stat st;
    if (fstatat(parent, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
        return errno == ENOENT || pin_fail_errno(err, "look at '%s'", name);
    if (!pin_remove_tree(parent, name, err))
        return false;
    if (S_ISDIR(st.st_mode) || S_ISLNK(st.st_mode))
        tree->stale = true;
    return true;
}

static uint32_t id_of(int64_t id) {
    return (uint32_t)id;
}

static bool check_owner(const struct pin_layer_owner *owner, struct pin_error *err) {
    if (owner->user < 0 || owner->user >= UINT32_MAX || owner->group < 0 || owner->group >= UINT32_MAX)
        return pin_fail(err, PIN_ERROR_INVALID, "the layer has an entry of user %lld, group %lld",
                        (long long)owner->user, (long long)owner->group);
    return true;
}

static bool finish_entry(struct pin_layer_tree *tree, int fd, const struct pin_layer_owner *owner,
                         mode_t mode, struct pin_error *err) {
    struct timespec times[2] = {owner->time, owner->time};
    if (!check_owner(owner, err))
        return false;
    if (tree->privileged && fchown(fd, id_of(owner->user), id_of(owner->group)) < 0)
        return pin_fail_errno(err, "set the owner of an entry");
    if (fchmod(fd, mode) < 0 || futimens(fd, times) < 0)
        return pin_fail_errno(err, "set the mode and time of an entry");
    return true;
}

static bool note_time(struct pin_layer_tree *tree, const struct pin_layer_path *path,
                      const struct timespec *time, struct pin_error *err) {
    char full[PATH_MAX + NAME_MAX + 2];
    size_t parent = strlen(path->parent), name = strlen(path->name);
    memcpy(full, path->parent, parent);
    full[parent] = '/';
    memcpy(full + parent + 1, path->name, name + 1);
    const char *text = parent > 0 ? full : path->name;
    struct noted_time noted = {.time = *time, .path_size = (uint32_t)strlen(text) + 1};
    size_t need = tree->times_size + sizeof(noted) + noted.path_size;
    if (need > TIMES_MAX)
        return pin_fail(err, PIN_ERROR_REFUSED, "the layer has too many directories");
    if (need > tree->times_room) {
        tree->times_room = need * 2;
        tree->times = realloc(tree->times, tree->times_room);
        if (tree->times == NULL)
            abort();
    }
    memcpy(tree->times + tree->times_size, &noted, sizeof(noted));
    memcpy(tree->times + tree->times_size + sizeof(noted), text, noted.path_size);
    tree->times_size = need;
    return true;
}

static bool open_root_again(struct pin_layer_tree *tree, int *directory, struct pin_error *err) {
    *directory = open_directory(tree, "", 0);
    return *directory >= 0 || pin_fail_errno(err, "open the layer's root");
}

/* A directory that is there already keeps what is in it. */
static bool make_directory(struct pin_layer_tree *tree, const struct pin_layer_path *path, int *directory,
                           struct pin_error *err) {
    int parent = open_parent(tree, path->parent, err);
    if (parent < 0)
        return false;
    bool whiteout = false;
    if (mkdirat(parent, path->name, 0700) < 0) {
        struct stat st;
        if (errno != EEXIST || fstatat(parent, path->name, &st, AT_SYMLINK_NOFOLLOW) < 0)
            return pin_fail_errno(err, "make the directory '%s'", path->name);
        whiteout = is_whiteout(&st);
        if (!S_ISDIR(st.st_mode) && (!clear_place(tree, parent, path->name, err)))
            return false;
        if (!S_ISDIR(st.st_mode) && mkdirat(parent, path->name, 0700) < 0)
            return pin_fail_errno(err, "make the directory '%s'", path->name);
    }
    PIN_CLOSE int made = openat(parent, path->name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (made < 0)
        return pin_fail_errno(err, "open the directory '%s'", path->name);
    if (whiteout && !set_opaque(made, err))
        return false;
    *directory = pin_steal_fd(&made);
    return true;
}

bool pin_layer_tree_directory(struct pin_layer_tree *tree, const struct pin_layer_path *path,
                              const struct pin_layer_owner *owner, int *directory, struct pin_error *err) {
    PIN_CLOSE int made = -1;
    bool is_root = path->kind == PIN_LAYER_ROOT;
    if (is_root ? !open_root_again(tree, &made, err) : !make_directory(tree, path, &made, err))
        return false;
    mode_t mode = owner->mode & 07777;
    if (!finish_entry(tree, made, owner, tree->privileged ? mode : mode | 0700, err) ||
        !note_time(tree, path, &owner->time, err))
        return false;
    *directory = pin_steal_fd(&made);
    return true;
}

bool pin_layer_tree_file(struct pin_layer_tree *tree, const struct pin_layer_path *path, int *file,
                         struct pin_error *err) {
    const int flags = O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC | O_NOCTTY;
    int parent = open_parent(tree, path->parent, err);
    if (parent < 0)
        return false;
    int made = openat(parent, path->name, flags, 0600);
    if (made < 0 && errno == EEXIST) {
        if (!clear_place(tree, parent, path->name, err))
            return false;
        made = openat(parent, path->name, flags, 0600);
    }
    if (made < 0)
        return pin_fail_errno(err, "make the file '%s'", path->name);
    *file = made;
    return true;
}

bool pin_layer_tree_complete(struct pin_layer_tree *tree, int file, const struct pin_layer_owner *owner,
                             struct pin_error *err) {
    mode_t mode = owner->mode & 01777; /* a set-user-id file of the store must not serve anybody outside */
    return finish_entry(tree, file, owner, tree->privileged ? mode : mode | 0400, err);
}

static bool finish_by_name(struct pin_layer_tree *tree, int parent, const char *name,
                           const struct pin_layer_owner *owner, struct pin_error *err) {
    struct timespec times[2] = {owner->time, owner->time};
    if (!check_owner(owner, err))
        return false;
    if (tree->privileged &&
        fchownat(parent, name, id_of(owner->user), id_of(owner->group), AT_SYMLINK_NOFOLLOW) < 0)
        return pin_fail_errno(err, "set the owner of '%s'", name);
    if (utimensat(parent, name, times, AT_SYMLINK_NOFOLLOW) < 0)
        return pin_fail_errno(err, "set the time of '%s'", name);
    return true;
}

bool pin_layer_tree_symlink(struct pin_layer_tree *tree, const struct pin_layer_path *path,
                            const char *target, const struct pin_layer_owner *owner, struct pin_error *err) {
    int parent = open_parent(tree, path->parent, err);
    if (parent < 0)
        return false;
    if (target[0] == '\0' || strlen(target) >= PATH_MAX)
        return pin_fail(err, PIN_ERROR_INVALID, "the layer has a link '%.100s' with no good target",
                        path->name);
    if (!clear_place(tree, parent, path->name, err))
        return false;
    if (symlinkat(target, parent, path->name) < 0)
        return pin_fail_errno(err, "make the link '%s'", path->name);
    return finish_by_name(tree, parent, path->name, owner, err);
}

bool pin_layer_tree_fifo(struct pin_layer_tree *tree, const struct pin_layer_path *path,
                         const struct pin_layer_owner *owner, struct pin_error *err) {
    int parent = open_parent(tree, path->parent, err);
    if (parent < 0 || !clear_place(tree, parent, path->name, err))
        return false;
    if (mknodat(parent, path->name, S_IFIFO | 0600, 0) < 0)
        return pin_fail_errno(err, "make the pipe '%s'", path->name);
    /* fchmodat() follows links, but this name is ours: nobody else can reach the layer that is being made */
    if (fchmodat(parent, path->name, owner->mode & 0777, 0) < 0)
        return pin_fail_errno(err, "set the mode of '%s'", path->name);
    return finish_by_name(tree, parent, path->name, owner, err);
}

bool pin_layer_tree_hardlink(struct pin_layer_tree *tree, const struct pin_layer_path *path,
                             const struct pin_layer_path *target, struct pin_error *err) {
    PIN_CLOSE int from = open_directory(tree, target->parent, 0);
    struct stat old, place;
    if (from < 0 || fstatat(from, target->name, &old, AT_SYMLINK_NOFOLLOW) < 0 || is_whiteout(&old))
        return pin_fail(err, PIN_ERROR_INVALID, "the layer links '%.100s' to '%.100s', which isn't in it",
                        path->name, target->name);
    if (S_ISDIR(old.st_mode))
        return pin_fail(err, PIN_ERROR_INVALID, "the layer links '%.100s' to a directory", path->name);
    int parent = open_parent(tree, path->parent, err);
    if (parent < 0)
        return false;
    if (fstatat(parent, path->name, &place, AT_SYMLINK_NOFOLLOW) == 0 && place.st_ino == old.st_ino)
        return true; /* linked to itself, or once more */
    if (!clear_place(tree, parent, path->name, err))
        return false;
    if (linkat(from, target->name, parent, path->name, 0) < 0) /* 0: a link itself, never what it leads to */
        return pin_fail_errno(err, "link '%s'", path->name);
    return true;
}

bool pin_layer_tree_whiteout(struct pin_layer_tree *tree, const struct pin_layer_path *path,
                             struct pin_error *err) {
    int parent = open_parent(tree, path->parent, err);
    if (parent < 0)
        return false;
    if (mknodat(parent, path->name, S_IFCHR, 0) == 0)
        return true;
    if (errno != EEXIST)
        return pin_fail_errno(err, "make the whiteout of '%s'", path->name);
    /* A whiteout is about the layers below; what this layer itself has of that name stays. */
    PIN_CLOSE int same = openat(parent, path->name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    return same < 0 || set_opaque(same, err);
}

bool pin_layer_tree_opaque(struct pin_layer_tree *tree, const struct pin_layer_path *path,
                           struct pin_error *err) {
    int parent = open_parent(tree, path->parent, err);
    return parent >= 0 && set_opaque(parent, err);
}

bool pin_layer_tree_keeps(const char *attribute) {
    return strncmp(attribute, "user.", 5) == 0 && strncmp(attribute, "user.overlay.", 13) != 0;
}

bool pin_layer_tree_attribute(int fd, const char *name, const void *value, size_t size,
                              struct pin_error *err) {
    if (!pin_layer_tree_keeps(name))
        return true;
    if (strlen(name) > XATTR_NAME_MAX || size > XATTR_SIZE_MAX)
        return pin_fail(err, PIN_ERROR_INVALID, "the layer has an extended attribute that is too large");
    if (fsetxattr(fd, name, value, size, 0) < 0)
        return pin_fail_errno(err, "set the attribute '%.60s'", name);
    return true;
}

bool pin_layer_tree_finish(struct pin_layer_tree *tree, struct pin_error *err) {
    forget_parent(tree);
    for (size_t at = 0; at < tree->times_size;) {
        struct noted_time noted;
        memcpy(&noted, tree->times + at, sizeof(noted));
        const char *path = tree->times + at + sizeof(noted);
        at += sizeof(noted) + noted.path_size;
        PIN_CLOSE int directory = open_directory(tree, path, O_NOFOLLOW);
        struct timespec times[2] = {noted.time, noted.time};
        if (directory < 0) /* a later entry of that name was no directory */
            continue;
        if (futimens(directory, times) < 0)
            return pin_fail_errno(err, "set the time of a directory");
    }
    return true;
}

void pin_layer_tree_close(struct pin_layer_tree *tree) {
    if (tree == NULL)
        return;
    forget_parent(tree);
    free(tree->times);
    free(tree);
}

void pin_layer_tree_close_slot(struct pin_layer_tree **tree) {
    pin_layer_tree_close(*tree);
}
