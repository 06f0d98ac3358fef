#include "runtime/build/build.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <linux/sched.h>

#include "base/cleanup.h"
#include "base/io.h"
#include "base/names.h"
#include "base/sealed.h"
#include "base/units.h"
#include "base/user_namespace.h"
#include "runtime/build/ahead.h"
#include "runtime/build/cgroup/oci.h"
#include "runtime/build/channel.h"
#include "runtime/build/dispositions.h"
#include "runtime/build/idmap.h"
#include "runtime/build/inside.h"
#include "runtime/build/network.h"
#include "runtime/build/seccomp/cache.h"
#include "runtime/build/sources.h"
#include "runtime/build/watch.h"
#include "runtime/init/image.h"

#define REMOVE_WITHIN_NS (10 * PIN_NS_PER_S) /* for dying processes */
#define DIE_WITHIN_MS 15000

/* A copy that nobody can write, and that isn't a file of the host's: /proc/1/exe leads nowhere. */
static int seal_init(struct pin_error *err) {
    int fd = pin_sealed_program("pinfold-init", pin_init_image, pin_init_image_size, err);
    if (fd < 0)
        (void)pin_wrap(err, "make the copy of init");
    return fd;
}

struct shared_program {
    struct pin_program program;
    struct sock_filter code[PIN_PROGRAM_MAX];
};

struct pin_shared_programs {
    struct shared_program own, ceiling; /* the bundle's, and that of the policy above it */
    uint64_t ignored;                   /* set of signals */
};

/* From within the namespaces of others, where the container shares some. */
static bool start_joining(const struct pin_inside *inside, int our_end, int unified,
                          struct pin_sandbox *sandbox, struct pin_error *err) {
    const struct pin_plan *plan = inside->plan;
    int pidfd = -1;
    pid_t pid = pin_engine_clone(plan, inside->engine, plan->clone_flags & ~(uint64_t)CLONE_NEWCGROUP,
                                 unified, &pidfd, err);
    if (pid == 0) {
        (void)close(our_end);
        pin_inside_run(inside);
    }
    sandbox->init = pid > 0 ? pid : 0;
    sandbox->pidfd = pidfd;
    return pid > 0;
}

struct birth {
    struct pin_inside *inside;
    int our_end;
};

static void be_born(void *self) {
    const struct birth *birth = self;
    (void)close(birth->our_end); /* or the end of the supervisor would never be seen */
    pin_inside_run(birth->inside);
}

static void be_born_ahead(void *self) {
    ((const struct birth *)self)->inside->has_loopback = true;
    be_born(self);
}

static bool start_child(struct pin_inside *inside, int our_end, struct pin_ahead *ahead,
                        struct pin_sandbox *sandbox, struct pin_error *err) {
    int pidfd = -1, unified = sandbox->cgroup != NULL ? pin_cgroup_unified_fd(sandbox->cgroup) : -1;
    struct clone_args args = {
        .flags = (inside->plan->clone_flags & ~(uint64_t)CLONE_NEWCGROUP) | CLONE_PIDFD,
        .pidfd = (uint64_t)(uintptr_t)&pidfd,
        .exit_signal = SIGCHLD,
    };
    if (unified >= 0) {
        args.flags |= (uint64_t)CLONE_INTO_CGROUP;
        args.cgroup = (__u64)unified;
    }
    if (inside->engine != NULL && pin_engine_needs_helper(inside->plan, inside->engine)) {
        const struct pin_cgroup *joined = inside->engine->joins_group;
        int theirs = joined != NULL ? pin_cgroup_unified_fd(joined) : unified;
        return start_joining(inside, our_end, theirs, sandbox, err);
    }
    struct birth birth = {inside, our_end};
    pid_t pid = pin_ahead_clone(ahead, &args, be_born_ahead, &birth);
    if (pid == 0 && (pid = (pid_t)syscall(SYS_clone3, &args, sizeof(args))) == 0)
        be_born(&birth);
    if (pid < 0) {
        int cause = errno;
        (void)pin_fail_errno(err, "make the namespaces");
        if (cause == EAGAIN)
            (void)pin_hint(err, "raise the caller's limit of processes (ulimit -u)");
        if (cause == ENOSPC)
            (void)pin_hint(
                err, "there are too many: see the sysctls user.max_user_namespaces, user.max_net_namespaces "
                     "and their like");
        if (cause == EPERM)
            (void)pin_hint(err,
                           "user namespaces are restricted here: see sysctl user.max_user_namespaces, "
                           "kernel.unprivileged_userns_clone, kernel.apparmor_restrict_unprivileged_userns");
        return false;
    }
    sandbox->init = pid;
    sandbox->pidfd = pidfd;
    return true;
}

