#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/names.h"
#include "base/units.h"
#include "runtime/oci/processes.h"
#include "runtime/oci/start_socket.h"
#include "tools/pinfold-oci/audit.h"
#include "tools/pinfold-oci/ceiling.h"
#include "tools/pinfold-oci/common.h"
#include "tools/pinfold-oci/log.h"

/* What a verb does with a container that is open, and locked unless it can do without. */
typedef bool action(const struct pin_oci_options *options, struct pin_oci_host *host,
                    struct pin_container *container, const char *argument, struct pin_error *err);

static int act(const struct pin_oci_options *options, const char *id, const char *argument, bool lock,
               action *perform) {
    struct pin_oci_host host = PIN_OCI_HOST_NONE;
    struct pin_container container = PIN_CONTAINER_NONE;
    struct pin_error err = {0};
    bool ok = pin_oci_open_container(options, id, lock, &host, &container, &err) &&
              perform(options, &host, &container, argument, &err);
    pin_container_close(&container);
    pin_oci_close_host(&host);
    return ok ? 0 : pin_oci_fail(options, &err);
}

static bool record_start(const struct pin_container *container, struct pin_error *err) {
    static struct pin_findings found;
    struct pin_policy *policy = pin_oci_ceiling_kept(container, &found);
    bool ok = !pin_found_any(&found) || pin_fail_findings(err, &found);
    if (ok && pin_oci_audit_records(policy, "lifecycle"))
        ok = pin_oci_audit_write("start", container->id, NULL, pin_oci_audit_describe(policy, NULL), err);
    pin_policy_free(policy);
    return ok;
}

static bool run_poststart(const struct pin_oci_host *host, const struct pin_container *container,
                          struct pin_error *err) {
    const struct pin_oci_ending ending = {host->root, container};
    const struct pin_hook_watch watch = {pin_oci_is_ending, &ending};
    struct pin_error later = {0}; /* the first cause is the one to tell */
    if (pin_oci_ceiling_run_hooks(container, PIN_STATUS_RUNNING, PIN_HOOK_POSTSTART, &watch, err))
        return true;
    (void)pin_oci_end(host, container, &later);
    return false;
}

static bool start(const struct pin_oci_options *options, struct pin_oci_host *host,
                  struct pin_container *container, const char *argument, struct pin_error *err) {
    (void)options;
    (void)argument;
    switch (pin_container_status(container, &host->cgroups)) {
    case PIN_STATUS_CREATED: break;
    case PIN_STATUS_STOPPED:
        return pin_fail(err, PIN_ERROR_INVALID, "cannot start a container that has stopped");
    case PIN_STATUS_PAUSED: return pin_fail(err, PIN_ERROR_INVALID, "cannot start a paused container");
    case PIN_STATUS_CREATING:
    case PIN_STATUS_RUNNING:
    case PIN_STATUS_COUNT: return pin_fail(err, PIN_ERROR_BUSY, "cannot start an already running container");
    }
    return record_start(container, err) && pin_start_socket_start(container->dir, err) &&
           run_poststart(host, container, err);
}

int pin_oci_start(const struct pin_oci_options *options, char **arguments, size_t count) {
    (void)count;
    return act(options, arguments[0], NULL, true, start);
}

/* 9, KILL, SIGKILL, RTMIN+3 */
static int parse_signal(const char *text) {
    long number;
    if (text == NULL)
        return SIGTERM;
    if (isdigit((unsigned char)text[0]))
        return pin_oci_parse_number(text, &number) && number < NSIG ? (int)number : -1;
    const char *name = strncasecmp(text, "SIG", 3) == 0 ? text + 3 : text;
    if (strncasecmp(name, "RTMIN+", 6) == 0 && pin_oci_parse_number(name + 6, &number) &&
        number <= SIGRTMAX - SIGRTMIN)
        return SIGRTMIN + (int)number;
    for (int at = 1; at < NSIG; at++) {
        const char *known = sigabbrev_np(at);
        if (known != NULL && strcasecmp(known, name) == 0)
            return at;
    }
    return -1;
}

static bool signal_all(const struct pin_oci_host *host, const struct pin_container *container, int number,
                       struct pin_error *err) {
    PIN_CGROUP struct pin_cgroup *group = pin_container_cgroup(container, &host->cgroups, err);
    if (group == NULL)
        return !pin_is_set(err);
    return number == SIGKILL ? pin_cgroup_kill(group, err) : pin_processes_signal(group, number, err);
}

/* On version 1 what is frozen doesn't even die of a KILL before it is thawed. */
static bool let_die(const struct pin_oci_host *host, const struct pin_container *container,
                    struct pin_error *err) {
    if (pin_container_status(container, &host->cgroups) != PIN_STATUS_PAUSED)
        return true;
    PIN_CGROUP struct pin_cgroup *group = pin_container_cgroup(container, &host->cgroups, err);
    return group != NULL ? pin_cgroup_thaw(group, err) : !pin_is_set(err);
}

