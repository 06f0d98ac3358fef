/* watch_calls.h: which arguments of a system call are paths, and what the call does with them.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#define PIN_WATCH_NONE (-1)

struct pin_watch_argument {
    const char *call;
    int8_t dirfd;  /* the argument that a relative path starts from; PIN_WATCH_NONE: the working directory */
    int8_t path;   /* the argument that points to the text */
    int8_t flags;  /* open(2)'s, which say what it is opened for; PIN_WATCH_NONE: `uses` says it */
    bool follow;   /* a link at the end is followed, unless flags say otherwise */
    unsigned uses; /* set of enum pin_use */
    bool makes;    /* it changes nothing where the path is there already */
};

/* Rows of one call stand together; `count` is how many there are. */
extern const struct pin_watch_argument pin_watch_arguments[];
extern const unsigned pin_watch_argument_count;

/* What the flags of open(2) ask for: set of enum pin_use; *follow is cleared by O_NOFOLLOW and by O_EXCL with
 * O_CREAT. */
unsigned pin_watch_open_uses(uint64_t flags, bool *follow);
