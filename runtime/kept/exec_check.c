#include <string.h>

#include "base/units.h"
#include "runtime/kept/parts.h"

static size_t count_of(const struct pin_kept *kept, pid_t peer) {
    size_t count = 0;
    for (const struct exec *exec = kept->execs; exec != NULL; exec = exec->next)
        count += exec->peer == peer;
    return count;
}

bool pin_exec_check(const struct conn *conn, const struct pin_kept_request *request,
                    struct pin_exec_user *user, struct pin_error *err) {
    const struct pin_kept *kept = conn->kept;
    const struct pin_kept_given *given = kept->given;
    size_t wanted = (size_t)request->input + request->out + request->err;
    size_t given_fds = conn->fd_count + request->lent_count;
    if (wanted != given_fds)
        return pin_fail(err, PIN_ERROR_INVALID, "%zu descriptors came or are lent, and %zu are asked for",
                        given_fds, wanted);
    if (kept->ending)
        return pin_fail(err, PIN_ERROR_BUSY, "the sandbox is ending");
    if (kept->paused) {
        (void)pin_fail(err, PIN_ERROR_BUSY, "the sandbox is paused");
        return pin_hint(err, "'pinfold resume %s' lets it go on", given->name);
    }
    if (kept->exec_count >= EXECS_MAX)
        return pin_fail(err, PIN_ERROR_EXHAUSTED, "%d commands run in this sandbox already", EXECS_MAX);
    if (!pin_peer_may(count_of(kept, conn->peer), EXECS_MAX, "commands", err))
        return false;
    if (request->tty && !given->tty)
        return pin_fail(err, PIN_ERROR_REFUSED, "the policy grants no terminal");
    if (request->user != NULL && !pin_exec_choose_user(given, request->user, user, err))
        return false;
    if (!pin_exec_may_have_secrets(kept, request, err))
        return false;
    if (request->has_timeout && given->limits.wall_time_ns != PIN_UNLIMITED &&
        request->timeout_ms > given->limits.wall_time_ns / PIN_NS_PER_MS)
        return pin_fail(err, PIN_ERROR_REFUSED, "the policy grants a command %llu ms at most",
                        (unsigned long long)(given->limits.wall_time_ns / PIN_NS_PER_MS));
    if (!pin_context_check(kept, request, err))
        return false;
    for (size_t i = 0; i < request->env_count; i++)
        if (!given->may_set(given->self, request->env[i]))
            return pin_fail(err, PIN_ERROR_REFUSED, "the policy refuses the variable '%.*s'",
                            (int)strcspn(request->env[i], "="), request->env[i]);
    return true;
}
