#include "runtime/oci/container.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/io.h"
#include "runtime/state/tree.h"

#define REMOVALS_MAX 100                          /* more files than a creator makes */
#define STATE_BYTES_MAX ((size_t)4 * 1024 * 1024) /* annotations may be long */

/* As runc: letters, digits, "_", "+", "-" and "."; never a way out of ROOT, and never an option. */
static bool is_id(const char *id) {
    size_t length = strlen(id);
    if (length == 0 || length > 1024 || id[0] == '-' || strcmp(id, ".") == 0 || strcmp(id, "..") == 0)
        return false;
    for (const char *at = id; *at != '\0'; at++)
        if (!isalnum((unsigned char)*at) && strchr("_+-.", *at) == NULL)
            return false;
    return true;
}

static bool make_levels(const char *path, struct pin_error *err) {
    char folder[PATH_MAX];
    (void)snprintf(folder, sizeof(folder), "%s", path);
    for (char *slash = strchr(folder + 1, '/'); slash != NULL; slash = strchr(slash + 1, '/')) {
        *slash = '\0';
        if (mkdir(folder, 0755) != 0 && errno != EEXIST)
            return pin_fail_errno(err, "make the directory '%s'", folder);
        *slash = '/';
    }
    return mkdir(folder, 0711) == 0 || errno == EEXIST ||
           pin_fail_errno(err, "make the directory '%s'", folder);
}

int pin_containers_open(const char *root, struct pin_error *err) {
    int fd = open(root, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0 && errno == ENOENT && make_levels(root, err))
        fd = open(root, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0 && !pin_is_set(err))
        (void)pin_fail_errno(err, "open the root directory '%s'", root);
    return fd;
}

/* Whether the id still leads to the directory that was opened. */
static bool has_id(int root, const struct pin_container *container) {
    struct stat own, named;
    return fstat(container->dir, &own) == 0 &&
           fstatat(root, container->id, &named, AT_SYMLINK_NOFOLLOW) == 0 && own.st_dev == named.st_dev &&
           own.st_ino == named.st_ino;
}

static bool wait_for_lock(int file, struct pin_error *err) {
    while (flock(file, LOCK_EX) != 0)
        if (errno != EINTR)
            return pin_fail_errno(err, "lock the container");
    return true;
}

