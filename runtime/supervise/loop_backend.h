/* loop_backend.h: what loop.c and its two backends share; nobody else includes it.
 *
 * A backend arms sources, waits, and hands events to pin_source_bytes() and pin_source_ready(). loop.c keeps
 * the lists, the timers and the rule that a removed source is never called; a removed source is freed by
 * loop.c when its backend has let go of it (`busy` is false).
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "runtime/supervise/loop.h"

struct pin_source {
    struct pin_loop *loop;
    struct pin_source *next;
    int fd;
    unsigned events; /* 0: a stream */
    pin_on_bytes *on_bytes;
    pin_on_ready *on_ready;
    void *self;
    bool paused, removed;
    bool wiped; /* the backend writes over what was delivered */

    bool busy; /* the backend has work in flight for it */

    struct {             /* io_uring */
        bool poll_first; /* read(2) said EAGAIN: wait until it is readable, then read */
        bool polling;    /* what is in flight is that wait */
        bool cancelling; /* a cancellation was sent */
        bool delivering; /* its callback runs */
        bool starved;    /* no provided buffer was left */
        uint8_t *buffer; /* of its own, for a stream that runs hot; NULL: provided ones */
        bool holds;      /* bytes that came in while it was paused: */
        int held_buffer; /* the number of a provided buffer, or -1: its own */
        int held_result; /* of the read */
        bool strict;     /* watched by an epoll between it and the ring: */
        int strict_fd;
    } uring;

    struct {        /* epoll */
        int own_fd; /* a duplicate, where the descriptor is watched twice; -1: none */
        bool registered;
        bool always_ready; /* a regular file: epoll doesn't take it */
    } epoll;
};

struct pin_backend {
    enum pin_io io;
    bool (*open)(struct pin_loop *loop, struct pin_error *err);
    void (*close)(struct pin_loop *loop); /* sources are all removed by then */
    bool (*add)(struct pin_loop *loop, struct pin_source *source, struct pin_error *err);
    void (*changed)(struct pin_source *source); /* paused, resumed or removed */
    /* Waits for at most `timeout_ns` (UINT64_MAX: without end), and calls back. */
    bool (*wait)(struct pin_loop *loop, uint64_t timeout_ns, struct pin_error *err);
};

extern const struct pin_backend pin_backend_uring, pin_backend_epoll;

struct pin_loop {
    const struct pin_backend *backend;
    void *state; /* the backend's */
    struct pin_source *sources;
    struct pin_timer *timers; /* the earliest first */
};

/* Call back, unless the source is paused or removed. */
void pin_source_bytes(struct pin_source *source, const uint8_t *data, size_t size, int error);
void pin_source_ready(struct pin_source *source, unsigned events);
