/* disk.h: a file system of a given size on the host's disk, for what is written to the root of a sandbox.
 *
 * ext4 without a journal, in a sparse file, behind a loop device: the file can't grow, so that the size holds
 * for data, files and metadata together, whatever the host's file system knows of quotas. The file has no
 * name and the loop device goes with its last user: when the sandbox is gone, however it went, there is
 * nothing to remove. For root alone. It lies in PINFOLD_SCRATCH, or /var/lib/pinfold/scratch. Source:
 * loop(4), open(2) "O_TMPFILE", mke2fs(8).
 */
#pragma once

#include <stdint.h>

#include "base/error.h"

/* A mount that isn't attached to anything; -1 on failure. In it are the directories "upper" and "work" of an
 * overlay; both belong to `owner`, the host id of the sandbox's root. */
int pin_disk_make(uint64_t bytes, uint32_t owner, struct pin_error *err);

/* What this host lacks for it, and how to get that; NULL: nothing that is known beforehand. */
const char *pin_disk_lacks(void);
