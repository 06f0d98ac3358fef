/* order_mounts.h: the order over what a run sees of the host, where mounts lie in one another.
 *
 * A mount within another, or within the workspace, hides what lies there, and may take the right to write it
 * away; of two at one place the later one is seen. So a policy with fewer mounts may show more. What counts
 * is which files of the host are seen and written, wherever they are shown. Pure.
 */
#pragma once

#include "base/arena.h"
#include "policy/policy.h"

struct pin_mount_excess {
    const struct pin_mount_rule *by; /* of the inner policy; NULL: its workspace */
    const char *path;                /* of the host; of the workspace: inside, "/workspace/…" */
    bool writes;                     /* else it is seen */
};

/* The uppermost paths that a run under `inner` sees or writes and one under `outer` doesn't, by mounts each
 * of which is within one of `outer`. In the arena; `*count` of them. */
struct pin_mount_excess *pin_mounts_excess(struct pin_arena *arena, const struct pin_policy *inner,
                                           const struct pin_policy *outer, size_t *count);

/* Whether the mount is seen at all: no later one lies over it. */
bool pin_mount_is_seen(const struct pin_policy *policy, size_t index);