/* By a description of its own, so that what else is open of the directory takes no part in it. */
static int lock_directory(const struct pin_container *container, struct pin_error *err) {
    PIN_CLOSE int lock = openat(container->dir, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (lock < 0 && errno == ENOENT) /* removed since it was opened */
        (void)pin_fail(err, PIN_ERROR_NOT_FOUND, "container does not exist: %s", container->id);
    else if (lock < 0)
        (void)pin_fail_errno(err, "lock the container");
    else if (!wait_for_lock(lock, err))
        return -1;
    return pin_steal_fd(&lock);
}

bool pin_container_is_held(const struct pin_container *container) {
    PIN_CLOSE int lock = openat(container->dir, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    return lock >= 0 && flock(lock, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK;
}

int pin_container_announce_end(const struct pin_container *container) {
    struct pin_error ignored = {0};
    PIN_CLOSE int file =
        openat(container->dir, "config.json", O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    return file >= 0 && wait_for_lock(file, &ignored) ? pin_steal_fd(&file) : -1;
}

bool pin_container_is_ending(int root, const struct pin_container *container) {
    PIN_CLOSE int file =
        openat(container->dir, "config.json", O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    /* shared, so that two who ask at once don't take each other for one who tells */
    return !has_id(root, container) ||
           (file >= 0 && flock(file, LOCK_SH | LOCK_NB) != 0 && errno == EWOULDBLOCK);
}

bool pin_container_lock(int root, struct pin_container *container, struct pin_error *err) {
    container->lock = lock_directory(container, err);
    if (container->lock < 0)
        return false;
    if (has_id(root, container))
        return true;
    pin_close_fd(&container->lock); /* it was removed while we waited; the id may be another's by now */
    return pin_fail(err, PIN_ERROR_NOT_FOUND, "container does not exist: %s", container->id);
}

/* Takes the new directory for its own. NOT_FOUND: another found it without a creator, and has removed it. */
static bool settle_in(int root, struct pin_container *container, struct pin_error *err) {
    container->dir = openat(root, container->id, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (container->dir < 0 && errno == ENOENT)
        return pin_fail(err, PIN_ERROR_NOT_FOUND, "container does not exist: %s", container->id);
    if (container->dir < 0)
        return pin_fail_errno(err, "open the container's directory");
    if (!pin_container_lock(root, container, err))
        return false;
    container->creator =
        openat(container->dir, "creator", O_RDONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    bool settled = container->creator >= 0 ? wait_for_lock(container->creator, err)
                                           : pin_fail_errno(err, "make the container's directory");
    pin_close_fd(&container->lock);
    return settled;
}

bool pin_container_make(int root, const char *id, struct pin_container *container, struct pin_error *err) {
    *container = PIN_CONTAINER_NONE;
    if (!is_id(id))
        return pin_fail(err, PIN_ERROR_INVALID, "invalid container ID format: %.200s", id);
    container->id = pin_arena_strdup(&container->arena, id);
    for (unsigned i = 0; i < REMOVALS_MAX; i++) {
        if (mkdirat(root, id, 0700) != 0)
            return errno == EEXIST
                       ? pin_fail(err, PIN_ERROR_EXISTS, "container with given ID already exists: %s", id)
                       : pin_fail_errno(err, "make the container's directory");
        if (settle_in(root, container, err))
            return true;
        if (container->dir >= 0)
            (void)unlinkat(container->dir, "creator", 0);
        pin_close_fd(&container->dir);
        if (err->kind != PIN_ERROR_NOT_FOUND || i + 1 == REMOVALS_MAX)
            break;
        pin_error_clear(err);
    }
    (void)unlinkat(root, id, AT_REMOVEDIR); /* nobody has anything in it */
    return false;
}

static const char *text_of(struct pin_container *container, const json_t *state, const char *key) {
    const char *value = json_string_value(json_object_get(state, key));
    return value == NULL ? NULL : pin_arena_strdup(&container->arena, value);
}

static const char *group_of(struct pin_container *container) {
    char group[PIN_CGROUP_PATH + 1];
    ssize_t length = readlinkat(container->dir, "cgroup", group, sizeof(group) - 1);
    if (length <= 0)
        return NULL;
    group[length] = '\0';
    return pin_arena_strdup(&container->arena, group);
}

/* Written whole it has all of these; a disk that was full or a machine that lost its power leaves less. */
static bool is_state(const json_t *state) {
    return json_is_string(json_object_get(state, "id")) && json_is_string(json_object_get(state, "bundle")) &&
           json_is_integer(json_object_get(state, "pid")) &&
           json_is_integer(json_object_get(state, "inode")) &&
           json_is_integer(json_object_get(state, "startTime"));
}

static bool read_state(struct pin_container *container, struct pin_error *err) {
    struct pin_error missing = {0};
    size_t size;
    PIN_FREE char *text = pin_read_file_at(container->dir, "state.json", STATE_BYTES_MAX, &size, &missing);
    container->cgroup = group_of(container);
    if (text == NULL && missing.os_errno == ENOENT)
        return true;
    json_t *state = text == NULL ? NULL : json_loadb(text, size, JSON_REJECT_DUPLICATES, NULL);
    if (!is_state(state)) {
        json_decref(state);
        (void)pin_fail(err, PIN_ERROR_SYNTAX, "the state of container '%s' can't be read", container->id);
        return pin_hint(err, "delete --force clears what is left of it");
    }
    container->bundle = text_of(container, state, "bundle");
    container->rootfs = text_of(container, state, "rootfs");
    container->oci_version = text_of(container, state, "ociVersion");
    container->created = text_of(container, state, "created");
    container->owner = text_of(container, state, "owner");
    container->boot = text_of(container, state, "boot");
    container->audit_log = text_of(container, state, "auditLog");
    container->pid = (pid_t)json_integer_value(json_object_get(state, "pid"));
    container->inode = (uint64_t)json_integer_value(json_object_get(state, "inode"));
    container->start_time = (uint64_t)json_integer_value(json_object_get(state, "startTime"));
    container->annotations = json_incref(json_object_get(state, "annotations"));
    json_decref(state);
    return true;
}

bool pin_container_open(int root, const char *id, bool lock, struct pin_container *container,
                        struct pin_error *err) {
    *container = PIN_CONTAINER_NONE;
    if (!is_id(id))
        return pin_fail(err, PIN_ERROR_INVALID, "invalid container ID format: %.200s", id);
    container->id = pin_arena_strdup(&container->arena, id);
    container->dir = openat(root, id, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (container->dir < 0 && errno == ENOENT)
        return pin_fail(err, PIN_ERROR_NOT_FOUND, "container does not exist: %s", id);
    if (container->dir < 0)
        return pin_fail_errno(err, "open the container's directory");
    return (!lock || pin_container_lock(root, container, err)) && read_state(container, err);
}

bool pin_container_write(const struct pin_container *container, struct pin_error *err) {
    json_t *state = pin_container_state(container, PIN_STATUS_CREATED, true);
    (void)json_object_del(state, "status");
    json_object_set_new(state, "pid", json_integer(container->pid));
    json_object_set_new(state, "inode", json_integer((json_int_t)container->inode));
    json_object_set_new(state, "startTime", json_integer((json_int_t)container->start_time));
    if (container->boot != NULL)
        json_object_set_new(state, "boot", json_string(container->boot));
    if (container->audit_log != NULL)
        json_object_set_new(state, "auditLog", json_string(container->audit_log));
    PIN_FREE char *text = json_dumps(state, JSON_COMPACT);
    json_decref(state);
    PIN_CLOSE int file =
        openat(container->dir, "state.json.new", O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (text == NULL || file < 0)
        return pin_fail_errno(err, "write the container's state");
    if (container->cgroup != NULL && symlinkat(container->cgroup, container->dir, "cgroup") != 0 &&
        errno != EEXIST)
        return pin_fail_errno(err, "write down the container's cgroup");
    if (!pin_write_all(file, text, strlen(text), err))
        return false;
    return renameat(container->dir, "state.json.new", container->dir, "state.json") == 0 ||
           pin_fail_errno(err, "write the container's state");
}

/* By the descriptor: by its name it may be another's already. */
static bool make_empty(int dir, struct pin_error *err) {
    int listed = openat(dir, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (listed < 0 && errno == ENOENT) /* removed, and so it was empty */
        return true;
    DIR *entries = listed < 0 ? NULL : fdopendir(listed);
    if (entries == NULL) {
        (void)pin_fail_errno(err, "list the container's directory");
        pin_close_fd(&listed);
        return false;
    }
    struct pin_error cut = {0};
    bool ok = true;
    for (const struct dirent *entry; ok && (entry = pin_next_entry(entries, &cut)) != NULL;)
        ok = pin_tree_remove(dir, entry->d_name, err);
    (void)closedir(entries);
    if (!ok || !pin_is_set(&cut) || cut.os_errno == ENOENT)
        return ok;
    *err = cut;
    return false;
}

/* A creator that is still at work may make files in it meanwhile. */
bool pin_container_remove(int root, const struct pin_container *container, struct pin_error *err) {
    for (unsigned i = 0; i <= REMOVALS_MAX; i++) {
        if (!make_empty(container->dir, err))
            return false;
        if (!has_id(root, container) || unlinkat(root, container->id, AT_REMOVEDIR) == 0 || errno == ENOENT)
            return true;
        if (errno != ENOTEMPTY)
            break;
    }
    return pin_fail_errno(err, "remove the container's directory");
}

void pin_container_close(struct pin_container *container) {
    pin_close_fd(&container->creator);
    pin_close_fd(&container->lock);
    pin_close_fd(&container->dir);
    json_decref(container->annotations);
    container->annotations = NULL;
    pin_arena_free(&container->arena);
}
