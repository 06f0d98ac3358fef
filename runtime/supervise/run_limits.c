#include <signal.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/units.h"
#include "runtime/supervise/run.h"

#define CPU_CHECK_MIN_NS (10 * PIN_NS_PER_MS)

static void set_reason(struct run *run, enum pin_status reason) {
    if (run->has_reason)
        return;
    run->has_reason = true;
    run->reason = reason;
}

void pin_run_fail(struct run *run, const struct pin_error *failure) {
    if (!pin_is_set(&run->failure))
        run->failure = *failure;
    pin_run_kill(run);
}

static void on_stuck(void *self) {
    struct run *run = self;
    run->stuck = NULL;
    run->is_stuck = true;
}

static void set_timer(struct run *run, struct pin_timer **timer, uint64_t at_ns, pin_on_time *on_time) {
    struct pin_error err = {0};
    if (*timer != NULL)
        return;
    *timer = pin_loop_at(run->loop, at_ns, on_time, run, &err);
    if (*timer == NULL && !pin_is_set(&run->failure))
        run->failure = err; /* without a timer nothing may go on; the killing that follows needs none */
}

/* Both ways: the cgroup also reaches what a host with a fault might have left outside the namespace, and
 * init's death takes all that is inside. */
void pin_run_kill(struct run *run) {
    const struct pin_cgroup_ops *cgroup = &run->given->cgroup;
    if (run->dead)
        return;
    run->killed = true;
    if (cgroup->kill != NULL)
        (void)cgroup->kill(cgroup->self); /* the next line ends them too */
    (void)syscall(SYS_pidfd_send_signal, run->given->init_pidfd, SIGKILL, NULL,
                  0); /* it may be dead already */
    pin_run_await_death(run);
}

void pin_run_await_death(struct run *run) {
    set_timer(run, &run->stuck, pin_now_ns() + STUCK_NS, on_stuck);
}

void pin_run_kill_for(struct run *run, enum pin_status reason) {
    set_reason(run, reason);
    pin_run_kill(run);
}

void pin_run_signal(struct run *run, int number) {
    struct pin_error err = {0};
    if (!pin_link_signal(&run->link, 0, number, &err)) {
        pin_run_kill(run); /* init doesn't listen any more */
        return;
    }
    if (pin_link_wants_to_send(&run->link) && run->control_out != NULL)
        pin_source_resume(run->control_out);
}

static void on_grace_over(void *self) {
    struct run *run = self;
    run->grace = NULL;
    pin_run_kill_for(run, PIN_STATUS_KILLED);
}

void pin_run_start_grace(struct run *run) {
    set_timer(run, &run->grace, pin_later(pin_now_ns(), run->given->limits.grace_ns), on_grace_over);
    if (run->grace == NULL)
        pin_run_kill(run);
}

/* TERM to the tree, and KILL when the grace is over. The first reason stays. */
static void terminate(struct run *run, enum pin_status reason) {
    set_reason(run, reason);
    if (run->terminating)
        return;
    run->terminating = true;
    pin_run_signal(run, SIGTERM);
    pin_run_signal(run, SIGCONT); /* who is stopped can't end by a TERM */
    pin_run_start_grace(run);
}

static void on_wall_time(void *self) {
    struct run *run = self;
    run->wall = NULL;
    pin_run_tell_limit(run, "wall_time", "ms", run->given->limits.wall_time_ns / PIN_NS_PER_MS);
    terminate(run, PIN_STATUS_TIMEOUT);
}

/* At the earliest moment at which the rest could be used up, with every processor at work. */
static uint64_t next_cpu_check(uint64_t left_ns) {
    long processors = sysconf(_SC_NPROCESSORS_ONLN);
    uint64_t soonest = left_ns / (uint64_t)(processors > 0 ? processors : 1);
    return pin_later(pin_now_ns(), soonest > CPU_CHECK_MIN_NS ? soonest : CPU_CHECK_MIN_NS);
}

static void on_cpu_check(void *self) {
    struct run *run = self;
    const struct pin_cgroup_ops *cgroup = &run->given->cgroup;
    uint64_t limit_ns = run->given->limits.cpu_time_ns;
    struct pin_usage usage = {0};
    run->cpu = NULL;
    if (!cgroup->usage(cgroup->self, &usage) || usage.cpu_ns < limit_ns) {
        set_timer(run, &run->cpu, next_cpu_check(limit_ns - usage.cpu_ns), on_cpu_check);
        return;
    }
    pin_run_tell_limit(run, "cpu_time", "ms", limit_ns / PIN_NS_PER_MS);
    terminate(run, PIN_STATUS_TIMEOUT);
}

/* A sample that can't be had holds nothing. */
static void on_sample(void *self) {
    struct run *run = self;
    const struct pin_cgroup_ops *cgroup = &run->given->cgroup;
    uint64_t held_bytes = 0;
    run->sampling = NULL;
    (void)cgroup->memory(cgroup->self, &held_bytes);
    pin_memory_account_add(&run->memory, pin_now_ns(), held_bytes);
    set_timer(run, &run->sampling, pin_memory_account_next(&run->memory), on_sample);
}

static void on_oom(void *self, unsigned events) {
    struct run *run = self;
    const struct pin_cgroup_ops *cgroup = &run->given->cgroup;
    (void)events;
    if (!cgroup->oom_happened(cgroup->self))
        return;
    pin_source_remove(&run->oom);
    pin_run_tell_limit(run, "memory", NULL, 0);
    pin_run_kill_for(run, PIN_STATUS_MEMORY);
}

bool pin_run_set_limits(struct run *run, struct pin_error *err) {
    const struct pin_limits *limits = &run->given->limits;
    const struct pin_cgroup_ops *cgroup = &run->given->cgroup;
    if (limits->wall_time_ns != PIN_UNLIMITED)
        set_timer(run, &run->wall, pin_later(run->started_ns, limits->wall_time_ns), on_wall_time);
    if (limits->cpu_time_ns != PIN_UNLIMITED && cgroup->usage != NULL)
        set_timer(run, &run->cpu, next_cpu_check(limits->cpu_time_ns), on_cpu_check);
    run->memory.at_ns = run->started_ns;
    if (cgroup->memory != NULL)
        set_timer(run, &run->sampling, pin_memory_account_next(&run->memory), on_sample);
    if (pin_is_set(&run->failure)) {
        *err = run->failure;
        return false;
    }
    if (cgroup->oom_event_fd < 0 || cgroup->oom_happened == NULL)
        return true;
    run->oom = pin_loop_watch(run->loop, cgroup->oom_event_fd, cgroup->oom_events, on_oom, run, err);
    return run->oom != NULL;
}
