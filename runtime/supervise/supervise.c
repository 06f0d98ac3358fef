#include "runtime/supervise/supervise.h"

#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/units.h"
#include "runtime/supervise/run.h"

static bool set_up(struct run *run, struct pin_error *err) {
    run->loop = run->given->loop;
    if (run->loop == NULL) {
        run->loop = pin_loop_new(run->given->io, err);
        run->owns_loop = run->loop != NULL;
    }
    return run->loop != NULL && pin_run_open_streams(run, err) && pin_run_start(run, err) &&
           pin_run_watch(run, err) && pin_run_set_limits(run, err);
}

static void restore_signals(struct run *run) {
    static const struct timespec at_once = {0, 0};
    sigset_t pipe;
    if (!run->mask_changed)
        return;
    (void)sigemptyset(&pipe);
    (void)sigaddset(&pipe, SIGPIPE);
    if (!sigismember(&run->mask_before, SIGPIPE)) /* ours, from a write that said EPIPE: not for the caller */
        (void)sigtimedwait(&pipe, NULL, &at_once);
    (void)sigprocmask(SIG_SETMASK, &run->mask_before, NULL);
}

/* All that the loop has served. */
static void free_loop(struct run *run) {
    struct pin_timer **timers[] = {&run->wall, &run->grace, &run->cpu, &run->stuck, &run->sampling};
    struct pin_source **sources[] = {&run->control_in, &run->control_out, &run->init_end,
                                     &run->signals,    &run->oom,         &run->egress};
    pin_terminal_restore(&run->terminal);
    pin_pump_free(run->pump);
    for (size_t i = 0; i < STREAM_COUNT; i++)
        pin_collector_free(run->collectors[i]);
    for (size_t i = 0; i < sizeof(timers) / sizeof(timers[0]); i++)
        pin_timer_cancel(timers[i]);
    for (size_t i = 0; i < sizeof(sources) / sizeof(sources[0]); i++)
        pin_source_remove(sources[i]);
    if (run->given->stream != NULL)
        run->given->stream->sink = NULL;
    for (size_t i = 0; i < 2; i++)
        pin_sink_free(run->sinks[i]);
    pin_link_release(&run->link);
    pin_close_fd(&run->master);
    if (run->owns_loop)
        pin_loop_free(run->loop);
    run->owns_loop = false;
}

static void clean_up(struct run *run) {
    pin_close_fd(&run->signal_fd);
    restore_signals(run);
}

static uint64_t progress(const struct run *run) {
    uint64_t sum = 0;
    for (size_t i = 0; i < STREAM_COUNT; i++)
        if (run->collectors[i] != NULL)
            sum += pin_collector_progress(run->collectors[i]);
    return sum;
}

static bool waits_for_reader(const struct run *run) {
    for (size_t i = 0; i < 2; i++)
        if (run->sinks[i] != NULL && pin_sink_is_full(run->sinks[i]))
            return true;
    return false;
}

static bool all_ended(const struct run *run) {
    for (size_t i = 0; i < STREAM_COUNT; i++)
        if (run->collectors[i] != NULL && !pin_collector_has_ended(run->collectors[i]))
            return false;
    return true;
}

static void stop_collectors(struct run *run, bool only_dry) {
    for (size_t i = 0; i < STREAM_COUNT; i++) {
        struct pin_collector *collector = run->collectors[i];
        if (collector != NULL && !pin_collector_has_ended(collector) &&
            (!only_dry || pin_collector_is_dry(collector)))
            pin_collector_stop(collector);
    }
}

static void on_nothing(void *self) {
    *(bool *)self = true;
}

/* One turn that doesn't wait for anything, unless for the caller to read. */
static bool turn(struct run *run, struct pin_error *err) {
    bool over = false;
    struct pin_timer *at_once = NULL;
    if (!waits_for_reader(run)) {
        at_once = pin_loop_at(run->loop, pin_now_ns(), on_nothing, &over, err);
        if (at_once == NULL)
            return false;
    }
    bool stepped = pin_loop_step(run->loop, err);
    if (!over)
        pin_timer_cancel(&at_once);
    return stepped;
}

