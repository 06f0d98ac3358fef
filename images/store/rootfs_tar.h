/* rootfs_tar.h: a directory as a layer's tar, the same bytes for the same tree.
 *
 * Entries in the order of their names, pax headers only where needed, no access times, no names of users.
 * What overlay keeps of a change is written as layers say it: a character device 0:0 becomes ".wh.NAME", an
 * opaque directory gets ".wh..wh..opq".
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/error.h"

struct pin_rootfs_tar_options {
    const char *const *leave_out; /* paths below the root, ended by NULL; NULL: nothing */
    bool changes;                 /* the directory is the upper one of an overlay: whiteouts are translated */
    bool own_is_root;             /* what belongs to the caller is written as user and group 0 */
    bool clamp_times;             /* no time later than `latest_s` */
    int64_t latest_s;             /* seconds since 1970 */
    uint64_t *set_ids;            /* counts files whose set-id bits are dropped; NULL: they are kept */
    dev_t never_device;           /* the directory that mustn't be in the tree; 0: there is none */
    ino_t never_inode;
    uint32_t first_id; /* ids count from here: those of a sandbox with a range of its own */
};

/* Reads the tree below `root`, writes the tar to `to`. */
bool pin_rootfs_tar_write(int root, int to, const struct pin_rootfs_tar_options *options,
                          struct pin_error *err);
