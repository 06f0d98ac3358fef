#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/io.h"
#include "base/names.h"
#include "base/process.h"
#include "runtime/oci/container.h"
#include "runtime/oci/start_socket.h"

static const char *const status_names[] = {
    [PIN_STATUS_CREATING] = "creating", [PIN_STATUS_CREATED] = "created", [PIN_STATUS_RUNNING] = "running",
    [PIN_STATUS_PAUSED] = "paused",     [PIN_STATUS_STOPPED] = "stopped",
};
_Static_assert(PIN_COUNT(status_names) == PIN_STATUS_COUNT, "every status has a name");

const char *pin_status_name(enum pin_status status) {
    return status_names[status];
}

static bool read_boot(char boot[64]) {
    PIN_CLOSE int fd = open("/proc/sys/kernel/random/boot_id", O_RDONLY | O_CLOEXEC);
    ssize_t size = fd < 0 ? -1 : read(fd, boot, 63);
    if (size <= 0)
        return false;
    boot[size] = '\0';
    boot[strcspn(boot, "\n")] = '\0';
    return true;
}

bool pin_container_set_process(struct pin_container *container, pid_t pid, struct pin_error *err) {
    char state, boot[64] = "";
    struct stat st;
    PIN_CLOSE int pidfd = (int)syscall(SYS_pidfd_open, pid, 0);
    if (pidfd < 0 || fstat(pidfd, &st) != 0 || !pin_process_stat(pid, &state, &container->start_time) ||
        !read_boot(boot))
        return pin_fail(err, PIN_ERROR_SYSTEM, "the container's process is gone already");
    container->pid = pid;
    container->inode = st.st_ino;
    container->boot = pin_arena_strdup(&container->arena, boot);
    return true;
}

int pin_container_process(const struct pin_container *container) {
    char boot[64] = "";
    struct stat st;
    PIN_CLOSE int pidfd = pin_process_open(container->pid, container->start_time);
    if (pidfd < 0 || fstat(pidfd, &st) != 0 || st.st_ino != container->inode || container->boot == NULL ||
        !read_boot(boot) || strcmp(boot, container->boot) != 0)
        return -1;
    return pin_steal_fd(&pidfd);
}

static bool has_creator(const struct pin_container *container) {
    PIN_CLOSE int creator = openat(container->dir, "creator", O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    return creator >= 0 && flock(creator, LOCK_SH | LOCK_NB) != 0 && errno == EWOULDBLOCK;
}

struct pin_cgroup *pin_container_cgroup(const struct pin_container *container,
                                        const struct pin_cgroup_facts *cgroups, struct pin_error *err) {
    struct pin_error found = {0};
    if (container->cgroup == NULL)
        return NULL;
    struct pin_cgroup_facts facts = *cgroups;
    bool top = container->cgroup[0] == '/';
    if (top)
        pin_cgroup_facts_at_top(&facts);
    struct pin_cgroup *group = pin_cgroup_open_at(&facts, container->cgroup + top, &found);
    if (group == NULL && found.kind != PIN_ERROR_NOT_FOUND)
        *err = found;
    return group;
}

enum pin_status pin_container_status(const struct pin_container *container,
                                     const struct pin_cgroup_facts *cgroups) {
    PIN_CLOSE int pidfd = pin_container_process(container);
    if (pidfd < 0)
        return container->pid == 0 && has_creator(container) ? PIN_STATUS_CREATING : PIN_STATUS_STOPPED;
    struct pin_error ignored = {0};
    PIN_CGROUP struct pin_cgroup *group = pin_container_cgroup(container, cgroups, &ignored);
    /* a created one may be paused as well; whoever waits for an answer of it then waits for its thaw */
    if (group != NULL && pin_cgroup_is_frozen(group))
        return PIN_STATUS_PAUSED;
    return pin_start_socket_is_waiting(container->dir) ? PIN_STATUS_CREATED : PIN_STATUS_RUNNING;
}

json_t *pin_container_state(const struct pin_container *container, enum pin_status status, bool more) {
    json_t *state = json_object();
    bool over = status == PIN_STATUS_STOPPED;
    json_object_set_new(state, "ociVersion",
                        json_string(container->oci_version != NULL ? container->oci_version : "1.2.0"));
    json_object_set_new(state, "id", json_string(container->id));
    json_object_set_new(state, "pid", json_integer(over ? 0 : container->pid));
    json_object_set_new(state, "status", json_string(pin_status_name(status)));
    json_object_set_new(state, "bundle", json_string(container->bundle != NULL ? container->bundle : ""));
    if (container->annotations != NULL)
        json_object_set(state, "annotations", container->annotations);
    if (!more)
        return state;
    json_object_set_new(state, "rootfs", json_string(container->rootfs != NULL ? container->rootfs : ""));
    json_object_set_new(state, "created", json_string(container->created != NULL ? container->created : ""));
    json_object_set_new(state, "owner", json_string(container->owner != NULL ? container->owner : ""));
    return state;
}