/* Engines send the rules of their own; these are the devices that every container has. */
bool pin_container_set_devices(const struct pin_bundle_resources *resources, struct pin_cgroup *group,
                               struct pin_error *err) {
    static const struct pin_bundle_device_rule usual[] = {
        {true, 'c', 1,   3,  "rwm"},
        {true, 'c', 1,   8,  "rwm"},
        {true, 'c', 1,   7,  "rwm"},
        {true, 'c', 5,   0,  "rwm"},
        {true, 'c', 1,   5,  "rwm"},
        {true, 'c', 1,   9,  "rwm"},
        {true, 'c', 5,   2,  "rwm"},
        {true, 'c', 136, -1, "rwm"},
        {true, 'c', -1,  -1, "m"  },
        {true, 'b', -1,  -1, "m"  },
    };
    static const struct pin_bundle_device_rule none = {false, 'a', -1, -1, "rwm"};
    PIN_ARENA struct pin_arena arena = {0};
    size_t asked = resources->device_count, count = 0;
    struct pin_bundle_device_rule *rules =
        pin_arena_array(&arena, asked + 1 + PIN_COUNT(usual), sizeof(*rules));
    rules[count++] = none;
    for (size_t i = 0; i < asked; i++) {
        rules[count] = resources->devices[i];
        if (rules[count++].type == '\0') /* none is every type: config-linux.md */
            rules[count - 1].type = 'a';
    }
    bool all = asked > 0 && rules[count - 1].allow && rules[count - 1].type == 'a';
    for (size_t i = 0; i < PIN_COUNT(usual) && !all; i++)
        rules[count++] = usual[i];
    return pin_cgroup_apply_devices(group, rules, count, err);
}

/* An ordinary user can't have devices judged, and can't make or open any beyond its own either; nor can root
 * of a user namespace. */
static bool make_container_group(const struct pin_build_input *input, struct pin_sandbox *sandbox,
                                 struct pin_error *err) {
    const struct pin_bundle *bundle = input->plan->bundle;
    if (input->engine->cgroup_path == NULL)
        return true;
    sandbox->cgroup = pin_cgroup_adopt_at(input->cgroups, input->engine->cgroup_path, err);
    if (sandbox->cgroup == NULL || !pin_cgroup_apply_oci(sandbox->cgroup, &bundle->resources, err))
        return false;
    if (pin_container_set_devices(&bundle->resources, sandbox->cgroup, err))
        return true;
    if (input->plan->privileged && !(err->os_errno == EPERM && pin_in_user_namespace()))
        return false;
    pin_error_clear(err);
    return true;
}

static bool make_group(const struct pin_build_input *input, struct pin_sandbox *sandbox,
                       struct pin_error *err) {
    const struct pin_plan *plan = input->plan;
    if (input->engine != NULL)
        return make_container_group(input, sandbox, err);
    if (input->slot == NULL)
        return pin_fail(err, PIN_ERROR_INTERNAL, "a sandbox without a slot has no cgroup of its own");
    struct pin_cgroup_limits limits = {
        .memory_bytes = plan->limits.memory_bytes,
        .swap_bytes = plan->limits.swap_bytes,
        .millicpus = plan->limits.millicpus,
        .pids = plan->limits.pids,
        .host_swaps = input->cgroups->swap,
    };
    sandbox->cgroup = pin_cgroup_create(input->cgroups, input->slot->number, &limits,
                                        plan->bundle->ext.optional, &sandbox->missing, err);
    return sandbox->cgroup != NULL;
}

