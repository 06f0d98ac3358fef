/* paths.h: what becomes of a path inside a sandbox: which layer it lies in, and whether it can be written.
 *
 * The same rules as runtime/bundle/resolve_mounts.c, which makes the mounts and the Landlock rules of a run
 * (a test holds the two together): the layer that was mounted last counts, and a write needs both the layer's
 * and Landlock's consent. A run that brings a workspace is assumed. File permissions inside the root are the
 * image's and not judged. Pure.
 */
#pragma once

#include <stdbool.h>

#include "policy/policy.h"

enum pin_path_layer {
    PIN_PATH_ROOT,      /* the image, or the overlay over it */
    PIN_PATH_PROC,      /* the sandbox's own processes */
    PIN_PATH_DEVICES,   /* a few nodes; nothing can be made there */
    PIN_PATH_SCRATCH,   /* a tmpfs of the run's own */
    PIN_PATH_WORKSPACE, /* what --workspace brings */
    PIN_PATH_MOUNT,     /* filesystem.mounts */
    PIN_PATH_LAYER_COUNT
};
/* "the image's root", "scratch memory", … */
const char *pin_path_layer_name(enum pin_path_layer layer);

struct pin_path_fate {
    enum pin_path_layer layer;
    bool layer_writes;                  /* the layer could be written */
    bool landlock_writes;               /* Landlock would let it */
    const struct pin_string *write;     /* the entry of filesystem.write that covers the path, or NULL */
    const struct pin_mount_rule *mount; /* of PIN_PATH_MOUNT */
};

static inline bool pin_path_writable(const struct pin_path_fate *fate) {
    return fate->layer_writes && fate->landlock_writes;
}

/* `path` is absolute and plain (checks.h). */
struct pin_path_fate pin_path_judge(const struct pin_policy *policy, const char *path);
