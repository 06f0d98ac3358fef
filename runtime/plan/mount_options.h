/* mount_options.h: the options of an OCI mount, sorted by what carries them out.
 *
 * Source: OCI runtime-spec 1.2 config.md "Linux mount options"; mount_setattr(2).
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/findings.h"

struct pin_mount_options {
    bool bind, recursive; /* "bind", "rbind" */
    uint64_t attributes;  /* MOUNT_ATTR_* to set */
    uint64_t cleared;     /* MOUNT_ATTR_* that an option takes back: "rw", "dev", … */
    const char **data;    /* for the file system: key, value or NULL, … */
    size_t data_count;    /* of pairs */
};

/* Sorts `options`; what a sandbox can't have (shared propagation, "idmap" without maps) is a finding at
 * `pointer`. */
void pin_mount_options_sort(const char *const *options, size_t count, const char *pointer,
                            struct pin_arena *arena, struct pin_mount_options *sorted,
                            struct pin_findings *found);
