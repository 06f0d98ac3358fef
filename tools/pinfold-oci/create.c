#include <errno.h>
#include <fcntl.h>
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/io.h"
#include "base/user_namespace.h"
#include "runtime/audit/log.h"
#include "runtime/build/channel.h"
#include "runtime/build/hooks.h"
#include "runtime/bundle/bundle_read.h"
#include "runtime/oci/start_socket.h"
#include "tools/pinfold-oci/audit.h"
#include "tools/pinfold-oci/ceiling.h"
#include "tools/pinfold-oci/common.h"
#include "tools/pinfold-oci/keeper.h"
#include "tools/pinfold-oci/listener.h"
#include "tools/pinfold-oci/log.h"
#include "tools/pinfold-oci/scope.h"
#include "tools/pinfold-oci/terminal.h"

struct creation { /* what one `create` or `run` owns */
    const struct pin_oci_options *options;
    struct pin_oci_host host;
    struct pin_container container;
    struct pin_bundle *bundle;
    struct pin_plan *plan;
    struct pin_sandbox sandbox;
    char *state; /* shared with the container until it is started: for hooks; NULL: there are none */
    char *told;  /* shared as well: what its seccomp agent is told; NULL: it has none */
    struct pin_policy *policy; /* above the bundle; NULL: none */
    struct pin_oci_scope scope;
    int start, console, terminal, listener;
};

static bool share_state(struct creation *creation, enum pin_status status, struct pin_error *err) {
    json_t *json = pin_container_state(&creation->container, status, false);
    PIN_FREE char *text = json_dumps(json, JSON_COMPACT);
    json_decref(json);
    if (text == NULL || strlen(text) >= PIN_OCI_SHARED_ROOM)
        return pin_fail(err, PIN_ERROR_INVALID, "the annotations are too long for the hooks");
    memcpy(creation->state, text, strlen(text) + 1);
    return true;
}

static bool run_hooks_outside(void *self, pid_t pid, struct pin_error *err) {
    struct creation *creation = self;
    const struct pin_oci_ending ending = {creation->host.root, &creation->container};
    const struct pin_hook_watch watch = {pin_oci_is_ending, &ending};
    if (!pin_container_set_process(&creation->container, pid, err) ||
        /* as other runtimes have it: for the old stage it is "created" already */
        !share_state(creation, PIN_STATUS_CREATED, err) ||
        !pin_hooks_run(creation->bundle, PIN_HOOK_PRESTART, creation->state, &watch, err) ||
        !share_state(creation, PIN_STATUS_CREATING, err) ||
        !pin_hooks_run(creation->bundle, PIN_HOOK_CREATE_RUNTIME, creation->state, &watch, err))
        return false;
    return share_state(creation, PIN_STATUS_CREATED, err);
}

static bool asks_for_limits(const struct pin_bundle_resources *asked) {
    return asked->has_memory || asked->has_swap || asked->has_reservation ||
           (asked->has_pids && asked->pids > 0) || asked->has_cpu_shares || asked->has_cpu_quota ||
           asked->has_blkio_weight || asked->cpuset_cpus != NULL || asked->cpuset_mems != NULL ||
           asked->unified_count > 0 || asked->hugepage_count > 0;
}

/* An ordinary user's engine names no group where it has none to give. */
static bool does_without_group(const struct creation *creation) {
    return (geteuid() != 0 || pin_in_user_namespace()) && creation->bundle->cgroups_path == NULL &&
           !asks_for_limits(&creation->bundle->resources);
}

static bool has_manager(const struct pin_oci_options *options, const char *name) {
    return options->cgroup_manager != NULL && strcmp(options->cgroup_manager, name) == 0;
}

static bool asks_systemd(const struct pin_oci_options *options) {
    return !has_manager(options, "disabled") && (options->systemd_cgroup || has_manager(options, "systemd"));
}

/* The group that the bundle names, from the top of the hierarchies; NULL: none, so that it is ours to choose.
 */
