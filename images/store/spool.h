/* spool.h: taking an image's archive apart, and telling what kind of archive it is.
 *
 * Members go to files named by the SHA-256 of their path, links to links between such names; what no image
 * needs (directories, devices) is left out, and the number of members and bytes has the bounds of a layer.
 */
#pragma once

#include "images/store/source.h"

#define PIN_SPOOL_NAME 65

/* The file of a member of the spool; returns `to`. */
char *pin_spool_name(char to[PIN_SPOOL_NAME], const char *path);

/* Looks at the archive's first members: OCI, DOCKER or ROOTFS. */
bool pin_spool_tell(int archive, enum pin_source_kind *kind, struct pin_error *err);

/* Spools the archive into the work folder; the spool's descriptor, or -1. */
int pin_spool(struct pin_store_work *work, int archive, struct pin_error *err);
