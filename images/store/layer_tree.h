/* layer_tree.h: writing a layer's entries below one directory, and nowhere else.
 *
 * Every parent is opened by openat2(2) as if the layer's root were "/", so that no link leads out; names are
 * made with O_EXCL, O_NOFOLLOW and the *at() calls on the parent's descriptor. The last entry of a name wins.
 * What comes out fits overlay: a whiteout is a character device 0:0 (any user may make that one since Linux
 * 5.8), an opaque directory has the attribute user.overlay.opaque, for mounts with userxattr.
 *
 * What a layer can't bring along: set-user-id and set-group-id bits of files, devices (an empty file without
 * permissions stands in), and every attribute but user.* (security.capability and ACLs are dropped, so is
 * user.overlay.*). In a store that isn't root's, all belongs to the store's owner, who can always read it.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>
#include <time.h>

#include "base/error.h"
#include "images/store/layer_path.h"

#define PIN_LAYER_OWNER_LAST 65535 /* in root's store: what is beyond belongs to nobody in a sandbox */

struct pin_layer_tree;

struct pin_layer_owner {
    int64_t user, group;
    mode_t mode;
    struct timespec time;
};

struct pin_layer_tree *pin_layer_tree_open(int root); /* the descriptor stays the caller's */

bool pin_layer_tree_directory(struct pin_layer_tree *tree, const struct pin_layer_path *path,
                              const struct pin_layer_owner *owner, int *directory, struct pin_error *err);
/* Gives a new, empty file that the caller fills, closes and completes by pin_layer_tree_complete(). */
bool pin_layer_tree_file(struct pin_layer_tree *tree, const struct pin_layer_path *path, int *file,
                         struct pin_error *err);
bool pin_layer_tree_complete(struct pin_layer_tree *tree, int file, const struct pin_layer_owner *owner,
                             struct pin_error *err);
bool pin_layer_tree_symlink(struct pin_layer_tree *tree, const struct pin_layer_path *path,
                            const char *target, const struct pin_layer_owner *owner, struct pin_error *err);
bool pin_layer_tree_fifo(struct pin_layer_tree *tree, const struct pin_layer_path *path,
                         const struct pin_layer_owner *owner, struct pin_error *err);
bool pin_layer_tree_hardlink(struct pin_layer_tree *tree, const struct pin_layer_path *path,
                             const struct pin_layer_path *target, struct pin_error *err);
bool pin_layer_tree_whiteout(struct pin_layer_tree *tree, const struct pin_layer_path *path,
                             struct pin_error *err);
bool pin_layer_tree_opaque(struct pin_layer_tree *tree, const struct pin_layer_path *path,
                           struct pin_error *err);
/* Whether an attribute of this name may be kept. */
bool pin_layer_tree_keeps(const char *attribute);
/* Keeps an attribute of a file or directory, if it is one that may be kept. */
bool pin_layer_tree_attribute(int fd, const char *name, const void *value, size_t size,
                              struct pin_error *err);

/* Sets the times of the directories, which every entry made in them has changed. */
bool pin_layer_tree_finish(struct pin_layer_tree *tree, struct pin_error *err);
void pin_layer_tree_close(struct pin_layer_tree *tree);
void pin_layer_tree_close_slot(struct pin_layer_tree **tree);

#define PIN_LAYER_TREE __attribute__((cleanup(pin_layer_tree_close_slot)))
