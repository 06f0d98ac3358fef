/* poll.h: the broker's event loop: epoll, level-triggered.
 *
 * Not io_uring: the broker reads hostile bytes, and its system call filter keeps the surface of a ring away
 * from whoever takes it over. A watch belongs to its object; an object that goes away in the middle of a
 * round is buried, and freed when no event of the round can name it any more.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/epoll.h>

#include "runtime/egress/broker/effort.h"

struct watch {
    int fd; /* -1: none */
    uint32_t events;
    bool added, urgent; /* `urgent`: before the others of its round */
    bool inlet;         /* programs inside make it ready as often as they like: waits while effort is spent */
    uint8_t labours;    /* so many of its next calls are effort, and not the moving of bytes */
    void (*ready)(struct watch *watch, uint32_t events);
    struct watch *parked_next, **parked_link; /* an inlet that waits */
};

#define LABOURS_ALWAYS UINT8_MAX
#define POLL_AWAKE_NS UINT64_C(200000)

struct grave {
    struct grave *next;
    void (*release)(struct grave *grave);
};

struct poll {
    int epoll;
    int handled;          /* in the last round */
    bool expects, is_far; /* see poll_expect() */
    struct grave *graves;
    struct effort effort;
    uint64_t begun_ns,
        begun_at_ns; /* labour that isn't counted yet: by the thread's clock (0: none), and now_ns() */
    struct watch alarm;
    uint64_t alarm_ns; /* when it goes off, or has gone */
    struct watch *parked;
};

/* False: some of it is missing; errno. It stays where it is. */
bool poll_open(struct poll *poll);
void poll_shut(struct poll *poll);
/* Waits for these events from now on; 0: for nothing, not even a hang-up. */
bool poll_want(struct poll *poll, struct watch *watch, uint32_t events);
/* Closes the descriptor, which nobody else has, and forgets the watch; harmless if done already. */
void poll_close(struct watch *watch);
/* `release` is called at the end of this round. */
void poll_bury(struct poll *poll, struct grave *grave, void (*release)(struct grave *grave));
/* The next event is likely to come sooner than a process that sleeps is woken: the next wait begins awake,
 * for POLL_AWAKE_NS at most. Who else wants the processor has it meanwhile. Not if the last such event came
 * later, nor when half of the effort is spent, which this counts as. */
void poll_expect(struct poll *poll);
/* One round: waits at most `timeout_ms` (-1: for ever), calls what is ready, frees what was buried. */
bool poll_round(struct poll *poll, int timeout_ms);

/* When the next round has to be, in ms, at most `limit` (-1: none). */
int poll_timeout(struct poll *poll, uint64_t now_ns, int limit);
/* The programs inside are gone: all that they have asked for may be done now. */
void poll_lift(struct poll *poll);

uint64_t now_ns(void);
/* From `since` to `now`; nothing where the clock was read in the other order. */
static inline uint64_t elapsed_ns(uint64_t now, uint64_t since) {
    return now > since ? now - since : 0;
}

#define container_of(pointer, type, member) ((type *)(void *)((char *)(pointer)-offsetof(type, member)))
