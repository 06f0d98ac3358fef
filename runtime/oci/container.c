#include "runtime/oci/container.h"

#include <ctype.h>
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

#define STATE_BYTES_MAX ((size_t)4 * 1024 * 1024) /* annotations may be long */

/* As runc: letters, digits, "_", "+", "-" and "."; never a way out of ROOT. */
static bool is_id(const char *id) {
    size_t length = strlen(id);
    if (length == 0 || length > 1024 || strcmp(id, ".") == 0 || strcmp(id, "..") == 0)
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

bool pin_container_make(int root, const char *id, struct pin_container *container, struct pin_error *err) {
    *container = PIN_CONTAINER_NONE;
    if (!is_id(id))
        return pin_fail(err, PIN_ERROR_INVALID, "invalid container ID format: %.200s", id);
    if (mkdirat(root, id, 0700) != 0 && errno == EEXIST)
        return pin_fail(err, PIN_ERROR_EXISTS, "container with given ID already exists: %s", id);
    container->dir = openat(root, id, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (container->dir < 0 || flock(container->dir, LOCK_EX) != 0)
        return pin_fail_errno(err, "make the container's directory");
    container->id = pin_arena_strdup(&container->arena, id);
    return true;
}

static const char *text_of(struct pin_container *container, const json_t *state, const char *key) {
    const char *value = json_string_value(json_object_get(state, key));
    return value == NULL ? NULL : pin_arena_strdup(&container->arena, value);
}

static bool read_state(struct pin_container *container, struct pin_error *err) {
    struct pin_error missing = {0};
    size_t size;
    PIN_FREE char *text = pin_read_file_at(container->dir, "state.json", STATE_BYTES_MAX, &size, &missing);
    if (text == NULL && missing.os_errno == ENOENT)
        return true;
    if (text == NULL) {
        *err = missing;
        return false;
    }
    json_t *state = json_loadb(text, size, JSON_REJECT_DUPLICATES, NULL);
    if (state == NULL)
        return pin_fail(err, PIN_ERROR_SYNTAX, "the state of container '%s' can't be read", container->id);
    container->bundle = text_of(container, state, "bundle");
    container->rootfs = text_of(container, state, "rootfs");
    container->oci_version = text_of(container, state, "ociVersion");
    container->created = text_of(container, state, "created");
    container->owner = text_of(container, state, "owner");
    container->cgroup = text_of(container, state, "cgroup");
    container->boot = text_of(container, state, "boot");
    container->pid = (pid_t)json_integer_value(json_object_get(state, "pid"));
    container->inode = (uint64_t)json_integer_value(json_object_get(state, "inode"));
    container->start_time = (uint64_t)json_integer_value(json_object_get(state, "startTime"));
    container->annotations = json_incref(json_object_get(state, "annotations"));
    json_decref(state);
    return true;
}

static bool take_lock(struct pin_container *container, struct pin_error *err) {
    container->lock = openat(container->dir, "lock", O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (container->lock < 0 && errno == ENOENT)
        return pin_fail(err, PIN_ERROR_NOT_FOUND, "container does not exist: %s", container->id);
    if (container->lock < 0 || flock(container->lock, LOCK_EX) != 0)
        return pin_fail_errno(err, "lock the container");
    struct stat st;
    if (fstat(container->lock, &st) == 0 && st.st_nlink == 0) /* it was removed while we waited */
        return pin_fail(err, PIN_ERROR_NOT_FOUND, "container does not exist: %s", container->id);
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
    return (!lock || take_lock(container, err)) && read_state(container, err);
}

bool pin_container_write(const struct pin_container *container, struct pin_error *err) {
    json_t *state = pin_container_state(container, PIN_STATUS_CREATED, true);
    (void)json_object_del(state, "status");
    json_object_set_new(state, "pid", json_integer(container->pid));
    json_object_set_new(state, "inode", json_integer((json_int_t)container->inode));
    json_object_set_new(state, "startTime", json_integer((json_int_t)container->start_time));
    if (container->boot != NULL)
        json_object_set_new(state, "boot", json_string(container->boot));
    if (container->cgroup != NULL)
        json_object_set_new(state, "cgroup", json_string(container->cgroup));
    PIN_FREE char *text = json_dumps(state, JSON_COMPACT);
    json_decref(state);
    PIN_CLOSE int file =
        openat(container->dir, "state.json.new", O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (text == NULL || file < 0)
        return pin_fail_errno(err, "write the container's state");
    if (!pin_write_all(file, text, strlen(text), err))
        return false;
    return renameat(container->dir, "state.json.new", container->dir, "state.json") == 0 ||
           pin_fail_errno(err, "write the container's state");
}

bool pin_container_remove(int root, const struct pin_container *container, struct pin_error *err) {
    return pin_tree_remove(root, container->id, err);
}

void pin_container_close(struct pin_container *container) {
    pin_close_fd(&container->lock);
    pin_close_fd(&container->dir);
    json_decref(container->annotations);
    container->annotations = NULL;
    pin_arena_free(&container->arena);
}
