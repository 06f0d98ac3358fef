/* landlock.h: the second wall behind the mounts: what the policy lets be written is writable, nothing else.
 *
 * Every file right of the kernel's ABI is handled, so that what no rule grants is denied; abstract sockets
 * and signals stay inside (ABI 6). Source: Documentation/userspace-api/landlock.rst; landlock(7).
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "base/error.h"

/* Restricts the calling thread for ever. Read and execute everywhere, all else only below the paths in
 * `write` (absolute; one that isn't there grants nothing), devices below /dev. Needs no_new_privs. */
bool pin_landlock_restrict(int abi, const char *const *write, size_t count, struct pin_error *err);