/* A group of version 2 is made first, for the child to be born in; one of version 1 while the child is at
 * work. */
static bool is_made_first(const struct pin_build_input *input) {
    return input->engine != NULL || input->cgroups->kind == PIN_CGROUP_V2;
}

static bool share_program(struct pin_program *program, struct shared_program *shared) {
    shared->program = *program;
    shared->program.code = shared->code;
    memcpy(shared->code, program->code, program->length * sizeof(*program->code));
    pin_program_free(program);
    return true;
}

static bool fill_program(const struct pin_filter *filter, int cache, struct shared_program *shared,
                         struct pin_error *err) {
    struct pin_program program = {0};
    if (!filter->present)
        return true;
    if (!pin_program_get(filter, cache, &program, err))
        return pin_wrap(err, "make the system call filter");
    return share_program(&program, shared);
}

/* The programs lie in memory that the child shares: they are made while the child assembles the root. */
static bool fill_filters(const struct pin_build_input *input, struct pin_shared_programs *shared,
                         struct pin_error *err) {
    const struct pin_bundle *bundle = input->plan->bundle;
    struct pin_program asking = {0};
    if (!bundle->seccomp.present && !bundle->ceiling_filter.present && input->watch == PIN_WATCH_NONE)
        return true;
    struct pin_error uncached = {0}; /* without a cache the filter is compiled anew, and as safe */
    PIN_CLOSE int cache = pin_cache_open(&uncached);
    if (input->watch != PIN_WATCH_NONE)
        return pin_watch_program(input->watch, &bundle->seccomp, cache, &asking, err) &&
               share_program(&asking, &shared->own);
    return fill_program(&bundle->seccomp, cache, &shared->own, err) &&
           fill_program(&bundle->ceiling_filter, cache, &shared->ceiling, err);
}

/* What the child needs for its last steps: limits to enter, the filter, and init. */
static bool equip_child(const struct pin_build_input *input, struct pin_shared_programs *shared,
                        struct pin_sandbox *sandbox, struct pin_error *err) {
    int fds[1 + PIN_CGROUP_HIERARCHIES];
    if (!is_made_first(input) && !make_group(input, sandbox, err))
        return false;
    if (input->engine != NULL) /* it has entered its groups already, and has no init of ours */
        return fill_filters(input, shared, err) &&
               pin_channel_sync(sandbox->control, PIN_SYNC_EQUIPPED, NULL, 0, err);
    PIN_CLOSE int init = seal_init(err);
    pin_ahead_end(input->ahead);
    shared->ignored = pin_dispositions_ignored(); /* asked here, while the child is at work */
    if (init < 0 || !fill_filters(input, shared, err))
        return false;
    fds[0] = init;
    int count = pin_cgroup_entrances(sandbox->cgroup, fds + 1, err);
    bool ok = count >= 0 && pin_channel_sync(sandbox->control, PIN_SYNC_EQUIPPED, fds, 1 + count, err);
    for (int i = 0; i < count; i++)
        (void)close(fds[1 + i]);
    return ok;
}

/* The operation that makes a copy-on-write workspace, or -1. */
static int find_overlay(const struct pin_plan *plan) {
    for (size_t i = 0; i < plan->op_count; i++)
        if (plan->ops[i].kind == PIN_OP_OVERLAY)
            return (int)i;
    return -1;
}

/* From outside, by those who may: the child's capabilities don't reach beyond its own namespace. */
static bool raise_rlimits(const struct pin_plan *plan, pid_t pid, struct pin_error *err) {
    for (size_t i = 0; i < plan->rlimit_count; i++) {
        const struct pin_plan_rlimit *asked = &plan->rlimits[i];
        const struct rlimit limit = {asked->soft, asked->hard};
        if (asked->raised && prlimit(pid, (__rlimit_resource_t)asked->resource, &limit, NULL) != 0)
            return pin_fail_errno(err, "raise resource limit %d", asked->resource);
    }
    return true;
}

