#include <unistd.h>

#include "base/clock.h"
#include "base/units.h"
#include "runtime/kept/parts.h"

#define CPU_CHECK_MIN_NS (10 * PIN_NS_PER_MS)

/* Asked when nobody is left in it, and before it goes. */
void pin_exec_read_usage(struct exec *exec) {
    struct pin_cgroup_usage usage;
    if (!pin_exec_usage(exec, &usage))
        return;
    exec->result.usage.cpu_ns = usage.cpu_ns;
    exec->result.usage.memory_peak_bytes = usage.memory_peak_bytes;
    exec->result.usage.pids_peak = usage.pids_peak;
    exec->result.usage.oom_kills = usage.oom_kills;
    exec->kept->exec_oom_kills += usage.oom_kills;
}

static void on_wall_time(void *self) {
    struct exec *exec = self;
    exec->wall = NULL;
    pin_exec_terminate(exec, PIN_STATUS_TIMEOUT);
}

static bool set_wall_time(struct exec *exec, struct pin_error *err) {
    uint64_t limit_ns = exec->kept->given->limits.wall_time_ns;
    if (exec->request.has_timeout)
        limit_ns = exec->request.timeout_ms * PIN_NS_PER_MS;
    if (limit_ns == PIN_UNLIMITED)
        return true;
    exec->wall =
        pin_loop_at(exec->kept->loop, pin_later(exec->started_ns, limit_ns), on_wall_time, exec, err);
    return exec->wall != NULL;
}

static void on_cpu_check(void *self);

/* At the earliest moment at which the rest could be used up, with every processor at work. */
static bool set_cpu_check(struct exec *exec, uint64_t left_ns, struct pin_error *err) {
    long processors = sysconf(_SC_NPROCESSORS_ONLN);
    uint64_t soonest = left_ns / (uint64_t)(processors > 0 ? processors : 1);
    if (soonest < CPU_CHECK_MIN_NS)
        soonest = CPU_CHECK_MIN_NS;
    exec->cpu = pin_loop_at(exec->kept->loop, pin_later(pin_now_ns(), soonest), on_cpu_check, exec, err);
    return exec->cpu != NULL;
}

static void on_cpu_check(void *self) {
    struct exec *exec = self;
    struct pin_cgroup_usage usage = {0};
    struct pin_error err = {0};
    uint64_t limit_ns = exec->kept->given->limits.cpu_time_ns;
    exec->cpu = NULL;
    if (pin_exec_usage(exec, &usage) && usage.cpu_ns >= limit_ns)
        pin_exec_terminate(exec, PIN_STATUS_TIMEOUT);
    else if (!set_cpu_check(exec, limit_ns - usage.cpu_ns, &err))
        pin_kept_fail(exec->kept, &err);
}

bool pin_exec_set_limits(struct exec *exec, struct pin_error *err) {
    if (exec->request.context)
        return pin_context_set_limits(exec, err);
    uint64_t cpu_ns = exec->kept->given->limits.cpu_time_ns;
    return set_wall_time(exec, err) &&
           (cpu_ns == PIN_UNLIMITED || exec->leaf.group == NULL || set_cpu_check(exec, cpu_ns, err));
}

bool pin_kept_was_out_of_memory(struct pin_kept *kept) {
    struct pin_error err = {0};
    struct pin_cgroup_usage usage;
    if (kept->given->sandbox->cgroup == NULL ||
        !pin_cgroup_usage_read(kept->given->sandbox->cgroup, &usage, &err) ||
        usage.oom_kills <= kept->oom_kills)
        return false;
    kept->oom_kills = usage.oom_kills;
    return true;
}

/* Version 1 counts such an end in the group of who was killed, and in no group above. */
bool pin_exec_was_out_of_memory(struct exec *exec) {
    struct pin_cgroup_usage usage;
    bool in_leaf = pin_exec_usage(exec, &usage) && usage.oom_kills > 0;
    return pin_kept_was_out_of_memory(exec->kept) || in_leaf;
}
