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

enum { WORDS_MOST = 256 };

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

static bool wait_for(pid_t pid, int pidfd, uint32_t timeout_s, int *status) {
    struct pollfd ended = {.fd = pidfd, .events = POLLIN};
    int ready;
    while ((ready = poll(&ended, 1, timeout_s > 0 ? (int)(timeout_s * 1000) : -1)) < 0 && errno == EINTR)
        ;
    if (ready == 0) /* with all that it has started, or that would hold on to our stdio */
        (void)kill(-pid, SIGKILL);
    while (waitpid(pid, status, 0) < 0 && errno == EINTR)
        ;
    return ready > 0;
}

static bool run_one(const struct pin_bundle_hook *hook, const char *state, struct pin_error *err) {
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
    if (!wait_for(pid, pidfd, hook->timeout_s, &status))
        return pin_fail(err, PIN_ERROR_SYSTEM, "it ran past its timeout of %u s", hook->timeout_s);
    if (WIFEXITED(status) && WEXITSTATUS(status) == 127)
        return pin_fail(err, PIN_ERROR_NOT_FOUND, "no such file or directory");
    if (status != 0)
        return pin_fail(err, PIN_ERROR_SYSTEM, "exit status %d",
                        WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status));
    return true;
}

bool pin_hooks_run(const struct pin_bundle *bundle, enum pin_hook_stage stage, const char *state,
                   struct pin_error *err) {
    for (size_t i = 0; i < bundle->hook_count[stage]; i++) {
        const struct pin_bundle_hook *hook = &bundle->hooks[stage][i];
        if (!run_one(hook, state, err))
            return pin_wrap(err, "error running %s hook #%zu '%s'", pin_hook_stage_name(stage), i,
                            hook->path);
    }
    return true;
}
