/* loop_fixture.h: what tests of the event loop share: each runs on both backends, its state is the loop.
 */
#pragma once

#include "runtime/supervise/loop.h"
#include "tests/unit/test.h"

int make_uring(void **state);
int make_epoll(void **state);
int unmake(void **state);
#define ON_BOTH(test)                                                                                        \
    {#test " (uring)", test, make_uring, unmake, NULL}, {                                                    \
#test " (epoll)", test, make_epoll, unmake, NULL                                                     \
    }

void step(struct pin_loop *loop);
/* A time that is over by then. */
void too_late(void *self);
void within(struct pin_loop *loop, uint64_t ns);

struct watcher {
    struct pin_source *source;
    unsigned events, calls;
};
void on_ready(void *self, unsigned events);

int open_descriptors(void);
