#include "runtime/supervise/sink.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"

#define LARGE_PIPE (1024 * 1024)
#define KEPT_IDLE ((size_t)64 * 1024) /* what an empty sink may hold on to */

enum manner {
    WRITE_FILE,     /* a file, a device: it takes bytes at the speed of the machine */
    WRITE_NONBLOCK, /* write(2) says EAGAIN */
    WRITE_SOCKET,   /* send(2) with MSG_DONTWAIT */
    WRITE_POLLED,   /* poll(2) first, then no more than a pipe takes at once */
};

struct pin_sink {
    struct pin_loop *loop;
    struct pin_source *room; /* watches for it; made when it is first needed */
    struct pin_sink_events events;
    int fd;
    int own_fd; /* to be closed; -1: none */
    enum manner manner;
    bool broken, grown;
    uint8_t *kept;
    size_t kept_at, kept_end, kept_room;
};

/* Another open file description of the same pipe or terminal: O_NONBLOCK on it is ours alone. */
static int reopen(int fd) {
    char path[32];
    (void)snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
    return open(path, O_WRONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
}

static void choose_manner(struct pin_sink *sink, int fd) {
    struct stat info;
    int flags = fcntl(fd, F_GETFL);
    sink->manner = WRITE_POLLED;
    if (fstat(fd, &info) < 0)
        return;
    if (S_ISREG(info.st_mode) || S_ISBLK(info.st_mode) || (S_ISCHR(info.st_mode) && !isatty(fd))) {
        sink->manner = WRITE_FILE;
    } else if (S_ISSOCK(info.st_mode)) {
        sink->manner = WRITE_SOCKET;
    } else if (flags >= 0 && (flags & O_NONBLOCK)) {
        sink->manner = WRITE_NONBLOCK;
    } else {
        int ours = reopen(fd);
        if (ours < 0)
            return;
        pin_close_fd(&sink->own_fd);
        sink->own_fd = sink->fd = ours;
        sink->manner = WRITE_NONBLOCK;
    }
}

struct pin_sink *pin_sink_new(struct pin_loop *loop, int fd, bool owned, const struct pin_sink_events *events,
                              struct pin_error *err) {
    struct pin_sink *sink = calloc(1, sizeof(*sink));
    if (sink == NULL) {
        (void)pin_fail_errno(err, "prepare output");
        return NULL;
    }
    sink->loop = loop;
    sink->events = *events;
    sink->fd = fd;
    sink->own_fd = owned ? fd : -1;
    choose_manner(sink, fd);
    return sink;
}

void pin_sink_free(struct pin_sink *sink) {
    if (sink == NULL)
        return;
    pin_source_remove(&sink->room);
    pin_close_fd(&sink->own_fd);
    free(sink->kept);
    free(sink);
}

bool pin_sink_is_full(const struct pin_sink *sink) {
    return sink->kept_end > sink->kept_at;
}

static ssize_t write_polled(int fd, const void *data, size_t size) {
    struct pollfd room = {.fd = fd, .events = POLLOUT};
    if (poll(&room, 1, 0) == 0) {
        errno = EAGAIN;
        return -1;
    }
    return write(fd, data, size < PIPE_BUF ? size : PIPE_BUF);
}

static ssize_t write_some(const struct pin_sink *sink, const void *data, size_t size) {
    switch (sink->manner) {
    case WRITE_FILE:
    case WRITE_NONBLOCK: return write(sink->fd, data, size);
    case WRITE_SOCKET: return send(sink->fd, data, size, MSG_DONTWAIT | MSG_NOSIGNAL);
    case WRITE_POLLED: return write_polled(sink->fd, data, size);
    }
    abort();
}

static void break_off(struct pin_sink *sink, int error) {
    sink->broken = true;
    sink->kept_at = sink->kept_end = 0;
    if (sink->room != NULL)
        pin_source_pause(sink->room);
    if (sink->events.broken != NULL)
        sink->events.broken(sink->events.self, error);
}

/* How much went out; the rest waits for room, or for nothing when the sink broke. */
static size_t write_now(struct pin_sink *sink, const uint8_t *data, size_t size) {
    size_t done = 0;
    while (done < size) {
        ssize_t wrote = write_some(sink, data + done, size - done);
        if (wrote >= 0) {
            done += (size_t)wrote;
        } else if (errno != EINTR) {
            if (errno != EAGAIN)
                break_off(sink, errno);
            return done;
        }
    }
    return done;
}

static void on_room(void *self, unsigned events) {
    struct pin_sink *sink = self;
    (void)events; /* an error shows in the write */
    sink->kept_at += write_now(sink, sink->kept + sink->kept_at, sink->kept_end - sink->kept_at);
    if (sink->broken || sink->kept_at < sink->kept_end)
        return;
    sink->kept_at = sink->kept_end = 0;
    if (sink->kept_room > KEPT_IDLE) {
        free(sink->kept);
        sink->kept = NULL;
        sink->kept_room = 0;
    }
    pin_source_pause(sink->room);
    if (sink->events.drained != NULL)
        sink->events.drained(sink->events.self);
}

static bool wait_for_room(struct pin_sink *sink) {
    struct pin_error err = {0};
    if (sink->room != NULL)
        pin_source_resume(sink->room);
    else
        sink->room = pin_loop_watch(sink->loop, sink->fd, POLLOUT, on_room, sink, &err);
    return sink->room != NULL;
}

static bool make_room(struct pin_sink *sink, size_t size) {
    if (sink->kept_at > 0) {
        memmove(sink->kept, sink->kept + sink->kept_at, sink->kept_end - sink->kept_at);
        sink->kept_end -= sink->kept_at;
        sink->kept_at = 0;
    }
    size_t wanted = sink->kept_end + size;
    if (wanted <= sink->kept_room)
        return true;
    uint8_t *larger = realloc(sink->kept, wanted + wanted / 2);
    if (larger == NULL)
        return false;
    sink->kept = larger;
    sink->kept_room = wanted + wanted / 2;
    return true;
}

static void keep(struct pin_sink *sink, const uint8_t *data, size_t size) {
    if (!make_room(sink, size) || !wait_for_room(sink)) {
        break_off(sink, ENOMEM);
        return;
    }
    memcpy(sink->kept + sink->kept_end, data, size);
    sink->kept_end += size;
    if (!sink->grown &&
        size >= PIPE_BUF) /* fewer wake-ups; where it isn't a pipe, or too many are large, no matter */
        (void)fcntl(sink->fd, F_SETPIPE_SZ, LARGE_PIPE);
    sink->grown = sink->grown || size >= PIPE_BUF;
}

void pin_sink_write(struct pin_sink *sink, const void *data, size_t size) {
    size_t done = 0;
    if (!sink->broken && !pin_sink_is_full(sink))
        done = write_now(sink, data, size);
    if (!sink->broken && done < size)
        keep(sink, (const uint8_t *)data + done, size - done);
}
