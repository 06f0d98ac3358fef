#include "runtime/egress/broker/pipe.h"

#include <fcntl.h>
#include <unistd.h>

/* A place in a pipe for each 4 KiB of its size; each place may keep 32 KiB of the sender's pages: 32 MiB in
 * all. */
#define PIPE_BYTES (512 * 1024)
#define TAKEN_MAX 8
/* Where the user's share of all pipes is used up (pipe(7)): a smaller one is worse than none, and asking
 * costs. */
#define REFUSED 1000

static void close_both(struct pipe *pipe) {
    (void)close(pipe->read);
    (void)close(pipe->write);
    *pipe = PIPE_NONE;
}

static bool make(struct pipes *pipes, struct pipe *pipe) {
    int ends[2];
    if (pipe2(ends, O_CLOEXEC | O_NONBLOCK) != 0)
        return false;
    *pipe = (struct pipe){ends[0], ends[1]};
    if (fcntl(pipe->write, F_SETPIPE_SZ, PIPE_BYTES) >= 0)
        return true;
    close_both(pipe);
    pipes->refused = REFUSED;
    return false;
}

bool pipe_take(struct pipes *pipes, struct pipe *pipe) {
    if (pipes->taken == TAKEN_MAX)
        return false;
    if (pipes->spare.read >= 0) {
        *pipe = pipes->spare;
        pipes->spare = PIPE_NONE;
    } else if (pipes->refused > 0) {
        pipes->refused--;
        return false;
    } else if (!make(pipes, pipe)) {
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
