/* side.h: a thread that does one thing beside the rest, by bare system calls.
 *
 * It shares everything with the thread that started it, the thread-local storage of libc included, so its
 * work calls nothing but pin_side_call(): no libc, no errno, no allocation. Every signal is blocked in it.
 * Its process doesn't end before it.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

/* Of a work function: its stack is none that a sanitizer knows. */
#define PIN_SIDE_WORK __attribute__((no_sanitize("address", "undefined")))

struct pin_side {
    void (*work)(void *self);
    void *self;
    uint32_t running; /* the thread's id while it runs: the kernel clears it */
    _Alignas(16) unsigned char stack[8 * 1024];
};

/* False where it can't be had: the caller then does the work itself. `side` lives until pin_side_join(). */
bool pin_side_start(struct pin_side *side, void (*work)(void *self), void *self);

/* Waits for its end; at once where it never started. */
void pin_side_join(struct pin_side *side);

/* A system call without errno: the result, or a negated error number. */
long pin_side_call(long number, long a, long b, long c, long d, long e);
