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
    bool bind, recursive;          /* "bind", "rbind" */
    uint64_t attributes;           /* MOUNT_ATTR_* to set */
    uint64_t cleared;              /* MOUNT_ATTR_* that an option takes back: "rw", "dev", … */
    uint64_t below, below_cleared; /* of those, the ones meant for the mounts below too: "rro", "rdev", … */
    unsigned propagation;          /* MS_SHARED …, with MS_REC for the mounts below; 0: none is asked for */
    bool idmap, idmap_below;       /* "idmap", "ridmap" */
    bool copy_up;                  /* "tmpcopyup" */
    const char *special;           /* the first option that only an engine's container may have; NULL: none */
    const char **data;             /* for the file system: key, value or NULL, … */
    size_t data_count;             /* of pairs */
};

/* Sorts `options`; one that nobody can have is a finding at `pointer`. */
void pin_mount_options_sort(const char *const *options, size_t count, const char *pointer,
                            struct pin_arena *arena, struct pin_mount_options *sorted,
                            struct pin_findings *found);

/* The options that are carried out, one after the other; NULL after the last. */
const char *pin_mount_option_name(size_t index);
