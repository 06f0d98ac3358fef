#include "runtime/build/ahead.h"

#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <stddef.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <linux/futex.h>

#include "base/side.h"
#include "runtime/build/network.h"

/* The set-up child goes on with the process's stack, which no sanitizer knows. */
#if defined(__has_feature)
#if __has_feature(address_sanitizer)
#define PIN_SANITIZED true
#endif
#endif
#if !defined(PIN_SANITIZED) && defined(__SANITIZE_ADDRESS__)
#define PIN_SANITIZED true
#endif
#ifndef PIN_SANITIZED
#define PIN_SANITIZED false
#endif

#define STACK_BYTES (512 * 1024) /* of which few pages are ever touched */
#define GUARD_BYTES (64 * 1024)

enum order { WAIT, MAKE_CHILD, LEAVE };

struct pin_ahead { /* behind its process's stack */
    pid_t parent, process;
    uint32_t running; /* the process's id while it shares our memory: the kernel clears it */
    uint32_t order;   /* enum order */
    struct clone_args args;
    void (*child)(void *self);
    void *self;
    pid_t made; /* the set-up child, written by the kernel, whoever kills the process then; 0: none */
};

#define ROOM_BYTES (GUARD_BYTES + STACK_BYTES)
#define BEHIND ((sizeof(struct pin_ahead) + 63) / 64 * 64)

PIN_SIDE_WORK static bool begin(const struct pin_ahead *ahead) {
    return pin_side_call(SYS_prctl, PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0) == 0 &&
           pin_side_call(SYS_getppid, 0, 0, 0, 0, 0) ==
               ahead->parent && /* it may have died before that line */
           pin_side_call(SYS_unshare, (long)(PIN_AHEAD_MADE & ~(uint64_t)CLONE_NEWUSER), 0, 0, 0, 0) == 0 &&
           pin_network_raise() == 0;
}

PIN_SIDE_WORK static int run(void *argument) {
    struct pin_ahead *ahead = argument;
    uint32_t order = LEAVE;
    if (begin(ahead))
        while ((order = __atomic_load_n(&ahead->order, __ATOMIC_ACQUIRE)) == WAIT)
            (void)pin_side_call(SYS_futex, (long)&ahead->order, FUTEX_WAIT_PRIVATE, WAIT, 0, 0);
    if (order == MAKE_CHILD &&
        pin_side_call(SYS_clone3, (long)&ahead->args, sizeof(ahead->args), 0, 0, 0) == 0)
        ahead->child(ahead->self); /* in memory of its own */
    (void)pin_side_call(SYS_exit_group, 0, 0, 0, 0, 0);
    return 0;
}

struct pin_ahead *pin_ahead_start(void) {
    unsigned char *room =
        PIN_SANITIZED ? MAP_FAILED
                      : mmap(NULL, ROOM_BYTES, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (room == MAP_FAILED)
        return NULL;
    struct pin_ahead *ahead = (struct pin_ahead *)(void *)(room + ROOM_BYTES - BEHIND);
    int process = -1;
    if (mprotect(room + GUARD_BYTES, STACK_BYTES, PROT_READ | PROT_WRITE) == 0) {
        *ahead = (struct pin_ahead){.parent = getpid(), .running = 1};
        process = clone(run, ahead,
                        CLONE_VM | CLONE_FILES | CLONE_NEWUSER | CLONE_PARENT_SETTID | CLONE_CHILD_CLEARTID |
                            SIGCHLD,
                        ahead, &ahead->running, NULL, &ahead->running);
    }
    if (process > 0) {
        ahead->process = process;
        return ahead;
    }
    (void)munmap(room, ROOM_BYTES);
    return NULL;
}

/* Again and again: neither call is needed to succeed the first time. */
static void give_order(struct pin_ahead *ahead, enum order order) {
    static const struct timespec a_while = {.tv_nsec = 10 * 1000 * 1000};
    __atomic_store_n(&ahead->order, order, __ATOMIC_RELEASE);
    for (uint32_t id; (id = __atomic_load_n(&ahead->running, __ATOMIC_ACQUIRE)) != 0;) {
        (void)syscall(SYS_futex, &ahead->order, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0);
        (void)syscall(SYS_futex, &ahead->running, FUTEX_WAIT, id, &a_while, NULL, 0);
    }
}

pid_t pin_ahead_clone(struct pin_ahead *ahead, const struct clone_args *args, void (*child)(void *self),
                      void *self) {
    if (ahead == NULL || (args->flags & PIN_AHEAD_MADE) != PIN_AHEAD_MADE)
        return 0;
    ahead->args = *args;
    ahead->args.flags = (args->flags & ~PIN_AHEAD_MADE) | CLONE_PARENT | CLONE_PARENT_SETTID;
    ahead->args.parent_tid = (uint64_t)(uintptr_t)&ahead->made;
    ahead->args.exit_signal = 0; /* the process's own, as the parent is the process's own */
    ahead->child = child;
    ahead->self = self;
    give_order(ahead, MAKE_CHILD);
    return ahead->made;
}

void pin_ahead_end(struct pin_ahead *ahead) {
    if (ahead == NULL || ahead->process == 0)
        return;
    give_order(ahead, LEAVE);
    while (waitpid(ahead->process, NULL, 0) < 0 && errno == EINTR)
        ;
    ahead->process = 0;
}

void pin_ahead_free(struct pin_ahead *ahead) {
    pin_ahead_end(ahead);
    if (ahead != NULL)
        (void)munmap((unsigned char *)ahead + BEHIND - ROOM_BYTES, ROOM_BYTES);
}
