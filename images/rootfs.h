/* rootfs.h: where the root of a sandbox comes from, as data.
 *
 * A root filesystem is a directory, a stack of layers, or, for the host image, a skeleton: entries that are
 * made in an empty tmpfs, and host directories that are bound over it. Paths inside have no leading "/". All
 * is in one arena, the caller's.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/error.h"

enum pin_rootfs_kind { PIN_ROOTFS_SKELETON, PIN_ROOTFS_DIRECTORY, PIN_ROOTFS_LAYERS };

enum pin_entry_kind { PIN_ENTRY_DIRECTORY, PIN_ENTRY_SYMLINK, PIN_ENTRY_FILE };

struct pin_rootfs_entry {
    enum pin_entry_kind kind;
    const char *path;    /* "etc/passwd": no leading "/", parents come first */
    const char *content; /* of a file: its bytes; of a link: its target */
    size_t size;         /* of the content of a file */
    uint32_t mode;
};

struct pin_rootfs_bind { /* a host file or directory, read-only, recursive */
    const char *source;  /* absolute on the host, no symbolic link at the end */
    const char *target;  /* inside, no leading "/"; made by an entry */
};

struct pin_rootfs {
    enum pin_rootfs_kind kind;
    const char *directory; /* DIRECTORY: absolute */
    const char **layers;   /* LAYERS: absolute directories, the lowest first */
    size_t layer_count;
    struct pin_rootfs_entry *entries; /* SKELETON; LAYERS: made where the image has nothing of that name */
    size_t entry_count;
    struct pin_rootfs_bind *binds; /* SKELETON */
    size_t bind_count;
};

struct pin_rootfs_identity {
    uint32_t user, group;
    const char *hostname;
};

/* The host image: the host's /usr, the merged-/usr links, and a minimal /etc with the sandbox's own users.
 * Nothing in it holds a secret or names the host. Also makes the mount points dev, proc, tmp, run, var, home,
 * workspace. False where the host has no merged /usr. */
bool pin_rootfs_host(struct pin_arena *arena, const struct pin_rootfs_identity *identity,
                     struct pin_rootfs *rootfs, struct pin_error *err);
