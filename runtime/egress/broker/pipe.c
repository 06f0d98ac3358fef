#include "runtime/egress/broker/pipe.h"

#include <fcntl.h>
#include <unistd.h>

#define TAKEN_MAX 8 /* so that these are 32 MiB at most */
#define PIPE_BYTES                                                                                           \
    (512 * 1024) /* a place for each 4 KiB of it; in each a page of up to 32 KiB of the sender's */

static void close_both(struct pipe *pipe) {
    (void)close(pipe->read);
    (void)close(pipe->write);
    *pipe = PIPE_NONE;
}

static bool make(struct pipe *pipe) {
    int ends[2];
    if (pipe2(ends, O_CLOEXEC | O_NONBLOCK) != 0)
        return false;
    *pipe = (struct pipe){ends[0], ends[1]};
    (void)fcntl(pipe->write, F_SETPIPE_SZ, PIPE_BYTES); /* past the user's share it stays small: pipe(7) */
    return true;
}

bool pipe_take(struct pipes *pipes, struct pipe *pipe) {
    if (pipes->taken == TAKEN_MAX)
        return false;
    if (pipes->spare.read >= 0) {
        *pipe = pipes->spare;
        pipes->spare = PIPE_NONE;
    } else if (!make(pipe)) {
        return false;
    }
    pipes->taken++;
    return true;
}

void pipe_return(struct pipes *pipes, struct pipe *pipe) {
    if (pipes->spare.read >= 0) {
        pipe_drop(pipes, pipe);
        return;
    }
    pipes->spare = *pipe;
    *pipe = PIPE_NONE;
    pipes->taken--;
}

void pipe_drop(struct pipes *pipes, struct pipe *pipe) {
    if (pipe->read < 0)
        return;
    close_both(pipe);
    pipes->taken--;
}

ssize_t pipe_fill(const struct pipe *pipe, int from, size_t most) {
    return splice(from, NULL, pipe->write, NULL, most, SPLICE_F_NONBLOCK);
}

ssize_t pipe_empty(const struct pipe *pipe, int to, size_t most) {
    return splice(pipe->read, NULL, to, NULL, most, SPLICE_F_NONBLOCK);
}
