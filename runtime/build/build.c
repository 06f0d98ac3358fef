#include "runtime/build/build.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <linux/sched.h>

#include "base/cleanup.h"
#include "base/io.h"
#include "base/units.h"
#include "runtime/build/channel.h"
#include "runtime/build/idmap.h"
#include "runtime/build/inside.h"
#include "runtime/build/seccomp/cache.h"
#include "runtime/build/sources.h"
#include "runtime/init/image.h"

#define REMOVE_WITHIN_NS (10 * PIN_NS_PER_S) /* for dying processes */

#ifndef MFD_EXEC
#define MFD_EXEC 0x0010U /* Linux 6.3 */
#endif

/* A copy that nobody can write, and that isn't a file of the host's: /proc/1/exe leads nowhere. */
static int seal_init(struct pin_error *err) {
    PIN_CLOSE int fd = memfd_create("pinfold-init", MFD_CLOEXEC | MFD_ALLOW_SEALING | MFD_EXEC);
    if (fd < 0 && errno == EINVAL) /* before Linux 6.3 every memfd may be executed */
        fd = memfd_create("pinfold-init", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    if (fd < 0) {
        (void)pin_fail_errno(err, "make the copy of init");
        return -1;
    }
    if (!pin_write_all(fd, pin_init_image, pin_init_image_size, err))
        return -1;
    if (fcntl(fd, F_ADD_SEALS, F_SEAL_WRITE | F_SEAL_GROW | F_SEAL_SHRINK | F_SEAL_SEAL) != 0) {
        (void)pin_fail_errno(err, "seal the copy of init");
        return -1;
    }
    return pin_steal_fd(&fd);
}

struct pin_shared_program {
    struct pin_program program;
    struct sock_filter code[PIN_PROGRAM_MAX];
};

static bool start_child(const struct pin_inside *inside, int our_end, struct pin_sandbox *sandbox,
                        struct pin_error *err) {
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
    pid_t pid = (pid_t)syscall(SYS_clone3, &args, sizeof(args));
    if (pid == 0) {
        (void)close(our_end); /* or the end of the supervisor would never be seen */
        pin_inside_run(inside);
    }
    if (pid < 0) {
        int cause = errno;
        (void)pin_fail_errno(err, "make the namespaces");
        if (cause == EPERM || cause == ENOSPC)
            (void)pin_hint(err,
                           "user namespaces are restricted here: see sysctl user.max_user_namespaces, "
                           "kernel.unprivileged_userns_clone, kernel.apparmor_restrict_unprivileged_userns");
        return false;
    }
    sandbox->init = pid;
    sandbox->pidfd = pidfd;
    return true;
}

static bool make_group(const struct pin_build_input *input, struct pin_sandbox *sandbox,
                       struct pin_error *err) {
    const struct pin_plan *plan = input->plan;
    struct pin_cgroup_limits limits = {
        .memory_bytes = plan->limits.memory_bytes,
        .swap_bytes = plan->limits.swap_bytes,
        .millicpus = plan->limits.millicpus,
        .pids = plan->limits.pids,
    };
    sandbox->cgroup = pin_cgroup_create(input->cgroups, input->slot->number, &limits,
                                        plan->bundle->ext.optional, &sandbox->missing, err);
    return sandbox->cgroup != NULL;
}

/* A group of version 2 is made first, for the child to be born in; one of version 1 while the child is at
 * work. */
static bool is_made_first(const struct pin_build_input *input) {
    return input->cgroups->kind == PIN_CGROUP_V2;
}

/* The program lies in memory that the child shares: it is made while the child assembles the root. */
static bool fill_filter(const struct pin_plan *plan, struct pin_shared_program *shared,
                        struct pin_error *err) {
    if (!plan->bundle->seccomp.present)
        return true;
    struct pin_program program = {0};
    struct pin_error uncached = {0}; /* without a cache the filter is compiled anew, and as safe */
    PIN_CLOSE int cache = pin_cache_open(&uncached);
    if (!pin_program_get(&plan->bundle->seccomp, cache, &program, err))
        return pin_wrap(err, "make the system call filter");
    shared->program = program;
    shared->program.code = shared->code;
    memcpy(shared->code, program.code, program.length * sizeof(*program.code));
    pin_program_free(&program);
    return true;
}

/* What the child needs for its last steps: limits to enter, the filter, and init. */
static bool equip_child(const struct pin_build_input *input, struct pin_shared_program *shared,
                        struct pin_sandbox *sandbox, struct pin_error *err) {
    int fds[1 + PIN_CGROUP_HIERARCHIES];
    if (!is_made_first(input) && !make_group(input, sandbox, err))
        return false;
    PIN_CLOSE int init = seal_init(err);
    if (init < 0 || !fill_filter(input->plan, shared, err))
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

/* From outside: the child has no way to its own file once it is in its namespaces. */
static bool set_oom_score(const struct pin_plan *plan, pid_t pid, struct pin_error *err) {
    char path[64], value[16];
    if (!plan->has_oom_score_adj)
        return true;
    (void)snprintf(path, sizeof(path), "/proc/%d/oom_score_adj", (int)pid);
    (void)snprintf(value, sizeof(value), "%d", plan->oom_score_adj);
    return pin_write_value_at(AT_FDCWD, path, value, err);
}

static bool guide_child(const struct pin_build_input *input, uint32_t range,
                        struct pin_shared_program *shared, struct pin_sandbox *sandbox,
                        struct pin_error *err) {
    return set_oom_score(input->plan, sandbox->init, err) &&
           pin_idmap_write(input->plan, range, sandbox->init, err) &&
           pin_channel_sync(sandbox->control, PIN_SYNC_MAPPED, NULL, 0, err) &&
           equip_child(input, shared, sandbox, err) &&
           (find_overlay(input->plan) < 0 ||
            pin_channel_take_changes(sandbox->control, &sandbox->changes, err)) &&
           (!input->plan->egress || pin_channel_take_egress(sandbox->control, &sandbox->egress, err));
}

/* A failure of ours may be the echo of the child's: its own words are the better ones. */
static void prefer_childs_failure(int control, struct pin_error *err) {
    struct pin_error told = {0};
    int none = -1;
    if (err->os_errno != EPIPE && err->os_errno != ECONNRESET)
        return;
    if (!pin_channel_take_changes(control, &none, &told) && told.os_errno != 0)
        *err = told;
    pin_close_fd(&none);
}

static bool start(const struct pin_build_input *input, struct pin_host_sources *sources,
                  struct pin_shared_program *shared, struct pin_sandbox *sandbox, struct pin_error *err) {
    int ends[2];
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0)
        return pin_fail_errno(err, "make the control socket");
    sandbox->control = ends[0];
    PIN_CLOSE int theirs = ends[1];
    struct pin_inside inside = {input->plan, sources,
                                input->plan->bundle->seccomp.present ? &shared->program : NULL, theirs};
    return (!is_made_first(input) || make_group(input, sandbox, err)) &&
           start_child(&inside, ends[0], sandbox, err);
}

bool pin_build(const struct pin_build_input *input, struct pin_sandbox *sandbox, struct pin_error *err) {
    *sandbox = PIN_SANDBOX_NONE;
    uint32_t range = pin_slot_id_base(input->slot->number);
    struct pin_host_sources sources;
    struct pin_shared_program *shared =
        mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (shared == MAP_FAILED)
        return pin_fail_errno(err, "map the filter");
    bool ok = pin_sources_open(input->plan, range, input->slot->state_dir, &sources, err);
    if (ok) {
        sandbox->missing = input->plan->missing;
        ok = start(input, &sources, shared, sandbox, err);
        int overlay = find_overlay(input->plan);
        if (overlay >= 0)
            sandbox->workspace = pin_steal_fd(&sources.ops[overlay].path);
        pin_sources_close(input->plan, &sources);
    }
    if (ok && !guide_child(input, range, shared, sandbox, err)) {
        prefer_childs_failure(sandbox->control, err);
        ok = false;
    }
    (void)munmap(shared, sizeof(*shared)); /* ours: the child has the mapping until it executes init */
    if (ok)
        return true;
    struct pin_error ignored = {0}; /* the first cause is the one to tell; the sweep takes up what is left */
    (void)pin_sandbox_destroy(sandbox, &ignored);
    return false;
}

bool pin_sandbox_destroy(struct pin_sandbox *sandbox, struct pin_error *err) {
    if (sandbox->init > 0) {
        (void)syscall(SYS_pidfd_send_signal, sandbox->pidfd, SIGKILL, NULL, 0); /* it may be dead already */
        while (waitpid(sandbox->init, NULL, 0) < 0 && errno == EINTR)
            ;
    }
    bool ok = sandbox->cgroup == NULL || pin_cgroup_remove(sandbox->cgroup, REMOVE_WITHIN_NS, err);
    pin_cgroup_free(sandbox->cgroup);
    pin_close_fd(&sandbox->pidfd);
    pin_close_fd(&sandbox->control);
    pin_close_fd(&sandbox->changes);
    pin_close_fd(&sandbox->workspace);
    pin_egress_close(&sandbox->egress);
    *sandbox = PIN_SANDBOX_NONE;
    return ok;
}
