/* ahead.h: the namespaces of a sandbox, begun before its plan is known.
 *
 * The kernel takes longer for a network namespace than for all others together, and longer than we do for a
 * plan. So a process of ours begins a user namespace and a network namespace of it, with the loopback up,
 * while we resolve the request, and waits. Nobody's ids are mapped there, no file of anybody's is shown
 * there, and nothing that isn't ours runs there: it's an empty room, which is given up where the plan asks
 * for another one. Where the plan asks for this one, the process makes the set-up child out of our memory, as
 * a child of ours, and ends.
 *
 * It shares our memory and descriptors, runs no signal handler, calls no libc, and dies with the thread that
 * started it; while it makes the child, that thread waits.
 */
#pragma once

#include <stdint.h>
#include <sys/types.h>

#include <linux/sched.h>

struct pin_ahead;

/* The CLONE_NEW* that are begun: a plan without one of them asks for another room. */
#define PIN_AHEAD_MADE                                                                                       \
    ((uint64_t)CLONE_NEWUSER | (uint64_t)CLONE_NEWNET | (uint64_t)CLONE_NEWIPC | (uint64_t)CLONE_NEWUTS)

/* NULL where it can't be had, which nobody misses. */
struct pin_ahead *pin_ahead_start(void);

/* The set-up child, for which `child` is called and never returns: clone3(2) with these arguments, from
 * within what was begun. 0: it couldn't be made, and is to be made without us. Once; `ahead` may be NULL. */
pid_t pin_ahead_clone(struct pin_ahead *ahead, const struct clone_args *args, void (*child)(void *self),
                      void *self);

/* The process is gone afterwards; a child that it made isn't. Must come before anything runs in the sandbox:
 * what is in the user namespace might reach our memory by the process that shares it. Again is fine, and
 * NULL. */
void pin_ahead_end(struct pin_ahead *ahead);
void pin_ahead_free(struct pin_ahead *ahead);
