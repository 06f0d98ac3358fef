#include "tools/pinfold-oci/common.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <linux/capability.h>

#include "base/capabilities.h"
#include "base/cleanup.h"
#include "base/io.h"
#include "base/units.h"
#include "base/user_namespace.h"
#include "runtime/bundle/bundle_read.h"
#include "runtime/bundle/bundle_wall.h"
#include "runtime/oci/settle.h"
#include "tools/pinfold-oci/ceiling.h"
#include "tools/pinfold-oci/log.h"

#define DIE_LOOKS 100 /* ten seconds of them */
#define DIE_LOOK_MS 100

static const char *root_of(const struct pin_oci_options *options, char path[PATH_MAX]) {
    const char *runtime_dir = secure_getenv("XDG_RUNTIME_DIR");
    if (options->root != NULL)
        return options->root;
    /* root of an engine's user namespace is an ordinary user, too */
    if ((geteuid() == 0 && !pin_in_user_namespace()) || runtime_dir == NULL || runtime_dir[0] != '/')
        return "/run/pinfold-oci";
    (void)snprintf(path, PATH_MAX, "%s/pinfold-oci", runtime_dir);
    return path;
}

bool pin_oci_open_host(const struct pin_oci_options *options, struct pin_oci_host *host,
                       struct pin_error *err) {
    char path[PATH_MAX];
    host->root = pin_containers_open(root_of(options, path), err);
    if (host->root < 0)
        return false;
    pin_host_get(&host->host);
    return pin_cgroup_facts_get("pinfold", &host->cgroups, err);
}

void pin_oci_close_host(struct pin_oci_host *host) {
    pin_close_fd(&host->root);
}

bool pin_oci_open_container(const struct pin_oci_options *options, const char *id, bool lock,
                            struct pin_oci_host *host, struct pin_container *container,
                            struct pin_error *err) {
    if (!pin_oci_open_host(options, host, err) || !pin_container_open(host->root, id, lock, container, err))
        return false;
    /* engines call with one environment now and another then */
    return container->audit_log == NULL || setenv("PINFOLD_AUDIT", container->audit_log, 1) == 0 ||
           pin_fail_errno(err, "name the audit log");
}

struct pin_bundle *pin_oci_read_config(const struct pin_container *container, struct pin_findings *found) {
    struct pin_error err = {0};
    size_t size;
    PIN_FREE char *text = pin_read_file_at(container->dir, "config.json", PIN_BUNDLE_BYTES_MAX, &size, &err);
    if (text == NULL) {
        pin_find_error(found, &err);
        return NULL;
    }
    struct pin_bundle *bundle = pin_bundle_parse("config.json", text, size, found);
    if (bundle != NULL)
        bundle->directory = container->bundle;
    return bundle;
}

/* A bind with the option alone has the container's own maps, as the specification lets us choose: podman's
 * `-v SOURCE:PLACE:idmap`. What has no user namespace, or one by path, is refused later. */
static void settle_idmaps(struct pin_bundle *bundle) {
    const struct pin_bundle_namespace *user = &bundle->namespaces[PIN_NS_USER];
    for (size_t i = 0; i < bundle->mount_count && user->present && user->path == NULL; i++) {
        struct pin_bundle_mount *mount = &bundle->mounts[i];
        if (mount->uid_map_count + mount->gid_map_count > 0 || !pin_bundle_mount_is_bind(mount) ||
            !(pin_bundle_mount_has(mount, "idmap") || pin_bundle_mount_has(mount, "ridmap")))
            continue;
        mount->uid_maps = bundle->uid_maps;
        mount->uid_map_count = bundle->uid_map_count;
        mount->gid_maps = bundle->gid_maps;
        mount->gid_map_count = bundle->gid_map_count;
    }
}

void pin_oci_settle(const struct pin_oci_options *options, struct pin_bundle *bundle) {
    settle_idmaps(bundle);
    char left_out[PIN_OCI_LEFT_OUT], text[PIN_OCI_LEFT_OUT + 128];
    pin_oci_settle_filter(&bundle->seccomp, left_out);
    if (left_out[0] == '\0')
        return;
    (void)snprintf(text, sizeof(text),
                   "ignoring rules for unknown system calls: [%s] (/linux/seccomp/syscalls)", left_out);
    pin_oci_warn(options, text);
}

void pin_oci_warn_of_plan(const struct pin_oci_options *options, const struct pin_plan *plan) {
    for (size_t i = 0; plan != NULL && i < plan->engine.unheeded_count; i++)
        pin_oci_warn(options, plan->engine.unheeded[i]);
}

static bool is_yes(const char *path) {
    char text[4] = "";
    PIN_CLOSE int fd = open(path, O_RDONLY | O_CLOEXEC);
    return fd >= 0 && read(fd, text, sizeof(text) - 1) > 0 && text[0] == 'Y';
}

