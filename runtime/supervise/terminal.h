/* terminal.h: the caller's terminal in raw mode for as long as a terminal inside stands for it.
 *
 * A guardian, a process that holds nothing but the terminal and one end of a socket, puts it back where this
 * process can't: it is killed, or a signal that nobody has thought of ends it. It leads a session of its own,
 * so that what ends the foreground group doesn't end it too, and it goes when its other end is closed.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>
#include <termios.h>

#include "base/error.h"

struct pin_terminal { /* zeroed: nothing to restore */
    int fd;
    bool raw;
    struct termios saved;
    pid_t guardian;
    int lifeline; /* the guardian acts when its last copy is closed */
};

bool pin_terminal_raw(struct pin_terminal *terminal, int fd, struct pin_error *err);
/* As it was before; also from the background. Fine when nothing was changed. */
void pin_terminal_restore(struct pin_terminal *terminal);

/* The terminal inside, from init: non-blocking now, with a descriptor to read by and one to write by, which
 * are the caller's; `master` stays whose it is. False for anything but a terminal. */
bool pin_terminal_take(int master, int *reading, int *writing, struct pin_error *err);

/* The size of the window; 24 by 80 where the terminal doesn't say. */
void pin_terminal_size(int fd, uint16_t *rows, uint16_t *columns);
/* Gives the terminal of `master` the size of the caller's. */
void pin_terminal_follow(int master, int fd);
