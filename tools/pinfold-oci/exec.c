#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <linux/nsfs.h>

#include "base/cleanup.h"
#include "base/io.h"
#include "base/names.h"
#include "policy/policy.h"
#include "runtime/build/channel.h"
#include "runtime/bundle/bundle_read.h"
#include "runtime/oci/start_socket.h"
#include "tools/pinfold-oci/audit.h"
#include "tools/pinfold-oci/ceiling.h"
#include "tools/pinfold-oci/common.h"
#include "tools/pinfold-oci/listener.h"
#include "tools/pinfold-oci/log.h"
#include "tools/pinfold-oci/terminal.h"

struct execution { /* what one `exec` owns */
    const struct pin_oci_options *options;
    struct pin_oci_host host;
    struct pin_container container;
    struct pin_cgroup *group;
    struct pin_bundle *bundle;
    struct pin_plan *plan;
    struct pin_sandbox sandbox;
    struct pin_policy *policy; /* that the container was made under; NULL: none */
    char *told;                /* see listener.h */
    int pidfd, console, terminal, listener;
};

static bool read_process(struct execution *self, struct pin_findings *found) {
    const char *path = self->options->process;
    struct pin_error err = {0};
    size_t size;
    PIN_FREE char *text = pin_read_file_at(AT_FDCWD, path, PIN_BUNDLE_BYTES_MAX, &size, &err);
    if (text == NULL) {
        pin_find_error(found, &err);
        return false;
    }
    memset(&self->bundle->process, 0, sizeof(self->bundle->process));
    return pin_bundle_parse_process(self->bundle, path, text, size, found);
}

/* Decimal digits alone, up to `end`. The highest number means "as it is" to setresuid(2): it would be root.
 */
static bool parse_id(const char *text, const char *end, uint32_t *id) {
    uint64_t number = 0;
    bool any = text < end;
    for (; text < end && *text >= '0' && *text <= '9' && number < UINT32_MAX; text++)
        number = number * 10 + (uint64_t)(*text - '0');
    if (!any || text != end || number >= UINT32_MAX)
        return false;
    *id = (uint32_t)number;
    return true;
}

static bool set_user(struct execution *self, struct pin_error *err) {
    const char *user = self->options->user;
    struct pin_bundle *bundle = self->bundle;
    if (user == NULL)
        return true;
    const char *colon = strchr(user, ':');
    if (!parse_id(user, user + strcspn(user, ":"), &bundle->process.uid) ||
        (colon != NULL && !parse_id(colon + 1, user + strlen(user), &bundle->process.gid)))
        return pin_fail(err, PIN_ERROR_USAGE, "parsing user \"%.40s\": UID[:GID] is needed", user);
    return true;
}

static bool add_groups(struct execution *self, struct pin_error *err) {
    const struct pin_oci_list *list = &self->options->additional_gids;
    for (size_t i = 0; i < list->count; i++) {
        uint32_t gid;
        if (!parse_id(list->items[i], list->items[i] + strlen(list->items[i]), &gid))
            return pin_fail(err, PIN_ERROR_USAGE, "parsing group \"%.40s\"", list->items[i]);
        uint32_t *groups =
            pin_arena_array(&self->bundle->arena, self->bundle->process.group_count + 1, sizeof(*groups));
        if (self->bundle->process.group_count > 0)
            memcpy(groups, self->bundle->process.groups, self->bundle->process.group_count * sizeof(*groups));
        groups[self->bundle->process.group_count++] = gid;
        self->bundle->process.groups = groups;
    }
    return true;
}

static bool add_capabilities(struct execution *self, struct pin_error *err) {
    const struct pin_oci_list *list = &self->options->cap;
    for (size_t i = 0; i < list->count; i++) {
        int number = pin_capability_find(list->items[i]);
        if (number < 0)
            return pin_fail(err, PIN_ERROR_USAGE, "unknown capability \"%.40s\"", list->items[i]);
        for (int set = 0; set < PIN_CAP_SET_COUNT; set++)
            if (set != PIN_CAP_AMBIENT && set != PIN_CAP_INHERITABLE)
                self->bundle->process.capabilities[set] |= UINT64_C(1) << number;
    }
    return true;
}

