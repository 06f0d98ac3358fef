#include "runtime/secrets/command.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/units.h"
#include "runtime/private/private_dir.h"

#define PATIENCE_NS (10 * PIN_NS_PER_S)
#define EXIT_HAS_IT_NOT 1
#define EXIT_NOT_RUN 126

static const struct pin_private_place place = {"PINFOLD_SECRETS_COMMAND", "/etc/pinfold/secrets-command",
                                               "XDG_CONFIG_HOME", ".config", "pinfold/secrets-command"};

/* -1 without an error: there is none. */
static int open_program(char path[PATH_MAX], struct pin_error *err) {
    struct stat facts;
    if (!pin_private_choose(&place, path, err))
        return -1;
    PIN_CLOSE int program = open(path, O_PATH | O_NOFOLLOW | O_CLOEXEC);
    if (program < 0 && (errno == ENOENT || errno == ENOTDIR))
        return -1;
    if (program < 0 || fstat(program, &facts) != 0) {
        (void)pin_fail_errno(err, "open the command of secrets '%s'", path);
        return -1;
    }
    if (S_ISREG(facts.st_mode) && (facts.st_uid == 0 || facts.st_uid == geteuid()) &&
        (facts.st_mode & 0022) == 0 && (facts.st_mode & 0111) != 0)
        return pin_steal_fd(&program);
    (void)pin_fail(err, PIN_ERROR_REFUSED,
                   "the command of secrets '%s' isn't a program that you alone may change", path);
    (void)pin_hint(err, "it must be a file of root's or your own, mode 0755 or less");
    return -1;
}

bool pin_secret_command_exists(struct pin_error *err) {
    char path[PATH_MAX];
    PIN_CLOSE int program = open_program(path, err);
    return program >= 0;
}

/* In the child. */
static void become(const char *path, const char *name, int out) {
    char home[PATH_MAX + 8] = "HOME=/", lang[64] = "LANG=C.UTF-8";
    char search[] = "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";
    char *const env[] = {search, home, lang, NULL};
    const char *argv[] = {path, name, NULL};
    sigset_t none;
    if (getenv("HOME") != NULL)
        (void)snprintf(home, sizeof(home), "HOME=%s", getenv("HOME"));
    int null = open("/dev/null", O_RDWR | O_CLOEXEC);
    (void)setsid();
    (void)prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
    (void)sigemptyset(&none);
    (void)sigprocmask(SIG_SETMASK, &none, NULL);
    (void)signal(SIGPIPE, SIG_DFL);
    (void)signal(SIGXFSZ, SIG_DFL);
    if (null >= 0 && dup2(null, STDIN_FILENO) >= 0 && dup2(out, STDOUT_FILENO) >= 0 &&
        dup2(null, STDERR_FILENO) >= 0 && syscall(SYS_close_range, 3, ~0u, 0) == 0)
        (void)execve(path, (char *const *)(uintptr_t)argv, env);
    _exit(EXIT_NOT_RUN);
}

/* True at the end of its output; false with an error at the end of patience, or when it prints too much. */
static bool read_all(int from, uint8_t *to, size_t room, size_t *size, struct pin_error *err) {
    uint64_t until = pin_now_ns() + PATIENCE_NS;
    for (;;) {
        uint64_t now = pin_now_ns();
        struct pollfd ready = {.fd = from, .events = POLLIN};
        int found = now >= until ? 0 : poll(&ready, 1, (int)((until - now) / PIN_NS_PER_MS) + 1);
        if (found < 0 && errno == EINTR)
            continue;
        if (found <= 0)
            return found < 0 ? pin_fail_errno(err, "wait for it")
                             : pin_fail(err, PIN_ERROR_EXHAUSTED, "its command took more than ten seconds");
        ssize_t got = read(from, to + *size, room - *size);
        if (got <= 0)
            return got == 0 || pin_fail_errno(err, "read it");
        *size += (size_t)got;
        if (*size == room)
            return pin_fail(err, PIN_ERROR_INVALID, "longer than %zu bytes", room - 1);
    }
}

/* It has closed its output: what is still of its session has nothing more to do here. */
static int reap(pid_t child) {
    int status = 0;
    uint64_t until = pin_now_ns() + PIN_NS_PER_S;
    while (waitpid(child, &status, WNOHANG) == 0 && pin_now_ns() < until)
        (void)poll(NULL, 0, 1);
    (void)kill(-child, SIGKILL);
    while (waitpid(child, &status, 0) < 0 && errno == EINTR)
        ;
    return status;
}

static bool judge(int status, struct pin_error *err) {
    if (WIFEXITED(status) && WEXITSTATUS(status) == 0)
        return true;
    if (WIFEXITED(status) && WEXITSTATUS(status) == EXIT_HAS_IT_NOT)
        return false;
    return pin_fail(err, PIN_ERROR_SYSTEM, "its command failed (%s %d)",
                    WIFEXITED(status) ? "exit status" : "signal",
                    WIFEXITED(status) ? WEXITSTATUS(status) : WTERMSIG(status));
}

bool pin_secret_command_run(const char *name, size_t keep, size_t most, struct pin_locked *memory,
                            size_t *size, struct pin_error *err) {
    char path[PATH_MAX];
    int ends[2], status = 0;
    PIN_CLOSE int program = open_program(path, err);
    if (program < 0 || !pin_locked_alloc(memory, keep + most + 2, err))
        return false;
    if (pipe2(ends, O_CLOEXEC) != 0)
        return pin_fail_errno(err, "make a pipe");
    PIN_CLOSE int from = ends[0];
    pid_t child = fork();
    if (child == 0)
        become(path, name, ends[1]);
    (void)close(ends[1]);
    if (child < 0)
        return pin_fail_errno(err, "run the command of secrets");
    *size = 0;
    bool whole = read_all(from, memory->bytes + keep, most + 1, size, err);
    if (!whole)
        (void)kill(-child, SIGKILL);
    pin_close_fd(&from);
    if (whole) {
        status = reap(child);
        return judge(status, err);
    }
    (void)kill(child, SIGKILL); /* it may not have its session yet */
    while (waitpid(child, &status, 0) < 0 && errno == EINTR)
        ;
    return false;
}
