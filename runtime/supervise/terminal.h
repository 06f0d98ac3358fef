/* terminal.h: the caller's terminal in raw mode for as long as a terminal inside stands for it.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <termios.h>

#include "base/error.h"

struct pin_terminal { /* zeroed: nothing to restore */
    int fd;
    bool raw;
    struct termios saved;
};

bool pin_terminal_raw(struct pin_terminal *terminal, int fd, struct pin_error *err);
/* As it was before; also from the background. Fine when nothing was changed. */
void pin_terminal_restore(struct pin_terminal *terminal);

/* The size of the window; 24 by 80 where the terminal doesn't say. */
void pin_terminal_size(int fd, uint16_t *rows, uint16_t *columns);
/* Gives the terminal of `master` the size of the caller's. */
void pin_terminal_follow(int master, int fd);
