/* copy.h: copies a file or a tree between the host and a sandbox, by descriptors.
 *
 * No link is followed, neither where it comes from nor where it goes; files are opened below a descriptor of
 * their own directory, and what was opened is looked at again. Regular files and directories alone are
 * copied, without set-id bits: links, devices, pipes and sockets are left out and counted. What is copied is
 * bounded, since what comes from a sandbox may claim any size. Nothing here freezes anything: the caller
 * does, where it matters.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/error.h"

#define PIN_COPY_DEPTH_MAX 64
#define PIN_COPY_ENTRIES_MAX 1000000

struct pin_copy {
    bool has_owner; /* copies are made by and for this user; what is copied is read as whoever calls */
    uid_t uid;
    gid_t gid;
    uint64_t limit_bytes;    /* of all files together */
    uint64_t bytes, entries; /* copied */
    uint64_t left_out;       /* neither a file nor a directory */
};

/* `from_name` in `from` becomes `to_name` in `to`; a file that is there already is overwritten, a directory
 * filled. */
bool pin_copy_entry(struct pin_copy *copy, int from, const char *from_name, int to, const char *to_name,
                    struct pin_error *err);
