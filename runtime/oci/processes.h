/* processes.h: the processes of a container, by its cgroup. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include "base/arena.h"
#include "base/error.h"
#include "runtime/build/cgroup/cgroup.h"

/* The processes of the group and of those below it, in the numbers of the caller. A group without directories
 * has none. */
bool pin_processes_list(const struct pin_cgroup *group, struct pin_arena *arena, pid_t **pids, size_t *count,
                        struct pin_error *err);

/* Sends a signal to each of them; those that are gone meanwhile don't count. */
bool pin_processes_signal(const struct pin_cgroup *group, int number, struct pin_error *err);