void pin_oci_fill_request(const struct pin_oci_options *options, struct pin_engine_request *request) {
    long kept = 0;
    uint64_t mine = pin_own_capabilities().permitted;
    (void)pin_oci_parse_number(options->preserve_fds != NULL ? options->preserve_fds : "0", &kept);
    *request = (struct pin_engine_request){
        .no_pivot = options->no_pivot,
        .no_new_keyring = options->no_new_keyring,
        .kept_descriptors = (unsigned)kept,
        .capabilities = mine,
        .privileged = geteuid() == 0 && (mine & (UINT64_C(1) << CAP_SYS_ADMIN)) != 0,
        .apparmor = is_yes("/sys/module/apparmor/parameters/enabled"),
        .selinux = faccessat(AT_FDCWD, "/sys/fs/selinux/enforce", F_OK, 0) == 0,
    };
}

bool pin_oci_parse_number(const char *text, long *value) {
    char *end;
    errno = 0;
    if (!isdigit((unsigned char)text[0])) /* strtol(3) takes blanks and signs */
        return false;
    long number = strtol(text, &end, 10);
    if (errno != 0 || end == text || *end != '\0' || number < 0 || number > INT32_MAX)
        return false;
    *value = number;
    return true;
}

/* Whole or not at all: an engine waits for the file and reads it at once. */
bool pin_oci_write_pid(const char *path, pid_t pid, struct pin_error *err) {
    char made[PATH_MAX], text[24];
    if (path == NULL)
        return true;
    (void)snprintf(made, sizeof(made), "%s.new", path);
    int length = snprintf(text, sizeof(text), "%d", (int)pid);
    PIN_CLOSE int file = open(made, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0644);
    if (file < 0)
        return pin_fail_errno(err, "write the pid file '%s'", path);
    if (!pin_write_all(file, text, (size_t)length, err))
        (void)pin_wrap(err, "write the pid file '%s'", path);
    else if (rename(made, path) == 0 || pin_fail_errno(err, "write the pid file '%s'", path))
        return true;
    (void)unlink(made); /* the failure is told; what is left of it would only be in the way */
    return false;
}

/* What is frozen by version 1 dies only once it has thawed. */
static void kill_and_wait(int pidfd, struct pin_cgroup *group) {
    struct pollfd ended = {.fd = pidfd, .events = POLLIN};
    struct pin_error ignored = {0}; /* the group's own kill is the one that has to succeed */
    if (pidfd < 0)
        return;
    (void)syscall(SYS_pidfd_send_signal, pidfd, SIGKILL, NULL, 0);
    for (int i = 0; i < DIE_LOOKS; i++) { /* a pause that is under way may freeze it once more */
        if (group != NULL && pin_cgroup_is_frozen(group))
            (void)pin_cgroup_thaw(group, &ignored);
        if (poll(&ended, 1, DIE_LOOK_MS) != 0)
            return;
    }
}

/* *group: NULL where there is none; the caller frees it. */
static bool end_all(const struct pin_oci_host *host, const struct pin_container *container,
                    struct pin_cgroup **group, struct pin_error *err) {
    PIN_CLOSE int pidfd = pin_container_process(container);
    *group = pin_container_cgroup(container, &host->cgroups, err);
    kill_and_wait(pidfd, *group);
    if (pin_is_set(err))
        return false;
    return *group == NULL ||
           (pin_cgroup_kill(*group, err) && pin_cgroup_wait_empty(*group, 10 * PIN_NS_PER_S, err));
}

bool pin_oci_is_ending(const void *ending) {
    const struct pin_oci_ending *self = ending;
    return pin_container_is_ending(self->root, self->container);
}

bool pin_oci_end(const struct pin_oci_host *host, const struct pin_container *container,
                 struct pin_error *err) {
    PIN_CGROUP struct pin_cgroup *group = NULL;
    return end_all(host, container, &group, err);
}

bool pin_oci_clear(const struct pin_oci_options *options, struct pin_oci_host *host,
                   struct pin_container *container, struct pin_error *err) {
    PIN_CGROUP struct pin_cgroup *group = NULL;
    if (!end_all(host, container, &group, err) ||
        (group != NULL && !pin_cgroup_remove(group, 10 * PIN_NS_PER_S, err)))
        return false;
    struct pin_error hook = {0}; /* the container is gone all the same: runtime.md "Delete" */
    if (!pin_oci_ceiling_run_hooks(container, PIN_STATUS_STOPPED, PIN_HOOK_POSTSTOP, NULL, &hook))
        pin_oci_warn(options, hook.message);
    return pin_container_remove(host->root, container, err);
}
