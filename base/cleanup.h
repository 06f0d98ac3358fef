/* cleanup.h: resources that close themselves at the end of their scope.
 *
 * PIN_CLOSE for descriptors (-1 is none), PIN_FREE for malloc'ed memory. A clean-up keeps errno: the caller's
 * first cause outlives it. pin_steal_fd() and pin_steal_ptr() take the resource out of the scope's hands,
 * visibly.
 */
#pragma once

#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

#define PIN_CLOSE __attribute__((cleanup(pin_close_slot)))
#define PIN_FREE __attribute__((cleanup(pin_free_slot)))

static inline void pin_close_slot(const int *fd) {
    int cause = errno;
    if (*fd >= 0)
        (void)close(*fd); /* Linux has released the number whatever close() says */
    errno = cause;
}

static inline void pin_close_fd(int *fd) {
    pin_close_slot(fd);
    *fd = -1;
}

static inline int pin_steal_fd(int *fd) {
    int taken = *fd;
    *fd = -1;
    return taken;
}

static inline void pin_free_slot(void *slot) {
    int cause = errno;
    free(*(void **)slot);
    errno = cause;
}

static inline void *pin_steal_ptr(void *slot) {
    void *taken = *(void **)slot;
    *(void **)slot = NULL;
    return taken;
}
