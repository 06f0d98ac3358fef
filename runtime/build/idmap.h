/* idmap.h: user namespaces' id maps.
 *
 * Source: user_namespaces(7), mount_setattr(2) "ID-mapped mounts", newuidmap(1).
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/error.h"
#include "runtime/plan/plan.h"

/* Writes the maps of a new process in a new user namespace, as the plan says; `range` is added to the outer
 * ids of a ranged plan. */
bool pin_idmap_write(const struct pin_plan *plan, uint32_t range, pid_t pid, struct pin_error *err);

/* A user namespace with one mapping of uids and one of gids, for MOUNT_ATTR_IDMAP: `inside` are the ids on
 * disk, `outside` those that the mount shows. The caller closes the descriptor; -1 on failure. Needs
 * privilege. */
int pin_idmap_namespace_of(const struct pin_id_map *uids, size_t uid_count, const struct pin_id_map *gids,
                           size_t gid_count, struct pin_error *err);
int pin_idmap_namespace(const struct pin_id_map *uids, const struct pin_id_map *gids, struct pin_error *err);
