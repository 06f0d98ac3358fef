/* watcher.h: answers every system call of a watched sandbox as its filter says, and records what was done.
 *
 * A thread of its own reads the listener (runtime/build/watch.h). The verdict looks at registers only, by the
 * code that compiled filters are proved against (pin_filter_judge), so it can't be raced; paths are read from
 * memory, for the record alone. What init does is left out: a thread counts from its first program on.
 */
#pragma once

#include <sys/types.h>

#include "base/error.h"
#include "policy/audit/recording.h"
#include "policy/filter.h"

struct pin_watcher;

struct pin_watcher_options {
    int listener; /* borrowed, and open until the end */
    pid_t init;   /* PID 1 of the sandbox, as the host numbers it */
    const struct pin_filter *filter;
    enum pin_arch arch;
    struct pin_recording *recording; /* the thread's alone until pin_watcher_end(); NULL with `denied` */
    /* Denied calls alone are told, by the thread, before they are answered: who waits for the end of
     * `command` (watch_command.h) has heard of all that it was denied. NULL: everything is recorded. */
    void (*denied)(void *self, uint32_t command, const char *call, const uint64_t *args);
    void *self;
};

/* NULL on failure. */
struct pin_watcher *pin_watcher_start(const struct pin_watcher_options *options, struct pin_error *err);
/* Ends the thread: the sandbox's processes should be dead. NULL is fine. */
void pin_watcher_end(struct pin_watcher *watcher);