static void add_environment(struct execution *self) {
    const struct pin_oci_list *list = &self->options->env;
    size_t before = self->bundle->process.env_count;
    const char **env = pin_arena_array(&self->bundle->arena, before + list->count + 1, sizeof(*env));
    for (size_t i = 0; i < before; i++)
        env[i] = self->bundle->process.env[i];
    for (size_t i = 0; i < list->count; i++)
        env[before + i] = list->items[i];
    self->bundle->process.env = env;
    self->bundle->process.env_count = before + list->count;
}

static bool override_process(struct execution *self, char **command, size_t count, struct pin_error *err) {
    const struct pin_oci_options *options = self->options;
    if (count > 0) {
        self->bundle->process.args = pin_arena_array(&self->bundle->arena, count, sizeof(char *));
        for (size_t i = 0; i < count; i++)
            self->bundle->process.args[i] = command[i];
        self->bundle->process.arg_count = count;
        self->bundle->process.terminal = false;
    } else if (options->process == NULL) {
        return pin_fail(err, PIN_ERROR_USAGE, "process args cannot be empty");
    }
    if (options->cgroup != NULL)
        return pin_fail(err, PIN_ERROR_UNSUPPORTED, "exec --cgroup is not offered");
    if (options->tty)
        self->bundle->process.terminal = true;
    if (options->cwd != NULL)
        self->bundle->process.cwd = options->cwd;
    if (options->no_new_privs)
        self->bundle->process.no_new_privileges = true;
    if (options->apparmor != NULL)
        self->bundle->process.apparmor_profile = options->apparmor;
    if (options->process_label != NULL)
        self->bundle->process.selinux_label = options->process_label;
    add_environment(self);
    return set_user(self, err) && add_groups(self, err) && add_capabilities(self, err);
}

static bool check_status(struct execution *self, struct pin_error *err) {
    switch (pin_container_status(&self->container, &self->host.cgroups)) {
    case PIN_STATUS_RUNNING:
    case PIN_STATUS_CREATED: return true;
    case PIN_STATUS_PAUSED:
        if (!self->options->ignore_paused)
            return pin_fail(err, PIN_ERROR_INVALID, "cannot exec in a paused container");
        pin_close_fd(&self->container.lock); /* it waits for the thaw, and `resume` would wait for us */
        return true;
    case PIN_STATUS_CREATING:
    case PIN_STATUS_STOPPED:
    case PIN_STATUS_COUNT: break;
    }
    return pin_fail(err, PIN_ERROR_INVALID, "cannot exec in a stopped container: container not running");
}

/* Those of the container's namespaces that aren't ours: to join one's own user namespace is an error. */
static uint64_t find_joins(pid_t pid) {
    static const struct {
        const char *name;
        uint64_t flag;
    } rows[] = {
        {"user",   CLONE_NEWUSER           },
        {"mnt",    CLONE_NEWNS             },
        {"pid",    CLONE_NEWPID            },
        {"net",    CLONE_NEWNET            },
        {"ipc",    CLONE_NEWIPC            },
        {"uts",    CLONE_NEWUTS            },
        {"cgroup", CLONE_NEWCGROUP         },
        {"time",   0x80 /* CLONE_NEWTIME */},
    };
    uint64_t joins = 0;
    for (size_t i = 0; i < PIN_COUNT(rows); i++) {
        char ours[64], theirs[64];
        struct stat own, other;
        (void)snprintf(ours, sizeof(ours), "/proc/self/ns/%s", rows[i].name);
        (void)snprintf(theirs, sizeof(theirs), "/proc/%d/ns/%s", (int)pid, rows[i].name);
        if (stat(ours, &own) == 0 && stat(theirs, &other) == 0 && own.st_ino != other.st_ino)
            joins |= rows[i].flag;
    }
    return joins;
}

