#include "runtime/supervise/terminal.h"

#include <errno.h>
#include <signal.h>
#include <sys/ioctl.h>

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

bool pin_terminal_raw(struct pin_terminal *terminal, int fd, struct pin_error *err) {
    if (tcgetattr(fd, &terminal->saved) < 0)
        return pin_fail_errno(err, "read the terminal's settings");
    struct termios raw = terminal->saved;
    cfmakeraw(&raw);
    if (set_attributes(fd, &raw) < 0)
        return pin_fail_errno(err, "put the terminal into raw mode");
    terminal->fd = fd;
    terminal->raw = true;
    return true;
}

void pin_terminal_restore(struct pin_terminal *terminal) {
    if (!terminal->raw)
        return;
    terminal->raw = false;
    (void)set_attributes(terminal->fd, &terminal->saved); /* the terminal may be gone */
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