static const char *named_group(const struct creation *creation, const char *id, struct pin_error *err) {
    struct pin_arena *arena = &creation->bundle->arena;
    const char *asked = creation->bundle->cgroups_path;
    if (has_manager(creation->options, "disabled") || asked == NULL || asked[strspn(asked, "/")] == '\0')
        return NULL;
    return asks_systemd(creation->options) ? pin_oci_scope_place(asked, id, arena, err)
                                           : pin_arena_printf(arena, "/%s", asked + strspn(asked, "/"));
}

/* "slice:prefix:name" is systemd's; else a path below the hierarchies. */
static const char *choose_cgroup(struct creation *creation, struct pin_error *err) {
    const struct pin_bundle *bundle = creation->bundle;
    const char *asked = bundle->cgroups_path;
    if (has_manager(creation->options, "disabled"))
        return NULL;
    if (asks_systemd(creation->options))
        return pin_oci_scope_make(&creation->host.cgroups, bundle, creation->container.id, &creation->scope,
                                  err)
                   ? creation->scope.path
                   : NULL;
    if (does_without_group(creation))
        return NULL;
    if (asked == NULL || asked[strspn(asked, "/")] == '\0')
        return pin_arena_printf(&creation->container.arena, "pinfold-oci/%s", creation->container.id);
    return asked + strspn(asked, "/");
}

