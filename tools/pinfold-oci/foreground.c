#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <termios.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/io.h"
#include "tools/pinfold-oci/common.h"
#include "tools/pinfold-oci/terminal.h"

int pin_oci_take_master(int socket) {
    union {
        struct cmsghdr header;
        char room[CMSG_SPACE(sizeof(int))];
    } ancillary = {0};
    char name[64];
    struct iovec part = {name, sizeof(name)};
    struct msghdr message = {
        .msg_iov = &part, .msg_iovlen = 1, .msg_control = &ancillary, .msg_controllen = sizeof(ancillary)};
    int master = -1;
    if (recvmsg(socket, &message, MSG_CMSG_CLOEXEC) < 0)
        return -1;
    const struct cmsghdr *rights = CMSG_FIRSTHDR(&message);
    if (rights != NULL && rights->cmsg_type == SCM_RIGHTS)
        memcpy(&master, CMSG_DATA(rights), sizeof(master));
    return master;
}

struct foreground {
    pid_t pid;
    int pidfd, signals, master;
    bool raw;
    bool input; /* stdin has more */
    struct termios before;
};

static void copy_size(const struct foreground *self) {
    struct winsize size;
    if (self->master >= 0 && ioctl(STDIN_FILENO, TIOCGWINSZ, &size) == 0)
        (void)ioctl(self->master, TIOCSWINSZ, &size);
}

static void make_raw(struct foreground *self) {
    struct termios raw;
    if (self->master < 0 || tcgetattr(STDIN_FILENO, &self->before) != 0)
        return;
    raw = self->before;
    cfmakeraw(&raw);
    self->raw = tcsetattr(STDIN_FILENO, TCSANOW, &raw) == 0;
    copy_size(self);
}

/* False at the end of what there is to read. */
static bool copy_some(int from, int to) {
    char bytes[16 * 1024];
    struct pin_error ignored = {0};
    ssize_t got = read(from, bytes, sizeof(bytes));
    if (got < 0 && (errno == EINTR || errno == EAGAIN))
        return true;
    return got > 0 && pin_write_all(to, bytes, (size_t)got, &ignored);
}

/* Whether it is process 1 of its namespace and has no handler: the kernel then drops the signal. Whoever asks
 * for the end of a container in the foreground (a batch system, a service manager) has no other way. */
static bool is_deaf_init(pid_t pid, int number) {
    char path[32];
    PIN_FREE char *line = NULL;
    size_t room = 0;
    unsigned long long caught = ~0ULL;
    bool first = false;
    (void)snprintf(path, sizeof(path), "/proc/%d/status", (int)pid);
    FILE *status = fopen(path, "re");
    while (status != NULL && getline(&line, &room, status) > 0) {
        const char *last = strrchr(line, '\t');
        if (strncmp(line, "NSpid:", 6) == 0)
            first = last != NULL && strtol(last + 1, NULL, 10) == 1 && strchr(line, '\t') != last;
        else if (strncmp(line, "SigCgt:", 7) == 0)
            caught = strtoull(line + 7, NULL, 16);
    }
    if (status != NULL)
        (void)fclose(status);
    return first && (caught >> (number - 1) & 1) == 0;
}

static void hand_signal_on(const struct foreground *self) {
    struct signalfd_siginfo got;
    if (read(self->signals, &got, sizeof(got)) != (ssize_t)sizeof(got) || got.ssi_signo == SIGCHLD)
        return;
    if (got.ssi_signo == SIGWINCH)
        copy_size(self);
    else if (self->pidfd >= 0)
        (void)syscall(SYS_pidfd_send_signal, self->pidfd,
                      got.ssi_signo == SIGTERM && is_deaf_init(self->pid, SIGTERM) ? SIGKILL
                                                                                   : (int)got.ssi_signo,
                      NULL, 0);
}

/* Held until they can be handed on: one that comes while the container is being made must end it, and not us
 * alone. Its process begins with none blocked, and with the default of each. */
static void hold_signals(sigset_t *set) {
    static const int numbers[] = {SIGTERM, SIGINT,   SIGHUP,  SIGQUIT, SIGUSR1,
                                  SIGUSR2, SIGWINCH, SIGCHLD, SIGCONT};
    (void)sigemptyset(set);
    for (size_t i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++)
        (void)sigaddset(set, numbers[i]);
    (void)sigprocmask(SIG_BLOCK, set, NULL);
    (void)signal(SIGPIPE, SIG_IGN); /* a reader of ours that has gone is an error of writing */
}

void pin_oci_hold_signals(void) {
    sigset_t set;
    hold_signals(&set);
}

static int open_signals(void) {
    sigset_t set;
    hold_signals(&set);
    return signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
}

static void relay(struct foreground *self) {
    self->input = self->master >= 0;
    if (self->pidfd < 0)
        return;
    for (;;) {
        struct pollfd waits[] = {
            {self->pidfd,                     POLLIN, 0},
            {self->signals,                   POLLIN, 0},
            {self->master,                    POLLIN, 0},
            {self->input ? STDIN_FILENO : -1, POLLIN, 0},
        };
        if (poll(waits, 4, -1) < 0 && errno != EINTR)
            return;
        if (waits[1].revents)
            hand_signal_on(self);
        if (waits[2].revents && !copy_some(self->master, STDOUT_FILENO)) {
            (void)close(self->master); /* hangs up: nobody reads it any more */
            self->master = -1;
            self->input = false;
        }
        if (waits[3].revents && !copy_some(STDIN_FILENO, self->master))
            self->input = false;
        if (waits[0].revents)
            break;
    }
    while (self->master >= 0) { /* what it wrote before it ended */
        struct pollfd rest = {self->master, POLLIN, 0};
        if (poll(&rest, 1, 0) <= 0 || !copy_some(self->master, STDOUT_FILENO))
            break;
    }
}

int pin_oci_wait(pid_t pid, int pidfd, int terminal) {
    PIN_CLOSE int signals = open_signals();
    struct foreground self = {.pid = pid, .pidfd = pidfd, .signals = signals, .master = terminal};
    int status = 0;
    make_raw(&self);
    relay(&self);
    if (self.raw)
        (void)tcsetattr(STDIN_FILENO, TCSANOW, &self.before);
    pin_close_fd(&self.master);
    while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
        ;
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}