/* The hooks outside run while the child waits with the namespaces made and the host still in sight. */
static bool guide_container(const struct pin_engine_build *engine, struct pin_sandbox *sandbox,
                            struct pin_error *err) {
    if (engine->before_pivot != NULL && (!pin_channel_take_ready(sandbox->control, err) ||
                                         !engine->before_pivot(engine->self, sandbox->init, err) ||
                                         !pin_channel_sync(sandbox->control, PIN_SYNC_HOOKED, NULL, 0, err)))
        return false;
    return pin_channel_take_ready(sandbox->control, err);
}

bool pin_sandbox_keep(struct pin_sandbox *sandbox, struct pin_error *err) {
    if (!pin_channel_sync(sandbox->control, PIN_SYNC_KEEP, NULL, 0, err))
        return false;
    int control = pin_steal_fd(&sandbox->control);
    pin_cgroup_free(sandbox->cgroup);
    pin_close_fd(&sandbox->pidfd);
    *sandbox = PIN_SANDBOX_NONE;
    sandbox->control = control;
    return true;
}

static bool guide_child(const struct pin_build_input *input, uint32_t range,
                        struct pin_shared_programs *shared, struct pin_sandbox *sandbox,
                        struct pin_error *err) {
    bool has_score = input->engine != NULL && pin_engine_needs_helper(input->plan, input->engine);
    return (has_score || pin_oom_score_set(input->plan, sandbox->init, err)) &&
           raise_rlimits(input->plan, sandbox->init, err) &&
           pin_idmap_write(input->plan, range, sandbox->init, err) &&
           pin_channel_sync(sandbox->control, PIN_SYNC_MAPPED, NULL, 0, err) &&
           equip_child(input, shared, sandbox, err) &&
           (!input->plan->egress || pin_channel_take_egress(sandbox->control, &sandbox->egress, err)) &&
           (find_overlay(input->plan) < 0 ||
            pin_channel_take_changes(sandbox->control, &sandbox->changes, err)) &&
           (!input->plan->hands_upper || pin_channel_take_upper(sandbox->control, &sandbox->upper, err)) &&
           (input->plan->publish_count == 0 ||
            pin_channel_take_door(sandbox->control, &sandbox->door, err)) &&
           (input->watch == PIN_WATCH_NONE ||
            pin_channel_take_watch(sandbox->control, &sandbox->watch, err)) &&
           (input->engine == NULL || guide_container(input->engine, sandbox, err));
}

/* A failure of ours may be the echo of the child's: its own words are the better ones. That there are none is
 * a failure of the system's without an errno. */
static void prefer_childs_failure(int control, struct pin_error *err) {
    struct pin_error told = {0};
    int none = -1;
    if (err->os_errno != EPIPE && err->os_errno != ECONNRESET)
        return;
    if (!pin_channel_take_changes(control, &none, &told) &&
        (told.os_errno != 0 || told.kind != PIN_ERROR_SYSTEM))
        *err = told;
    pin_close_fd(&none);
}

static bool start(const struct pin_build_input *input, struct pin_host_sources *sources,
                  struct pin_shared_programs *shared, struct pin_sandbox *sandbox, struct pin_error *err) {
    int ends[2];
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0)
        return pin_fail_errno(err, "make the control socket");
    sandbox->control = ends[0];
    PIN_CLOSE int theirs = ends[1];
    struct pin_engine_groups groups = {0};
    const struct pin_bundle *bundle = input->plan->bundle;
    struct pin_inside inside = {
        .plan = input->plan,
        .sources = sources,
        .filter = bundle->seccomp.present || input->watch != PIN_WATCH_NONE ? &shared->own.program : NULL,
        .watched = input->watch != PIN_WATCH_NONE,
        .ceiling = bundle->ceiling_filter.present ? &shared->ceiling.program : NULL,
        .control = theirs,
        .ignored = &shared->ignored,
        .engine = input->engine,
        .groups = &groups};
    bool ok = !is_made_first(input) || make_group(input, sandbox, err);
    if (ok && input->engine != NULL) {
        const struct pin_cgroup *group =
            input->engine->joins_group != NULL ? input->engine->joins_group : sandbox->cgroup;
        ok = pin_engine_groups_open(group, input->plan->engine.cgroup_mounts, input->cgroups, &groups, err);
    }
    ok = ok && start_child(&inside, ends[0], input->ahead, sandbox, err);
    pin_engine_groups_close(&groups);
    return ok;
}