/* The bytes that were judged, and not the file once more: it may be another one by now. */
static bool copy_config(struct creation *creation, struct pin_error *err) {
    const struct pin_bundle *bundle = creation->bundle;
    PIN_CLOSE int copy =
        openat(creation->container.dir, "config.json", O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (copy < 0)
        return pin_fail_errno(err, "keep a copy of config.json");
    return pin_write_all(copy, bundle->text, bundle->text_size, err);
}

static void describe(struct creation *creation) {
    struct pin_container *container = &creation->container;
    const struct pin_bundle *bundle = creation->bundle;
    struct timespec now;
    struct tm parts;
    char text[40];
    (void)clock_gettime(CLOCK_REALTIME, &now);
    (void)strftime(text, sizeof(text), "%Y-%m-%dT%H:%M:%S", gmtime_r(&now.tv_sec, &parts));
    container->created = pin_arena_printf(&container->arena, "%s.%09ldZ", text, now.tv_nsec);
    container->bundle = bundle->directory;
    container->oci_version = bundle->oci_version;
    container->owner = geteuid() == 0 ? "root" : pin_arena_printf(&container->arena, "%u", geteuid());
    const char *root = bundle->root.path != NULL ? bundle->root.path : "";
    container->rootfs =
        root[0] == '/' ? root : pin_arena_printf(&container->arena, "%s/%s", bundle->directory, root);
    if (bundle->annotation_count == 0)
        return;
    container->annotations = json_object();
    for (size_t i = 0; i < bundle->annotation_count; i++)
        json_object_set_new(container->annotations, bundle->annotations[i].key,
                            json_string(bundle->annotations[i].value));
}

/* Without a group nobody holds it to a limit, nor keeps it from the host's devices, whose files root can
 * make. */
static bool admit_without_group(const struct creation *creation, struct pin_findings *found) {
    const struct pin_bundle *bundle = creation->bundle;
    bool opens_devices =
        !creation->policy->privileged && !bundle->namespaces[PIN_NS_USER].present && !pin_in_user_namespace();
    if (!has_manager(creation->options, "disabled") ||
        (!opens_devices && !asks_for_limits(&bundle->resources)))
        return true;
    return pin_find(found, PIN_ERROR_REFUSED, "--cgroup-manager",
                    "let the engine give the container a cgroup",
                    "'disabled' leaves nobody to keep the policy's limits%s",
                    opens_devices ? " and the container from the host's devices" : "");
}

/* A refusal that can't be recorded is refused all the same, and says so. */
static void record_refusal(const struct creation *creation, const char *id, struct pin_findings *found) {
    struct pin_error err = {0};
    if (!pin_oci_audit_refusal(creation->policy, creation->bundle, "create", id, found, &err))
        pin_find_error(found, &err);
}

/* The hierarchy that systemd keeps its units in: of version 1 where it has one there. */
static const char *own_group(const struct pin_cgroup_facts *cgroups) {
    const struct pin_cgroup_hierarchy *tree = &cgroups->tracking;
    if (tree->mount[0] == '\0' && cgroups->unified < 0)
        return NULL;
    if (tree->mount[0] == '\0')
        tree = &cgroups->hierarchies[cgroups->unified];
    return pin_cgroup_below_mount(tree, tree->own);
}

static bool admit(struct creation *creation, const char *id, struct pin_findings *found) {
    struct pin_error err = {0};
    if (!pin_oci_ceiling_choose(creation->options, creation->bundle, &creation->policy, found))
        return false;
    if (creation->policy == NULL)
        return true;
    const struct pin_oci_place place = {.systemd = asks_systemd(creation->options),
                                        .cgroup = named_group(creation, id, &err),
                                        .own = own_group(&creation->host.cgroups)};
    if (pin_is_set(&err))
        pin_find_error(found, &err);
    else if (pin_oci_ceiling_admit(creation->bundle, creation->policy, &place, found) &&
             admit_without_group(creation, found))
        return true;
    record_refusal(creation, id, found);
    return false;
}

static bool read_bundle(struct creation *creation, const char *id, struct pin_findings *found) {
    const char *asked = creation->options->bundle != NULL ? creation->options->bundle : ".";
    struct pin_engine_request request;
    creation->bundle = pin_bundle_read(asked, found);
    if (creation->bundle == NULL)
        return false;
    pin_oci_settle(creation->options, creation->bundle);
    if (!admit(creation, id, found))
        return false;
    pin_oci_fill_request(creation->options, &request);
    request.ceiling = creation->policy;
    creation->plan = pin_plan_make_for_engine(creation->bundle, &creation->host.host, &request, found);
    pin_oci_warn_of_plan(creation->options, creation->plan);
    return creation->plan != NULL;
}

/* The master of the terminal goes to the engine's socket, or to ourselves in the foreground. */
static bool open_console(struct creation *creation, bool foreground, struct pin_error *err) {
    const char *path = creation->options->console_socket;
    int ends[2];
    if (!creation->bundle->process.terminal)
        return path == NULL || path[0] == '\0' ||
               pin_fail(err, PIN_ERROR_USAGE, "cannot use console socket if the process has no terminal");
    if (path != NULL && path[0] != '\0') {
        creation->console = pin_console_connect(path, err);
        return creation->console >= 0;
    }
    if (!foreground)
        return pin_fail(err, PIN_ERROR_USAGE,
                        "cannot allocate tty if it will detach without setting console socket");
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0)
        return pin_fail_errno(err, "make a console socket");
    creation->terminal = ends[0];
    creation->console = ends[1];
    return true;
}

/* Only where something will be written to it: HOME needn't be there else. */
static bool choose_audit_log(struct creation *creation, struct pin_error *err) {
    char path[PATH_MAX];
    if (creation->policy == NULL || creation->policy->audit.record.count == 0)
        return true;
    if (!pin_audit_place(path, err))
        return pin_wrap(err, "write the audit log");
    creation->container.audit_log = pin_arena_strdup(&creation->container.arena, path);
    return true;
}

static bool prepare_listener(struct creation *creation, struct pin_error *err) {
    creation->listener = pin_oci_listener_open(creation->bundle, &creation->told, err);
    return !pin_is_set(err);
}

