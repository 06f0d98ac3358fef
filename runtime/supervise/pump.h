/* pump.h: the caller's input into a sandbox, at the speed at which it is taken there.
 *
 * A command that never reads stops the pump when the pipe is full; one that closes its input ends it. Neither
 * holds up anything else.
 */
#pragma once

#include "base/error.h"
#include "runtime/supervise/loop.h"

struct pin_pump;

struct pin_pump_events {
    void *self;
    /* Once: input couldn't be read, or not be handed on though somebody reads. What has come isn't the whole,
     * so it isn't ended: `to` stays open, and the pump stands still. */
    void (*lost)(void *self, const struct pin_error *why);
};

/* From `from` (borrowed) to `to` (owned from here on, also on failure; non-blocking). At the end of the input
 * `to` is closed, unless `at_end` is given: then that text is written to it, and it stays open. A terminal
 * that was hung up has ended, and so has what isn't open for reading, as nohup(1) leaves it. */
struct pin_pump *pin_pump_new(struct pin_loop *loop, int from, int to, const char *at_end,
                              const struct pin_pump_events *events, struct pin_error *err);
void pin_pump_free(struct pin_pump *pump);
/* Its input has ended, and all of it was taken. */
bool pin_pump_has_ended(const struct pin_pump *pump);