/* The container's cgroup namespace, where a process that is in the container's user namespace may enter it:
 * then nothing but the process that was asked for is ever in the container's group, which may have no room
 * for more. -1: there is none, or the namespaces have to be entered together. The process is looked at last:
 * until then its number was its own. */
static int open_cgroup_space(pid_t pid, int pidfd, uint64_t joins) {
    char path[64];
    struct stat owner, users;
    struct pollfd ended = {.fd = pidfd, .events = POLLIN};
    (void)snprintf(path, sizeof(path), "/proc/%d/ns/cgroup", (int)pid);
    PIN_CLOSE int space = (joins & CLONE_NEWCGROUP) != 0 ? open(path, O_RDONLY | O_CLOEXEC) : -1;
    PIN_CLOSE int owning = space >= 0 ? ioctl(space, NS_GET_USERNS) : -1;
    (void)snprintf(path, sizeof(path), "/proc/%d/ns/user", (int)pid);
    if (owning < 0 || fstat(owning, &owner) != 0 || stat(path, &users) != 0 || owner.st_dev != users.st_dev ||
        owner.st_ino != users.st_ino || poll(&ended, 1, 0) != 0)
        return -1;
    return pin_steal_fd(&space);
}

static bool open_console(struct execution *self, struct pin_error *err) {
    const char *path = self->options->console_socket;
    int ends[2];
    if (!self->bundle->process.terminal)
        return path == NULL || path[0] == '\0' ||
               pin_fail(err, PIN_ERROR_USAGE, "cannot use console socket if the process has no terminal");
    if (path != NULL && path[0] != '\0') {
        self->console = pin_console_connect(path, err);
        return self->console >= 0;
    }
    if (self->options->detach)
        return pin_fail(err, PIN_ERROR_USAGE,
                        "cannot allocate tty if it will detach without setting console socket");
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0)
        return pin_fail_errno(err, "make a console socket");
    self->terminal = ends[0];
    self->console = ends[1];
    return true;
}

/* The ceiling of the container is that of each process in it. */
static bool admit(struct execution *self, struct pin_findings *found) {
    self->policy = pin_oci_ceiling_kept(&self->container, found);
    if (self->policy == NULL)
        return !pin_found_any(found);
    memset(self->bundle->hook_count, 0,
           sizeof(self->bundle->hook_count)); /* they were judged, and have run */
    const struct pin_oci_place none = {0};    /* its group is there */
    if (pin_oci_ceiling_admit(self->bundle, self->policy, &none, found))
        return true;
    struct pin_error err = {0};
    if (!pin_oci_audit_refusal(self->policy, self->bundle, "exec", self->container.id, found, &err))
        pin_find_error(found, &err);
    return false;
}

static bool record(const struct execution *self, struct pin_error *err) {
    return !pin_oci_audit_records(self->policy, "lifecycle") ||
           pin_oci_audit_write("exec", self->container.id, self->bundle,
                               pin_oci_audit_describe(self->policy, self->bundle), err);
}

static bool tell_agent(const struct execution *self, struct pin_error *err) {
    return self->told == NULL ||
           pin_oci_listener_tell(self->bundle,
                                 pin_container_state(&self->container, PIN_STATUS_RUNNING, false),
                                 self->sandbox.init, self->told, err);
}

static bool plan(struct execution *self, char **command, size_t count, struct pin_findings *found) {
    struct pin_engine_request request;
    struct pin_error err = {0};
    self->bundle = pin_oci_read_config(&self->container, found);
    if (self->bundle == NULL || (self->options->process != NULL && !read_process(self, found)))
        return false;
    if (!override_process(self, command, count, &err) || !open_console(self, &err)) {
        pin_find_error(found, &err);
        return false;
    }
    pin_oci_settle(self->options, self->bundle);
    if (!admit(self, found))
        return false;
    self->listener = pin_oci_listener_open(self->bundle, &self->told, &err);
    if (pin_is_set(&err)) {
        pin_find_error(found, &err);
        return false;
    }
    pin_oci_fill_request(self->options, &request);
    request.ceiling = self->policy;
    request.joins_container = true;
    self->plan = pin_plan_make_for_engine(self->bundle, &self->host.host, &request, found);
    pin_oci_warn_of_plan(self->options, self->plan);
    return self->plan != NULL;
}

