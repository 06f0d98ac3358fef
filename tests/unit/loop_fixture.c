#include "tests/unit/loop_fixture.h"

#include <fcntl.h>
#include <stdbool.h>

#include "base/clock.h"

static int make(void **state, enum pin_io io) {
    struct pin_error err = {0};
    *state = pin_loop_new(io, &err);
    if (*state == NULL && io == PIN_IO_URING && err.os_errno != 0) {
        print_message("skipped: %s\n", err.message);
        skip();
    }
    return *state == NULL;
}

int make_uring(void **state) {
    return make(state, PIN_IO_URING);
}

int make_epoll(void **state) {
    return make(state, PIN_IO_EPOLL);
}

int unmake(void **state) {
    pin_loop_free(*state);
    return 0;
}

void step(struct pin_loop *loop) {
    struct pin_error err = {0};
    if (!pin_loop_step(loop, &err))
        fail_msg("%s", err.message);
}

void too_late(void *self) {
    (void)self;
    fail_msg("nothing happened in time");
}

void within(struct pin_loop *loop, uint64_t ns) {
    struct pin_error err = {0};
    assert_non_null(pin_loop_at(loop, pin_now_ns() + ns, too_late, NULL, &err));
}

void on_ready(void *self, unsigned events) {
    struct watcher *watcher = self;
    watcher->events = events;
    watcher->calls++;
}

int open_descriptors(void) {
    int count = 0;
    for (int fd = 0; fd < 256; fd++)
        count += fcntl(fd, F_GETFD) >= 0;
    return count;
}