/* Not until end of file: a descriptor that found its way out of the sandbox must not hold us up. */
static bool drain(struct run *run, struct pin_error *err) {
    while (!run->given_up && !run->is_stuck && (!all_ended(run) || waits_for_reader(run))) {
        uint64_t before = progress(run);
        if (!turn(run, err))
            return false;
        if (progress(run) == before)
            stop_collectors(run, true);
    }
    stop_collectors(run, false);
    return true;
}

/* A process in the kernel's uninterruptible wait outlives SIGKILL for a while: that is said, not waited for.
 */
static bool wait_for_death(const struct run *run, struct pin_error *err) {
    struct pollfd end = {.fd = run->given->init_pidfd, .events = POLLIN};
    int ready = run->dead ? 1 : 0;
    uint64_t until = pin_now_ns() + STUCK_NS;
    while (ready == 0 && !run->is_stuck && pin_now_ns() < until)
        ready = poll(&end, 1, 1000);
    if (ready == 1)
        return true;
    (void)pin_fail(err, PIN_ERROR_BUSY, "the sandbox doesn't die: a process in it hangs in the kernel");
    return pin_hint(err, "look for a process in state D below pid %d", (int)run->given->init_pid);
}

static void reap(struct run *run, struct rusage *used) {
    int status = 0;
    while (wait4(run->given->init_pid, &status, 0, used) < 0 && errno == EINTR)
        ;
    run->init_was_killed = WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL;
}

static uint64_t ns_of(struct timeval time) {
    return (uint64_t)time.tv_sec * PIN_NS_PER_S + (uint64_t)time.tv_usec * 1000;
}

/* Without a cgroup, or its file: what the kernel has added up for init's children, and the largest of them.
 */
static void read_usage(struct run *run, const struct rusage *used) {
    const struct pin_cgroup_ops *cgroup = &run->given->cgroup;
    struct pin_usage *usage = &run->result->usage;
    if (cgroup->usage == NULL || !cgroup->usage(cgroup->self, usage)) {
        *usage = (struct pin_usage){0};
        usage->cpu_ns = ns_of(used->ru_utime) + ns_of(used->ru_stime);
    }
    if (usage->memory_peak_bytes == 0) /* before Linux 5.19: memory.peak */
        usage->memory_peak_bytes = (uint64_t)used->ru_maxrss * PIN_KIB;
    uint64_t end_ns = run->ended_ns != 0 ? run->ended_ns : pin_now_ns();
    if (run->memory.held_bytes == 0) /* shorter than it takes to look: its peak is what is known */
        run->memory.held_bytes = usage->memory_peak_bytes;
    if (cgroup->memory != NULL)
        pin_memory_account_add(&run->memory, end_ns > run->memory.at_ns ? end_ns : run->memory.at_ns, 0);
    usage->memory_byte_ms = run->memory.byte_ms;
    usage->wall_ns = (run->ended_ns != 0 ? run->ended_ns : pin_now_ns()) - run->started_ns;
}

/* What the kernel's own counters say, where nothing was noticed while it ran. */
static void find_reason(struct run *run) {
    const struct pin_result *result = run->result;
    uint64_t cpu_limit_ns = run->given->limits.cpu_time_ns;
    bool ended_by_limit = !run->exited || result->signal == SIGXCPU || result->signal == SIGKILL;
    if (run->has_reason)
        return;
    if (result->usage.oom_kills > 0)
        run->reason = PIN_STATUS_MEMORY;
    else if (cpu_limit_ns != PIN_UNLIMITED && ended_by_limit && result->usage.cpu_ns >= cpu_limit_ns)
        run->reason = PIN_STATUS_TIMEOUT;
    else
        return;
    run->has_reason = true;
}

static void set_outcome(struct run *run) {
    struct pin_result *result = run->result;
    if (run->exited) {
        pin_result_set_exit(result, run->wait_status);
    } else {
        result->status = PIN_STATUS_KILLED;
        result->signal = SIGKILL;
        result->exit_code = 128 + (run->forwarded != 0 ? run->forwarded : SIGKILL);
    }
    find_reason(run);
    if (run->has_reason && !(run->reason == PIN_STATUS_KILLED && run->exited))
        result->status = run->reason;
    if (run->has_reason && run->reason == PIN_STATUS_TIMEOUT)
        result->exit_code = PIN_EXIT_TIMEOUT;
    if (run->has_reason && (run->reason == PIN_STATUS_MEMORY || run->reason == PIN_STATUS_OUTPUT))
        result->exit_code = PIN_EXIT_MEMORY;
    if (!run->exited && !run->has_reason)
        (void)pin_fail(&result->error, PIN_ERROR_SYSTEM, "the sandbox was killed from outside");
}

