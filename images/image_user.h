/* image_user.h: the ids that an image's user stands for.
 *
 * "1000", "1000:100", "name", "name:group"; names are looked up in the image's own etc/passwd and etc/group:
 * the topmost layer that has the file gives it. The files are hostile: read by descriptor below the layer's
 * root, regular files only, with a bound. A user without a group gets that of its passwd entry, or 0 for a
 * bare number that has none. Source: OCI image-spec 1.1, config.md, "User".
 */
#pragma once

#include <stdint.h>

#include "base/error.h"
#include "images/rootfs.h"

bool pin_image_user(const struct pin_rootfs *rootfs, const char *user, uint32_t *uid, uint32_t *gid,
                    struct pin_error *err);
