#include "runtime/supervise/terminal.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/io.h"

static int set_attributes(int fd, const struct termios *attributes) {
    sigset_t ttou, before; /* which a background process is stopped by when it changes its terminal */
    (void)sigemptyset(&ttou);
    (void)sigaddset(&ttou, SIGTTOU);
    (void)sigprocmask(SIG_BLOCK, &ttou, &before);
    int status;
    do
        status = tcsetattr(fd, TCSADRAIN, attributes);
    while (status < 0 && errno == EINTR);
    (void)sigprocmask(SIG_SETMASK, &before, NULL);
    return status;
}

/* The descriptors are moved to 0 and 1, and all others closed: locks and control sockets must not outlive us.
 */
static bool keep_only(int terminal, int lifeline) {
    int from[2] = {fcntl(terminal, F_DUPFD, 2), fcntl(lifeline, F_DUPFD, 2)};
    return from[0] >= 0 && from[1] >= 0 && dup2(from[0], 0) == 0 && dup2(from[1], 1) == 1 &&
           syscall(SYS_close_range, 2u, ~0u, 0u) == 0;
}

/* A byte says that the terminal is as it was; the end of the file, that nobody is left to say so. */
static _Noreturn void guard(int terminal, int lifeline, const struct termios *saved) {
    sigset_t all;
    char byte;
    ssize_t got;
    (void)sigfillset(&all);
    (void)sigprocmask(SIG_SETMASK, &all, NULL);
    (void)prctl(PR_SET_NAME, "pinfold-tty", 0, 0, 0);
    (void)prctl(PR_SET_DUMPABLE, 0, 0, 0, 0);
    (void)setsid();
    if (!keep_only(terminal, lifeline) || write(1, "", 1) != 1)
        _exit(1);
    do
        got = read(1, &byte, 1);
    while (got < 0 && errno == EINTR);
    if (got == 0)
        (void)set_attributes(0, saved);
    _exit(0);
}

/* Not before it is out of the reach of what may end us. */
static bool await_guardian(int lifeline, struct pin_error *err) {
    char byte;
    ssize_t got;
    do
        got = read(lifeline, &byte, 1);
    while (got < 0 && errno == EINTR);
    return got == 1 || pin_fail(err, PIN_ERROR_SYSTEM, "the terminal's guardian has ended before it began");
}

static bool start_guardian(struct pin_terminal *terminal, struct pin_error *err) {
    int ends[2];
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) < 0)
        return pin_fail_errno(err, "make the socket of the terminal's guardian");
    pid_t pid = fork();
    if (pid == 0) {
        (void)close(ends[1]);
        guard(terminal->fd, ends[0], &terminal->saved);
    }
    (void)close(ends[0]);
    if (pid < 0) {
        (void)close(ends[1]);
        return pin_fail_errno(err, "start the terminal's guardian");
    }
    terminal->guardian = pid;
    terminal->lifeline = ends[1];
    return await_guardian(ends[1], err);
}

static void end_guardian(struct pin_terminal *terminal) {
    pin_ignore(send(terminal->lifeline, "", 1,
                    MSG_NOSIGNAL)); /* it may have been killed: then there is nobody to tell */
    pin_close_fd(&terminal->lifeline);
    while (waitpid(terminal->guardian, NULL, 0) < 0 && errno == EINTR)
        ;
}

bool pin_terminal_raw(struct pin_terminal *terminal, int fd, struct pin_error *err) {
    if (tcgetattr(fd, &terminal->saved) < 0)
        return pin_fail_errno(err, "read the terminal's settings");
    struct termios raw = terminal->saved;
    cfmakeraw(&raw);
    terminal->fd = fd;
    if (!start_guardian(terminal, err)) {
        if (terminal->guardian > 0)
            end_guardian(terminal);
        return false;
    }
    terminal->raw = true;
    if (set_attributes(fd, &raw) == 0)
        return true;
    (void)pin_fail_errno(err, "put the terminal into raw mode");
    pin_terminal_restore(terminal);
    return false;
}

void pin_terminal_restore(struct pin_terminal *terminal) {
    if (!terminal->raw)
        return;
    terminal->raw = false;
    (void)set_attributes(terminal->fd, &terminal->saved); /* the terminal may be gone */
    end_guardian(terminal);
}

bool pin_terminal_take(int master, int *reading, int *writing, struct pin_error *err) {
    if (!isatty(master))
        return pin_fail(err, PIN_ERROR_INTERNAL, "init sent a terminal that is none");
    PIN_CLOSE int in = fcntl(master, F_DUPFD_CLOEXEC, 0);
    PIN_CLOSE int out = fcntl(master, F_DUPFD_CLOEXEC, 0);
    if (fcntl(master, F_SETFL, O_NONBLOCK) < 0 || in < 0 || out < 0)
        return pin_fail_errno(err, "prepare the terminal inside");
    *reading = pin_steal_fd(&in);
    *writing = pin_steal_fd(&out);
    return true;
}

void pin_terminal_size(int fd, uint16_t *rows, uint16_t *columns) {
    struct winsize size = {0};
    if (fd < 0 || ioctl(fd, TIOCGWINSZ, &size) < 0 || size.ws_row == 0 || size.ws_col == 0)
        size = (struct winsize){.ws_row = 24, .ws_col = 80};
    *rows = size.ws_row;
    *columns = size.ws_col;
}

void pin_terminal_follow(int master, int fd) {
    struct winsize size;
    if (ioctl(fd, TIOCGWINSZ, &size) == 0)
        (void)ioctl(master, TIOCSWINSZ, &size);
}
