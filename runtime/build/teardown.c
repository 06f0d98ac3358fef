#include "runtime/build/teardown.h"

#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/syscall.h>

#include "base/cleanup.h"
#include "base/side.h"

struct pin_teardown {
    struct pin_side side;
    int init; /* a pidfd of its own: nobody else closes it meanwhile */
    int mounts;
};

static void release(struct pin_teardown *teardown) {
    pin_close_fd(&teardown->mounts);
    pin_close_fd(&teardown->init);
    free(teardown);
}

PIN_SIDE_WORK static void let_go(void *self) {
    struct pin_teardown *teardown = self;
    struct pollfd end = {.fd = teardown->init, .events = POLLIN};
    (void)pin_side_call(SYS_ppoll, (long)&end, 1, 0, 0, 0);
    (void)pin_side_call(SYS_close, teardown->mounts, 0, 0, 0, 0);
    teardown->mounts = -1;
}

struct pin_teardown *pin_teardown_start(pid_t init, int init_pidfd) {
    char path[40];
    struct pin_teardown *teardown = calloc(1, sizeof(*teardown));
    if (teardown == NULL)
        return NULL;
    (void)snprintf(path, sizeof(path), "/proc/%d/ns/mnt", (int)init);
    teardown->init = fcntl(init_pidfd, F_DUPFD_CLOEXEC, 3);
    teardown->mounts = open(path, O_RDONLY | O_CLOEXEC);
    if (teardown->init >= 0 && teardown->mounts >= 0 && pin_side_start(&teardown->side, let_go, teardown))
        return teardown;
    release(teardown);
    return NULL;
}

void pin_teardown_end(struct pin_teardown *teardown) {
    if (teardown == NULL)
        return;
    struct pollfd end = {.fd = teardown->init, .events = POLLIN};
    if (poll(&end, 1, 0) != 1)
        return; /* it hangs in the kernel, and the thread goes on waiting for it */
    pin_side_join(&teardown->side);
    release(teardown);
}
