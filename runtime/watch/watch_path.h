/* watch_path.h: what a path means to a process that waits in a system call.
 *
 * The text is read from the process's memory and resolved below its own root, as the kernel is about to: good
 * for a record, never for a verdict, since another thread may change the text in between. Nothing is opened
 * but with O_PATH. Links in /proc are not followed.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#define PIN_WATCH_PATH_MAX 4096

struct pin_watch_path {
    char text[PIN_WATCH_PATH_MAX]; /* absolute, as it is inside */
    bool exists;
    bool fresh; /* it doesn't exist, and the folder that it would be in isn't there or is empty */
};

/* A string at an address of the thread's; false where it can't be read or is too long. */
bool pin_watch_text(pid_t tid, uint64_t address, char *to, size_t room);

/* `dirfd` counts for relative texts: a descriptor of the thread's, or AT_FDCWD. */
bool pin_watch_resolve(pid_t tid, int dirfd, const char *text, bool follow, struct pin_watch_path *path);
