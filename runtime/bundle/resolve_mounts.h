/* resolve_mounts.h: what is mounted in the sandbox of a run, in order.
 *
 * The root's own binds first, then the kernel's file systems, a tmpfs for every path that the policy lets be
 * written and that nothing else covers, the workspace, and last what the policy shows of the host. Source:
 * docs/bundle.md "Mounts".
 */
#pragma once

#include "images/rootfs.h"
#include "policy/policy.h"
#include "runtime/bundle/bundle.h"

/* Fills the mounts of a bundle whose ext.workspace is set already. */
void pin_resolve_mounts(struct pin_bundle *bundle, const struct pin_policy *policy,
                        const struct pin_rootfs *rootfs);

/* The bind of ext.workspace, unless it is copy-on-write or mounted already. */
void pin_add_workspace_mount(struct pin_bundle *bundle);