static bool send_signal(const struct pin_oci_options *options, struct pin_oci_host *host,
                        struct pin_container *container, const char *argument, struct pin_error *err) {
    int number = parse_signal(argument);
    if (number < 0)
        return pin_fail(err, PIN_ERROR_USAGE, "unknown signal \"%.32s\"", argument);
    if (options->all && container->cgroup != NULL)
        return signal_all(host, container, number, err);
    PIN_CLOSE int pidfd = pin_container_process(container);
    if (pidfd < 0)
        return pin_fail(err, PIN_ERROR_INVALID, "container not running");
    if (syscall(SYS_pidfd_send_signal, pidfd, number, NULL, 0) == 0)
        return number != SIGKILL || let_die(host, container, err);
    return errno == ESRCH ? pin_fail(err, PIN_ERROR_INVALID, "process already finished")
                          : pin_fail_errno(err, "signal the container");
}

/* A process is told by its pidfd, and is nobody else's whatever happens meanwhile: then a `start` that waits
 * for it, or for a hook, keeps nobody from ending it. A group is found by its name, which needs the lock. */
int pin_oci_kill(const struct pin_oci_options *options, char **arguments, size_t count) {
    return act(options, arguments[0], count > 1 ? arguments[1] : NULL, options->all, send_signal);
}

static bool delete (const struct pin_oci_options *options, struct pin_oci_host *host,
                    struct pin_container *container, const char *argument, struct pin_error *err) {
    enum pin_status status = pin_container_status(container, &host->cgroups);
    (void)argument;
    if (!options->force && status != PIN_STATUS_STOPPED && status != PIN_STATUS_CREATED)
        return pin_fail(err, PIN_ERROR_BUSY, "cannot delete container %s that is not stopped: %s",
                        container->id, pin_status_name(status));
    return pin_oci_clear(options, host, container, err);
}

/* Its process isn't known any more; its group is, and with it all that the process has started. */
static bool clear_damaged(const struct pin_oci_options *options, struct pin_oci_host *host,
                          struct pin_container *container, struct pin_error *err) {
    memset(err, 0, sizeof(*err));
    if (container->cgroup == NULL)
        pin_oci_warn(
            options,
            "the state can't be read, and there is no cgroup: a process that still runs is not found");
    return pin_oci_clear(options, host, container, err);
}

/* Who has the lock may wait for the process, as `start` does, or for a hook: then that has to end first. The
 * result is open until the lock is ours. */
static int end_what_is_waited_for(const struct pin_oci_options *options, const char *id) {
    struct pin_oci_host host = PIN_OCI_HOST_NONE;
    struct pin_container container = PIN_CONTAINER_NONE;
    struct pin_error none = {0}; /* whatever it is, the removal itself tells it */
    int announced = -1;
    if (pin_oci_open_container(options, id, false, &host, &container, &none)) {
        announced = pin_container_announce_end(&container);
        if (pin_container_is_held(&container))
            (void)send_signal(options, &host, &container, "KILL", &none);
    }
    pin_container_close(&container);
    pin_oci_close_host(&host);
    return announced;
}

int pin_oci_delete(const struct pin_oci_options *options, char **arguments, size_t count) {
    struct pin_oci_host host = PIN_OCI_HOST_NONE;
    struct pin_container container = PIN_CONTAINER_NONE;
    struct pin_error err = {0};
    (void)count;
    bool ok;
    PIN_CLOSE int announced = options->force ? end_what_is_waited_for(options, arguments[0]) : -1;
    bool opened = pin_oci_open_container(options, arguments[0], true, &host, &container, &err);
    pin_close_fd(&announced); /* the next in line is another's */
    if (opened)
        ok = delete (options, &host, &container, NULL, &err);
    else if (options->force && err.kind == PIN_ERROR_SYNTAX)
        ok = clear_damaged(options, &host, &container, &err);
    else
        ok = options->force && err.kind == PIN_ERROR_NOT_FOUND; /* it is gone: what was asked for */
    pin_container_close(&container);
    pin_oci_close_host(&host);
    return ok ? 0 : pin_oci_fail(options, &err);
}

static bool freeze(const struct pin_oci_options *options, struct pin_oci_host *host,
                   struct pin_container *container, const char *argument, struct pin_error *err) {
    enum pin_status status = pin_container_status(container, &host->cgroups);
    bool stop = argument != NULL;
    (void)options;
    if (stop ? status != PIN_STATUS_RUNNING && status != PIN_STATUS_CREATED : status != PIN_STATUS_PAUSED)
        return pin_fail(err, PIN_ERROR_INVALID, "container not %s: %s", stop ? "running" : "paused",
                        pin_status_name(status));
    PIN_CGROUP struct pin_cgroup *group = pin_container_cgroup(container, &host->cgroups, err);
    if (group == NULL)
        return pin_is_set(err) ? false
                               : pin_fail(err, PIN_ERROR_UNSUPPORTED, "the container is in no cgroup");
    return stop ? pin_cgroup_freeze(group, 10 * PIN_NS_PER_S, err) : pin_cgroup_thaw(group, err);
}

int pin_oci_pause(const struct pin_oci_options *options, char **arguments, size_t count) {
    (void)count;
    return act(options, arguments[0], "", true, freeze);
}

int pin_oci_resume(const struct pin_oci_options *options, char **arguments, size_t count) {
    (void)count;
    return act(options, arguments[0], NULL, true, freeze);
}
