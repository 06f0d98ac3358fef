#include "runtime/build/hooks.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <linux/sched.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/units.h"

enum { WORDS_MOST = 256, LOOK_MS = 50 };
enum hook_end { HOOK_ENDED, HOOK_LATE, HOOK_CALLED_OFF };

static bool copy_words(const char *const *from, size_t count, char *to[WORDS_MOST]) {
    if (count >= WORDS_MOST)
        return false;
    for (size_t i = 0; i < count; i++)
        to[i] = (char *)(uintptr_t)from[i];
    to[count] = NULL;
    return true;
}

_Noreturn static void execute(const struct pin_bundle_hook *hook, int input) {
    char *argv[WORDS_MOST], *envp[WORDS_MOST];
    sigset_t none;
    if (!copy_words(hook->args, hook->arg_count, argv) || !copy_words(hook->env, hook->env_count, envp))
        _exit(126);
    if (hook->arg_count == 0) {
        argv[0] = (char *)(uintptr_t)hook->path;
        argv[1] = NULL;
    }
    (void)setpgid(0, 0);
    (void)sigemptyset(&none);
    (void)sigprocmask(SIG_SETMASK, &none, NULL);
    (void)signal(SIGPIPE, SIG_DFL);
    if (dup2(input, STDIN_FILENO) != STDIN_FILENO || syscall(SYS_close_range, 3, ~0u, 0) != 0)
        _exit(126);
    (void)execve(hook->path, argv, envp);
    _exit(errno == ENOENT ? 127 : 126);
}

static enum hook_end wait_for(pid_t pid, int pidfd, uint32_t timeout_s, const struct pin_hook_watch *watch,
                              int *status) {
    uint64_t end_ns = timeout_s > 0 ? pin_later(pin_now_ns(), timeout_s * PIN_NS_PER_S) : UINT64_MAX;
    struct pollfd ended = {.fd = pidfd, .events = POLLIN};
    enum hook_end end = HOOK_ENDED;
    while (end == HOOK_ENDED && poll(&ended, 1, LOOK_MS) <= 0) {
        if (pin_now_ns() >= end_ns)
            end = HOOK_LATE;
        else if (watch != NULL && watch->is_over(watch->self))
            end = HOOK_CALLED_OFF;
    }
    if (end != HOOK_ENDED) /* with all that it has started, or that would hold on to our stdio */
        (void)kill(-pid, SIGKILL);
    while (waitpid(pid, status, 0) < 0 && errno == EINTR)
        ;
    return end;
}

static bool judge(const struct pin_bundle_hook *hook, enum hook_end end, int status, struct pin_error *err) {
    switch (end) {
    case HOOK_LATE:
        return pin_fail(err, PIN_ERROR_SYSTEM, "it ran past its timeout of %u s", hook->timeout_s);
    case HOOK_CALLED_OFF: return pin_fail(err, PIN_ERROR_BUSY, "the container is being deleted");
    case HOOK_ENDED: break;
    }
    if (WIFEXITED(status) && WEXITSTATUS(status) == 127)
        return pin_fail(err, PIN_ERROR_NOT_FOUND, "no such file or directory");
    return status == 0 || pin_fail(err, PIN_ERROR_SYSTEM, "exit status %d",
                                   WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status));
}

static bool run_one(const struct pin_bundle_hook *hook, const char *state, const struct pin_hook_watch *watch,
                    struct pin_error *err) {
    int ends[2], status = 0, fd = -1;
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0)
        return pin_fail_errno(err, "make the hook's input");
    PIN_CLOSE int ours = ends[0], theirs = ends[1];
    struct clone_args args = {
        .flags = CLONE_PIDFD, .pidfd = (uint64_t)(uintptr_t)&fd, .exit_signal = SIGCHLD};
    pid_t pid = (pid_t)syscall(SYS_clone3, &args, sizeof(args));
    if (pid == 0)
        execute(hook, theirs);
    PIN_CLOSE int pidfd = fd;
    if (pid > 0)
        (void)setpgid(pid, pid); /* whoever is first: it must be one before it can run out of time */
    if (pid < 0)
        return pin_fail_errno(err, "start the hook");
    pin_close_fd(&theirs);
    /* a socket's buffer holds the state; a hook that doesn't read it must not stop us */
    (void)send(ours, state, strlen(state), MSG_NOSIGNAL | MSG_DONTWAIT);
    (void)shutdown(ours, SHUT_WR);
    enum hook_end end = wait_for(pid, pidfd, hook->timeout_s, watch, &status);
    return judge(hook, end, status, err);
}

bool pin_hooks_run(const struct pin_bundle *bundle, enum pin_hook_stage stage, const char *state,
                   const struct pin_hook_watch *watch, struct pin_error *err) {
    bool goes_on = stage == PIN_HOOK_POSTSTOP;
    for (size_t i = 0; i < bundle->hook_count[stage] && (goes_on || !pin_is_set(err)); i++) {
        const struct pin_bundle_hook *hook = &bundle->hooks[stage][i];
        struct pin_error failed = {0};
        if (run_one(hook, state, watch, &failed) || pin_is_set(err))
            continue;
        (void)pin_wrap(&failed, "error running %s hook #%zu '%s'", pin_hook_stage_name(stage), i, hook->path);
        *err = failed;
    }
    return !pin_is_set(err);
}