static bool execute(struct execution *self, struct pin_error *err) {
    uint64_t joins = find_joins(self->container.pid);
    PIN_CLOSE int cgroup_space = open_cgroup_space(self->container.pid, self->pidfd, joins);
    struct pin_engine_build engine = {
        .joins_group = self->group,
        .container = self->pidfd,
        .joins = cgroup_space >= 0 ? joins & ~(uint64_t)CLONE_NEWCGROUP : joins,
        .cgroup_space = cgroup_space,
        .start = -1,
        .console = self->console,
        .listener = self->listener,
        .told = self->told,
    };
    struct pin_build_input input = {
        .plan = self->plan, .cgroups = &self->host.cgroups, .engine = &engine, .watch = PIN_WATCH_NONE};
    return pin_build(&input, &self->sandbox, err) && tell_agent(self, err) && record(self, err) &&
           pin_oci_write_pid(self->options->pid_file, self->sandbox.init, err);
}

static int wait_for(struct execution *self, pid_t pid, int pidfd) {
    pin_close_fd(&self->console);
    return pin_oci_wait(pid, pidfd, self->terminal >= 0 ? pin_oci_take_master(self->terminal) : -1);
}

static int let_go(struct execution *self) {
    struct pin_error err = {0};
    pid_t pid = self->sandbox.init;
    PIN_CLOSE int pidfd = fcntl(self->sandbox.pidfd, F_DUPFD_CLOEXEC, 3);
    if (!pin_sandbox_keep(&self->sandbox, &err) || !pin_channel_take_execution(self->sandbox.control, &err))
        return pin_oci_fail(self->options, &err) == 0 ? 0 : 255;
    pin_close_fd(&self->container.lock); /* others may go on: what was to be decided together is decided */
    return self->options->detach ? 0 : wait_for(self, pid, pidfd);
}

static void forget(struct execution *self) {
    struct pin_error ignored = {0};
    if (self->sandbox.init > 0)
        (void)pin_sandbox_destroy(&self->sandbox, &ignored);
    pin_close_fd(&self->sandbox.control);
    pin_close_fd(&self->console);
    pin_close_fd(&self->terminal);
    pin_close_fd(&self->pidfd);
    pin_close_fd(&self->listener);
    pin_oci_unshare(self->told);
    pin_policy_free(self->policy);
    pin_cgroup_free(self->group);
    pin_plan_free(self->plan);
    pin_bundle_free(self->bundle);
    pin_container_close(&self->container);
    pin_oci_close_host(&self->host);
}

int pin_oci_exec(const struct pin_oci_options *options, char **arguments, size_t count) {
    static struct pin_findings found;
    struct pin_error err = {0};
    struct execution self = {.options = options,
                             .host = PIN_OCI_HOST_NONE,
                             .container = PIN_CONTAINER_NONE,
                             .sandbox = PIN_SANDBOX_NONE,
                             .pidfd = -1,
                             .console = -1,
                             .terminal = -1,
                             .listener = -1};
    if (!options->detach)
        pin_oci_hold_signals();
    bool ok = pin_oci_open_container(options, arguments[0], true, &self.host, &self.container, &err) &&
              check_status(&self, &err);
    if (ok) {
        self.pidfd = pin_container_process(&self.container);
        self.group = pin_container_cgroup(&self.container, &self.host.cgroups, &err);
        ok = self.pidfd >= 0 ? !pin_is_set(&err) : pin_fail(&err, PIN_ERROR_INVALID, "container not running");
    }
    ok = ok && plan(&self, arguments + 1, count - 1, &found) && execute(&self, &err);
    int code = ok ? let_go(&self) : 255;
    if (!ok)
        (void)(pin_is_set(&err) ? pin_oci_fail(options, &err) : pin_oci_fail_findings(options, &found));
    forget(&self);
    return code;
}