static void note_output_error(struct run *run) {
    struct pin_error err = {0};
    if (run->output_error == 0)
        return;
    errno = run->output_error;
    (void)pin_fail_errno(&err, "write the command's output");
    pin_result_note(run->result, &err);
}

/* A kill may come between the command's execution and init's word of it. */
static bool may_have_started(const struct run *run) {
    return run->started || (run->link.ready && run->init_was_killed);
}

static bool conclude(struct run *run, struct pin_error *err) {
    bool never_ran = pin_is_set(&run->result->error); /* it was not found, or can't be executed */
    if (pin_is_set(&run->failure)) {
        *err = run->failure;
        return false;
    }
    bool died_early = !never_ran && !may_have_started(run) && !run->has_reason && run->forwarded == 0;
    if (died_early && run->result->usage.oom_kills > 0) {
        (void)pin_fail(err, PIN_ERROR_EXHAUSTED, "the memory limit is too small for the command to start");
        (void)pin_point(err, "/resources/memory");
        return pin_hint(err, "give it more by --memory, or raise /resources/memory in the policy");
    }
    if (died_early)
        return pin_fail(err, PIN_ERROR_SYSTEM, "the sandbox ended before its command could start");
    run->result->stray_bytes = run->strays.total_bytes;
    if (!never_ran)
        set_outcome(run);
    note_output_error(run);
    return true;
}

/* The command has ended by itself and all its output is here: init is on its way out, and nothing is left to
 * do but to wait for the kernel, which takes the namespaces apart. Word of what killed a command may still
 * come. */
static bool only_death_remains(const struct run *run) {
    return run->exited && WIFEXITED(run->wait_status) && WEXITSTATUS(run->wait_status) < 128 &&
           run->given->egress.fd == NULL && !pin_is_set(&run->failure) && all_ended(run) &&
           !waits_for_reader(run);
}

/* What a command has sent before it ended by itself arrives; what it was ended for has no time more. */
static void end_egress(struct run *run) {
    const struct pin_egress_ops *egress = &run->given->egress;
    bool drains = run->dead && run->exited && !run->has_reason && !pin_is_set(&run->failure);
    while (!egress->end(egress->self, drains && !run->given_up)) {
        pin_run_take_egress(run);
        pin_run_take_signals(run); /* whoever waits for it may have had enough */
    }
    pin_run_take_egress(run);
}

static bool live(struct run *run, struct pin_error *err) {
    if (!set_up(run, err))
        return false;
    while (!run->dead && !run->is_stuck && !only_death_remains(run))
        if (!pin_loop_step(run->loop, err))
            return false;
    pin_run_take_messages(run); /* the last words, which the death of init has overtaken */
    if (run->given->egress.fd != NULL)
        end_egress(run);
    return drain(run, err);
}

bool pin_supervise(const struct pin_supervision *supervision, struct pin_result *result,
                   struct pin_error *err) {
    struct run run = {
        .given = supervision,
        .result = result,
        .signal_fd = -1,
        .master = -1,
        .started_ns = supervision->started_ns != 0 ? supervision->started_ns : pin_now_ns(),
    };
    struct rusage used = {0};
    pin_link_init(&run.link, supervision->control);
    bool lived = live(&run, err), leaves = lived && only_death_remains(&run);
    free_loop(&run); /* while the namespaces die */
    if (!run.dead && !leaves)
        (void)syscall(SYS_pidfd_send_signal, supervision->init_pidfd, SIGKILL, NULL, 0);
    struct pin_error stuck = {0};
    result->outlived = !wait_for_death(&run, &stuck);
    if (!result->outlived)
        reap(&run, &used);
    read_usage(&run, &used);
    clean_up(&run);
    if (!lived || !conclude(&run, err))
        return false;
    if (result->outlived)
        pin_result_note(result, &stuck);
    return true;
}