static bool prepare(struct creation *creation, const char *id, bool foreground, bool waits,
                    struct pin_error *err) {
    if (!open_console(creation, foreground, err) ||
        !pin_container_make(creation->host.root, id, &creation->container, err))
        return false;
    describe(creation);
    creation->container.cgroup = choose_cgroup(creation, err);
    /* written before anything is made, so that whoever finds it knows what to clear */
    if (pin_is_set(err) || !choose_audit_log(creation, err) || !copy_config(creation, err) ||
        !pin_oci_ceiling_keep(&creation->container, creation->policy, err) ||
        !pin_container_write(&creation->container, err) || !prepare_listener(creation, err))
        return false;
    if (waits && (creation->start = pin_start_socket_listen(creation->container.dir, err)) < 0)
        return false;
    return !pin_bundle_has_hooks(creation->bundle) || (creation->state = pin_oci_share(err)) != NULL;
}

/* What the seccomp agent is told with the listener. */
static bool tell_agent(struct creation *creation, struct pin_error *err) {
    if (creation->told == NULL)
        return true;
    json_t *state = pin_container_state(&creation->container, PIN_STATUS_CREATED, false);
    return pin_oci_listener_tell(creation->bundle, state, creation->sandbox.init, creation->told, err);
}

static bool record(const struct creation *creation, const char *event, struct pin_error *err) {
    return !pin_oci_audit_records(creation->policy, "lifecycle") ||
           pin_oci_audit_write(event, creation->container.id, creation->bundle,
                               pin_oci_audit_describe(creation->policy, creation->bundle), err);
}

static bool start_keeper(struct creation *creation, struct pin_error *err) {
    const struct pin_oci_keeping keeping = {
        .id = creation->container.id,
        .bundle = creation->bundle,
        .policy = creation->policy,
        .process = creation->sandbox.pidfd,
        .sockets = &creation->sandbox.egress,
    };
    return pin_oci_keeper_start(&keeping, err);
}

static bool build(struct creation *creation, struct pin_error *err) {
    const char *cgroup = creation->container.cgroup;
    struct pin_cgroup_facts cgroups = creation->host.cgroups;
    bool top = cgroup != NULL && cgroup[0] == '/';
    if (top)
        pin_cgroup_facts_at_top(&cgroups);
    struct pin_engine_build engine = {
        .cgroup_path = top ? cgroup + 1 : cgroup,
        .container = -1,
        .cgroup_space = -1,
        .start = creation->start,
        .console = creation->console,
        .listener = creation->listener,
        .told = creation->told,
        .state = creation->state,
        .before_pivot = creation->state != NULL ? run_hooks_outside : NULL,
        .self = creation,
    };
    struct pin_build_input input = {
        .plan = creation->plan, .cgroups = &cgroups, .engine = &engine, .watch = PIN_WATCH_NONE};
    bool built = pin_build(&input, &creation->sandbox, err);
    pin_oci_scope_release(&creation->scope);
    if (!built)
        return false;
    return pin_container_set_process(&creation->container, creation->sandbox.init, err) &&
           pin_container_write(&creation->container, err) && tell_agent(creation, err) &&
           record(creation, "create", err) && start_keeper(creation, err) &&
           pin_oci_write_pid(creation->options->pid_file, creation->sandbox.init, err);
}

static bool create(struct creation *creation, const char *id, bool foreground, bool waits,
                   struct pin_findings *found) {
    struct pin_error err = {0};
    if (pin_oci_open_host(creation->options, &creation->host, &err) && read_bundle(creation, id, found) &&
        prepare(creation, id, foreground, waits, &err) && build(creation, &err))
        return true;
    if (pin_is_set(&err))
        pin_find_error(found, &err);
    struct pin_error later = {0}; /* the first cause is the one to tell */
    /* what can't be taken apart keeps its name: `delete --force` clears it then */
    if (pin_sandbox_destroy(&creation->sandbox, &later) && creation->container.dir >= 0)
        (void)pin_container_remove(creation->host.root, &creation->container, &later);
    return false;
}

