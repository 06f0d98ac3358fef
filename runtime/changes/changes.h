/* changes.h: what a sandbox changed in its copy-on-write workspace: listed, merged or kept.
 *
 * The upper directory of an overlay holds bytes, names and trees from inside: it is walked by descriptor, no
 * link is followed, depth and number are bounded. The processes that could change it are dead by then. A
 * character device 0:0 is a removal, the attribute user.overlay.opaque=y a directory that replaces the old
 * one. Source: Documentation/filesystems/overlayfs.rst, "whiteouts and opaque directories".
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <sys/types.h>

#include <jansson.h>

#include "base/arena.h"
#include "base/error.h"

#define PIN_CHANGES_DEPTH 200        /* of folders */
#define PIN_CHANGES_MAX 100000       /* entries of a tree that can be merged or kept */
#define PIN_CHANGES_LISTED_MAX 10000 /* entries in the list; more are counted */

enum pin_change_kind { PIN_CHANGE_ADDED, PIN_CHANGE_MODIFIED, PIN_CHANGE_REMOVED, PIN_CHANGE_COUNT };
enum pin_change_type {
    PIN_CHANGE_FILE,
    PIN_CHANGE_FOLDER,
    PIN_CHANGE_LINK,
    PIN_CHANGE_OTHER,
    PIN_CHANGE_TYPE_COUNT
};

struct pin_change {
    enum pin_change_kind kind;
    enum pin_change_type type; /* of what is there now; of what was there for a removal */
    const char *path;          /* below the workspace; bytes, not necessarily UTF-8 */
    uint64_t size;             /* of a file */
};

struct pin_changes {
    struct pin_arena arena;
    struct pin_change *items;
    size_t count, dropped; /* listed, and not listed for want of room */
    size_t entries;        /* of the whole tree */
};

/* Lists the changes of `upper` against `lower` (directories). False, with nothing to free, when the tree is
 * deeper or larger than the bounds: then it can't be merged either. */
bool pin_changes_list(int upper, int lower, struct pin_changes *changes, struct pin_error *err);
void pin_changes_free(struct pin_changes *changes);

struct pin_changes_owner {
    bool set; /* false: files belong to who makes them */
    uid_t uid;
    gid_t gid;
};

/* Makes the changes in `target`, after pin_changes_list() accepted them. Files are replaced whole (a
 * temporary file, then a rename); set-id bits are never taken over; sockets, pipes and devices are passed
 * over and counted in *skipped. On failure a part of the changes is made, and the error says where it
 * stopped. */
bool pin_changes_merge(int upper, int target, const struct pin_changes_owner *owner, size_t *skipped,
                       struct pin_error *err);

/* {"list": [{"path", "change", "type", "size"}], "dropped"}; a path that isn't UTF-8 is escaped. */
json_t *pin_changes_json(const struct pin_changes *changes);
