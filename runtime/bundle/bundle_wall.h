/* bundle_wall.h: what no policy has a word for, and no bundle may have: holes in the wall itself.
 *
 * The host's namespaces and ids, hooks, devices, host cgroups, system settings that reach beyond the sandbox,
 * labels of security modules that this build doesn't set, protections that a bundle switches off. Each is a
 * finding of its own. Pure. Source: docs/bundle.md "What a bundle may not have".
 */
#pragma once

#include "base/findings.h"
#include "runtime/bundle/bundle.h"

void pin_bundle_check_wall(const struct pin_bundle *bundle, struct pin_findings *found);

/* Those of them that hold for an engine's bundle, too. A privileged one may have devices, and see what others
 * mask. */
void pin_bundle_check_engine_wall(const struct pin_bundle *bundle, bool privileged,
                                  struct pin_findings *found);

/* The same for what is mounted, and where. */
void pin_bundle_check_mounts(const struct pin_bundle *bundle, struct pin_findings *found);

/* What a mount of a bundle is, by its type and options. */
bool pin_bundle_mount_is_bind(const struct pin_bundle_mount *mount);
bool pin_bundle_mount_is_writable(const struct pin_bundle_mount *mount);
bool pin_bundle_mount_has(const struct pin_bundle_mount *mount, const char *option);