bool pin_build(const struct pin_build_input *input, struct pin_sandbox *sandbox, struct pin_error *err) {
    *sandbox = PIN_SANDBOX_NONE;
    uint32_t range = input->slot != NULL ? pin_slot_id_base(input->slot->number) : 0;
    struct pin_host_sources sources;
    struct pin_shared_programs *shared =
        mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (shared == MAP_FAILED)
        return pin_fail_errno(err, "map the filter");
    bool ok = pin_sources_open(input->plan, range, input->slot != NULL ? input->slot->state_dir : -1,
                               &sources, err);
    if (ok) {
        sandbox->missing = input->plan->missing;
        ok = start(input, &sources, shared, sandbox, err);
        int overlay = find_overlay(input->plan);
        if (overlay >= 0)
            sandbox->workspace = pin_steal_fd(&sources.ops[overlay].path);
        if (ok && !guide_child(input, range, shared, sandbox, err)) {
            prefer_childs_failure(sandbox->control, err);
            ok = false;
        }
        pin_sources_close(input->plan, &sources); /* not while the child waits for us */
    }
    (void)munmap(shared, sizeof(*shared)); /* ours: the child has the mapping until it executes init */
    if (ok)
        return true;
    struct pin_error ignored = {0}; /* the first cause is the one to tell; the sweep takes up what is left */
    (void)pin_sandbox_destroy(sandbox, &ignored);
    return false;
}

/* SIGKILL doesn't end an uninterruptible wait in the kernel. */
static bool await_death(int pidfd, int timeout_ms, struct pin_error *err) {
    struct pollfd end = {.fd = pidfd, .events = POLLIN};
    int ready;
    do
        ready = poll(&end, 1, timeout_ms);
    while (ready < 0 && errno == EINTR);
    if (ready == 1 || pidfd < 0)
        return true;
    (void)pin_fail(err, PIN_ERROR_BUSY, "the sandbox doesn't die: a process in it hangs in the kernel");
    return pin_hint(err, "look for a process in state D in its cgroup");
}

bool pin_sandbox_end(struct pin_sandbox *sandbox, struct pin_error *err) {
    pid_t init = sandbox->init;
    if (init <= 0) /* reaped already, or given up */
        return await_death(sandbox->pidfd, 0, err);
    (void)syscall(SYS_pidfd_send_signal, sandbox->pidfd, SIGKILL, NULL, 0); /* it may be dead already */
    sandbox->init = 0;
    if (!await_death(sandbox->pidfd, DIE_WITHIN_MS, err))
        return false;
    while (waitpid(init, NULL, 0) < 0 && errno == EINTR)
        ;
    return true;
}

bool pin_sandbox_destroy(struct pin_sandbox *sandbox, struct pin_error *err) {
    bool ok = pin_sandbox_end(sandbox, err) &&
              (sandbox->cgroup == NULL || pin_cgroup_remove(sandbox->cgroup, REMOVE_WITHIN_NS, err));
    pin_cgroup_free(sandbox->cgroup);
    pin_close_fd(&sandbox->pidfd);
    pin_close_fd(&sandbox->control);
    pin_close_fd(&sandbox->changes);
    pin_close_fd(&sandbox->upper);
    pin_close_fd(&sandbox->workspace);
    pin_close_fd(&sandbox->watch);
    pin_close_fd(&sandbox->door);
    pin_egress_close(&sandbox->egress);
    *sandbox = PIN_SANDBOX_NONE;
    return ok;
}
