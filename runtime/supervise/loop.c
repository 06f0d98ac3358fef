#include "runtime/supervise/loop.h"

#include <errno.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/names.h"
#include "runtime/supervise/loop_backend.h"

struct pin_timer {
    struct pin_loop *loop;
    struct pin_timer *next;
    uint64_t at_ns;
    pin_on_time *on_time;
    void *self;
};

static bool open_with(struct pin_loop *loop, const struct pin_backend *backend, struct pin_error *err) {
    loop->backend = backend;
    return backend->open(loop, err);
}

static bool open_backend(struct pin_loop *loop, enum pin_io io, struct pin_error *err) {
    if (io == PIN_IO_EPOLL)
        return open_with(loop, &pin_backend_epoll, err);
    if (open_with(loop, &pin_backend_uring, err))
        return true;
    if (io == PIN_IO_URING)
        return false;
    pin_error_clear(
        err); /* refused by a sysctl, a filter, the lock limit or the kernel's age: epoll does it */
    return open_with(loop, &pin_backend_epoll, err);
}

struct pin_loop *pin_loop_new(enum pin_io io, struct pin_error *err) {
    struct pin_loop *loop = calloc(1, sizeof(*loop));
    if (loop == NULL) {
        (void)pin_fail_errno(err, "make an event loop");
        return NULL;
    }
    if (open_backend(loop, io, err))
        return loop;
    free(loop);
    return NULL;
}

enum pin_io pin_loop_backend(const struct pin_loop *loop) {
    return loop->backend->io;
}

static void sweep(struct pin_loop *loop) {
    for (struct pin_source **slot = &loop->sources; *slot != NULL;) {
        struct pin_source *source = *slot;
        if (!source->removed || source->busy) {
            slot = &source->next;
            continue;
        }
        *slot = source->next;
        free(source);
    }
}

void pin_loop_free(struct pin_loop *loop) {
    if (loop == NULL)
        return;
    int cause = errno;
    for (struct pin_source *source = loop->sources; source != NULL; source = source->next) {
        struct pin_source *slot = source;
        pin_source_remove(&slot);
    }
    loop->backend->close(loop);
    sweep(loop);
    for (struct pin_timer *timer = loop->timers, *next; timer != NULL; timer = next) {
        next = timer->next;
        free(timer);
    }
    free(loop);
    errno = cause;
}

static struct pin_source *add(struct pin_loop *loop, const struct pin_source *like, struct pin_error *err) {
    struct pin_source *source = malloc(sizeof(*source));
    if (source == NULL) {
        (void)pin_fail_errno(err, "add a source to the event loop");
        return NULL;
    }
    *source = *like;
    source->loop = loop;
    source->epoll.own_fd = -1;
    if (!loop->backend->add(loop, source, err)) {
        free(source);
        return NULL;
    }
    source->next = loop->sources;
    loop->sources = source;
    return source;
}

struct pin_source *pin_loop_read(struct pin_loop *loop, int fd, pin_on_bytes *on_bytes, void *self,
                                 struct pin_error *err) {
    return add(loop, &(struct pin_source){.fd = fd, .on_bytes = on_bytes, .self = self}, err);
}

struct pin_source *pin_loop_watch(struct pin_loop *loop, int fd, unsigned events, pin_on_ready *on_ready,
                                  void *self, struct pin_error *err) {
    return add(loop, &(struct pin_source){.fd = fd, .events = events, .on_ready = on_ready, .self = self},
               err);
}

void pin_source_pause(struct pin_source *source) {
    if (source->paused)
        return;
    source->paused = true;
    source->loop->backend->changed(source);
}

void pin_source_resume(struct pin_source *source) {
    if (!source->paused)
        return;
    source->paused = false;
    source->loop->backend->changed(source);
}

void pin_source_wipe(struct pin_source *source) {
    source->wiped = true;
}

void pin_source_remove(struct pin_source **slot) {
    struct pin_source *source = *slot;
    *slot = NULL;
    if (source == NULL || source->removed)
        return;
    source->removed = true;
    source->loop->backend->changed(source);
}

void pin_source_bytes(struct pin_source *source, const uint8_t *data, size_t size, int error) {
    if (source->paused || source->removed)
        return;
    if (size == 0)
        pin_source_pause(source);
    source->on_bytes(source->self, data, size, error);
}

void pin_source_ready(struct pin_source *source, unsigned events) {
    if (!source->paused && !source->removed)
        source->on_ready(source->self, events);
}

struct pin_timer *pin_loop_at(struct pin_loop *loop, uint64_t at_ns, pin_on_time *on_time, void *self,
                              struct pin_error *err) {
    struct pin_timer *timer = malloc(sizeof(*timer));
    if (timer == NULL) {
        (void)pin_fail_errno(err, "set a timer");
        return NULL;
    }
    struct pin_timer **slot = &loop->timers;
    while (*slot != NULL && (*slot)->at_ns <= at_ns)
        slot = &(*slot)->next;
    *timer = (struct pin_timer){loop, *slot, at_ns, on_time, self};
    *slot = timer;
    return timer;
}

void pin_timer_cancel(struct pin_timer **slot) {
    struct pin_timer *timer = *slot;
    *slot = NULL;
    if (timer == NULL)
        return;
    struct pin_timer **at = &timer->loop->timers;
    while (*at != timer)
        at = &(*at)->next;
    *at = timer->next;
    free(timer);
}

static void call_due_timers(struct pin_loop *loop) {
    uint64_t now = pin_now_ns();
    while (loop->timers != NULL && loop->timers->at_ns <= now) {
        struct pin_timer due = *loop->timers;
        free(loop->timers);
        loop->timers = due.next;
        due.on_time(due.self);
    }
}

bool pin_loop_step(struct pin_loop *loop, struct pin_error *err) {
    uint64_t timeout_ns = UINT64_MAX;
    if (loop->timers != NULL) {
        uint64_t now = pin_now_ns();
        timeout_ns = loop->timers->at_ns > now ? loop->timers->at_ns - now : 0;
    }
    if (!loop->backend->wait(loop, timeout_ns, err))
        return false;
    call_due_timers(loop);
    sweep(loop);
    return true;
}
