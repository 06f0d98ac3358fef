/* Commands that live between cells (docs/code.md "Time"): they end when no cell has run for a while, at the
 * end of their lifetime, or when they compute with nobody asking for as long as a command may last. */
#include "base/clock.h"
#include "base/units.h"
#include "runtime/kept/call.h"

#define CPU_CHECK_NS PIN_NS_PER_S

static uint64_t least(uint64_t a, uint64_t b) {
    return a < b ? a : b;
}

static uint64_t cpu_used(const struct exec *exec) {
    struct pin_cgroup_usage usage = {0};
    return pin_exec_usage(exec, &usage) ? usage.cpu_ns : 0;
}

static uint64_t idle_limit(const struct exec *exec) {
    uint64_t asked_ns = exec->request.has_idle ? exec->request.idle_ms * PIN_NS_PER_MS : PIN_UNLIMITED;
    /* nobody can say what it uses meanwhile */
    return exec->leaf.group != NULL ? asked_ns : least(asked_ns, exec->kept->given->limits.wall_time_ns);
}

static uint64_t end_of_life(const struct exec *exec) {
    return exec->request.has_lifetime ? pin_later(exec->started_ns, exec->request.lifetime_ms * PIN_NS_PER_MS)
                                      : UINT64_MAX;
}

static void set_time_or_end(struct exec *exec);

static void on_time(void *self) {
    struct exec *exec = self;
    uint64_t now = pin_now_ns();
    exec->wall = NULL;
    if (now >= end_of_life(exec) || (exec->cells == 0 && now >= pin_later(exec->active_ns, idle_limit(exec))))
        pin_exec_terminate(exec, PIN_STATUS_TIMEOUT);
    else
        set_time_or_end(exec);
}

static bool set_time(struct exec *exec, struct pin_error *err) {
    uint64_t idle_end = exec->cells > 0 ? UINT64_MAX : pin_later(exec->active_ns, idle_limit(exec));
    uint64_t at = least(idle_end, end_of_life(exec));
    pin_timer_cancel(&exec->wall);
    if (at == UINT64_MAX)
        return true;
    exec->wall = pin_loop_at(exec->kept->loop, at, on_time, exec, err);
    return exec->wall != NULL;
}

static void set_time_or_end(struct exec *exec) {
    struct pin_error err = {0};
    if (!set_time(exec, &err))
        pin_kept_fail(exec->kept, &err);
}

/* A cell has its own limit of time, and its client ends the context that doesn't keep it. */
static uint64_t cpu_budget(const struct exec *exec) {
    const struct pin_limits *limits = &exec->kept->given->limits;
    return exec->cells > 0 ? limits->cpu_time_ns : least(limits->cpu_time_ns, limits->wall_time_ns);
}

static bool set_cpu_check(struct exec *exec, struct pin_error *err);

static void on_cpu_check(void *self) {
    struct exec *exec = self;
    struct pin_error err = {0};
    exec->cpu = NULL;
    if (cpu_used(exec) - exec->cpu_before_ns >= cpu_budget(exec))
        pin_exec_terminate(exec, PIN_STATUS_TIMEOUT);
    else if (!set_cpu_check(exec, &err))
        pin_kept_fail(exec->kept, &err);
}

static bool set_cpu_check(struct exec *exec, struct pin_error *err) {
    pin_timer_cancel(&exec->cpu);
    if (exec->leaf.group == NULL || cpu_budget(exec) == PIN_UNLIMITED)
        return true;
    exec->cpu = pin_loop_at(exec->kept->loop, pin_later(pin_now_ns(), CPU_CHECK_NS), on_cpu_check, exec, err);
    return exec->cpu != NULL;
}

bool pin_context_set_limits(struct exec *exec, struct pin_error *err) {
    exec->active_ns = pin_now_ns();
    return set_time(exec, err) && set_cpu_check(exec, err);
}

bool pin_context_check(const struct pin_kept *kept, const struct pin_kept_request *request,
                       struct pin_error *err) {
    const struct exec *context = kept->execs;
    if (request->context && !request->detach)
        return pin_fail(err, PIN_ERROR_INVALID, "a context must be detached");
    if (!request->context && (request->has_idle || request->has_lifetime))
        return pin_fail(err, PIN_ERROR_INVALID, "idle_ms and lifetime_ms are of contexts");
    if (request->hand &&
        (request->cell_of == 0 || !request->input || (request->frames & PIN_FRAMES_FD) == 0 || request->tty ||
         request->detach || request->context || request->user != NULL || request->env_count > 0 ||
         request->secret_count > 0))
        return pin_fail(err, PIN_ERROR_INVALID,
                        "what is handed to a context is a cell, with input and frames");
    if (request->cell_of == 0)
        return true;
    while (context != NULL && (context->id != request->cell_of || context->state == EXEC_DONE))
        context = context->next;
    return (context != NULL && context->request.context) ||
           pin_fail(err, PIN_ERROR_NOT_FOUND, "no context of the number %llu runs",
                    (unsigned long long)request->cell_of);
}

static void count_cell(struct exec *cell, bool begins) {
    struct exec *context = pin_exec_find(cell->kept, cell->request.cell_of);
    struct pin_error err = {0};
    bool runs = context != NULL && context->state == EXEC_RUNNING;
    cell->is_cell = begins && runs;
    if (!runs)
        return;
    context->cells = begins ? context->cells + 1 : context->cells - 1;
    context->active_ns = pin_now_ns();
    context->cpu_before_ns = cpu_used(context);
    if (!set_time(context, &err) || !set_cpu_check(context, &err))
        pin_kept_fail(context->kept, &err);
}

void pin_context_cell_begins(struct exec *cell) {
    if (cell->request.cell_of != 0)
        count_cell(cell, true);
}

void pin_context_cell_ends(struct exec *cell) {
    if (cell->is_cell)
        count_cell(cell, false);
}

bool pin_kept_is_busy(const struct pin_kept *kept) {
    for (const struct exec *exec = kept->execs; exec != NULL; exec = exec->next)
        if (!exec->request.context || exec->cells > 0)
            return true;
    return pin_runner_is_busy(kept);
}
