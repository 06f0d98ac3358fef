/* tar_check.h: would every reader find the same members in this tar?
 *
 * Readers agree on honest tars and differ on odd ones: whether a link's size counts, which of two sizes or
 * names does, what a global header changes. Bytes that one takes for a member and another for a file's
 * content let an image look harmless to a scanner and unpack to something else. This watches the bytes that
 * libarchive reads, and refuses what isn't said once; checksums, truncation and the content of all other
 * fields are libarchive's.
 *
 * Hostile bytes, in pieces of any size. It keeps a header's block and at most 1 MiB of an extended one.
 * Source: POSIX.1-2017 pax, "ustar Interchange Format", "pax Header Block"; GNU tar manual, "Sparse Formats".
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "base/error.h"

struct pin_tar_check;

struct pin_tar_check *pin_tar_check_new(void); /* aborts when memory is out */
/* False at the first doubt, and then there is no more to feed; what follows the tar's end mark is no part of
 * it. */
bool pin_tar_check_feed(struct pin_tar_check *check, const void *data, size_t size, struct pin_error *err);
void pin_tar_check_free(struct pin_tar_check *check);
