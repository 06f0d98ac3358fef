/* pipe.h: bytes on their way from one socket to another that stay in the kernel: moved, not copied
 * (splice(2)).
 *
 * Whoever has something waiting has a pipe of its own; an empty one goes back, for whoever is next. So bytes
 * of two connections never meet in one, and a few are enough. Each may keep pages of the sender's alive that
 * are larger than what was sent: hence the bound on how many there are.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

struct pipe {
    int read, write; /* -1: none */
};
#define PIPE_NONE                                                                                            \
    (struct pipe) {                                                                                          \
        -1, -1                                                                                               \
    }

struct pipes {
    struct pipe spare; /* empty */
    unsigned taken;
    unsigned refused; /* the kernel has: so many times it isn't asked */
};

/* False: there is none to be had, now. */
bool pipe_take(struct pipes *pipes, struct pipe *pipe);
/* It is empty again. */
void pipe_return(struct pipes *pipes, struct pipe *pipe);
/* What is in it is lost; harmless without one. */
void pipe_drop(struct pipes *pipes, struct pipe *pipe);

/* As recv(2) and send(2) of a socket with O_NONBLOCK, which is what counts; `most` of the second is what is
 * in it. Urgent data that is next in the socket looks like nothing (EAGAIN) to the first, or like the end,
 * until recv(2) has gone past it. */
ssize_t pipe_fill(const struct pipe *pipe, int from, size_t most);
ssize_t pipe_empty(const struct pipe *pipe, int to, size_t most);
