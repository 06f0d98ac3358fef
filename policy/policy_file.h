/* policy_file.h: the bytes of a policy, by name or path.
 *
 * A name is first a built-in profile, then NAME.json in the search folders: those of PINFOLD_POLICY_PATH
 * (separated by ':'; ignored in a program with raised privileges), ~/.config/pinfold/policies for everybody
 * but root, /etc/pinfold/policies. What has a '/' or ends in ".json" is a path. The file is opened once, by
 * O_NOFOLLOW, and its bytes are read once: a regular file, at most 4 MiB, owned by root or the caller, and
 * writable by its owner alone.
 */
#pragma once

#include <stddef.h>
#include <sys/types.h>

#include "base/findings.h"

#define PIN_POLICY_FILE_MAX ((size_t)4 * 1024 * 1024)
#define PIN_HINT_LARGE "write patterns and ranges, or several policies"

struct pin_policy_file {
    char *name;       /* what places call it: "built-in:tool", or the path; owned */
    const char *text; /* `size` bytes */
    size_t size;
    char *owned;   /* the text, when it was read from a file */
    dev_t device;  /* which file it is: the same one may be reached by several paths */
    ino_t inode;   /* both 0 for a built-in profile */
    size_t folder; /* the length of the part of `name` that is its folder, with the '/' */
};

/* Fills a zeroed `file`. A path that isn't absolute is taken from `from`, the folder (with its '/') of the
 * file that names it, of `from_size` bytes; 0 is the working directory. False with one finding on failure. */
bool pin_policy_file_open(struct pin_policy_file *file, const char *name_or_path, const char *from,
                          size_t from_size, struct pin_findings *found);
void pin_policy_file_close(struct pin_policy_file *file);

/* A path as it is: for the site's file. `missing` (may be NULL) is set, without a finding, when there is
 * none. */
bool pin_policy_file_read(struct pin_policy_file *file, const char *path, bool *missing,
                          struct pin_findings *found);