static void forget(struct creation *creation) {
    pin_close_fd(&creation->start);
    pin_close_fd(&creation->console);
    pin_close_fd(&creation->terminal);
    pin_close_fd(&creation->sandbox.control);
    pin_close_fd(&creation->listener);
    pin_oci_unshare(creation->state);
    pin_oci_unshare(creation->told);
    pin_policy_free(creation->policy);
    pin_oci_scope_release(&creation->scope);
    pin_plan_free(creation->plan);
    pin_container_close(&creation->container);
    pin_bundle_free(creation->bundle);
    pin_oci_close_host(&creation->host);
}

#define CREATION(given)                                                                                      \
    {                                                                                                        \
        .options = (given), .host = PIN_OCI_HOST_NONE, .container = PIN_CONTAINER_NONE,                      \
        .sandbox = PIN_SANDBOX_NONE, .start = -1, .console = -1, .terminal = -1, .listener = -1              \
    }

int pin_oci_create(const struct pin_oci_options *options, char **arguments, size_t count) {
    static struct pin_findings found;
    struct creation creation = CREATION(options);
    struct pin_error err = {0};
    int code = 0;
    (void)count;
    if (!create(&creation, arguments[0], false, true, &found))
        code = pin_oci_fail_findings(options, &found);
    else if (!pin_sandbox_keep(&creation.sandbox, &err))
        code = pin_oci_fail(options, &err);
    forget(&creation);
    return code;
}

static bool run_poststart(struct creation *creation, struct pin_error *err) {
    if (creation->state == NULL)
        return true;
    struct pin_container *container = &creation->container;
    json_t *json = pin_container_state(container, PIN_STATUS_RUNNING, false);
    PIN_FREE char *text = json_dumps(json, JSON_COMPACT);
    json_decref(json);
    const struct pin_oci_ending ending = {creation->host.root, container};
    const struct pin_hook_watch watch = {pin_oci_is_ending, &ending};
    return pin_hooks_run(creation->bundle, PIN_HOOK_POSTSTART, text != NULL ? text : "{}", &watch, err);
}

static int take_code(struct creation *creation, pid_t pid) {
    /* our child, and not reaped: the number is its own, also when it has ended already */
    PIN_CLOSE int pidfd = (int)syscall(SYS_pidfd_open, pid, 0);
    return pin_oci_wait(pid, pidfd, creation->terminal >= 0 ? pin_oci_take_master(creation->terminal) : -1);
}

/* In the foreground nobody need delete it, but somebody may. */
static void clear(struct creation *creation) {
    struct pin_error err = {0};
    if ((!pin_container_lock(creation->host.root, &creation->container, &err) ||
         !pin_oci_clear(creation->options, &creation->host, &creation->container, &err)) &&
        err.kind != PIN_ERROR_NOT_FOUND)
        (void)pin_oci_fail(creation->options, &err);
}

static int run_in_foreground(struct creation *creation, pid_t pid) {
    pin_close_fd(&creation->console);
    int code = take_code(creation, pid);
    if (!creation->options->keep)
        clear(creation);
    return code;
}

int pin_oci_run(const struct pin_oci_options *options, char **arguments, size_t count) {
    static struct pin_findings found;
    struct creation creation = CREATION(options);
    struct pin_error err = {0};
    int code;
    (void)count;
    if (!options->detach)
        pin_oci_hold_signals();
    bool made = create(&creation, arguments[0], !options->detach, false, &found);
    pid_t pid = creation.container.pid;
    if (!made)
        code = pin_oci_fail_findings(options, &found);
    else if (!record(&creation, "start", &err) || !pin_sandbox_keep(&creation.sandbox, &err) ||
             !pin_channel_take_execution(creation.sandbox.control, &err) || !run_poststart(&creation, &err)) {
        code = pin_oci_fail(options, &err);
        clear(&creation);
    } else {
        code = options->detach ? 0 : run_in_foreground(&creation, pid);
    }
    forget(&creation);
    return code;
}
