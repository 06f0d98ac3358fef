/* image_root.h: what a root from an image needs and the image may lack.
 *
 * Adds entries to a root of layers: etc/hosts, etc/hostname and etc/resolv.conf as the host image has them,
 * the working directory, and the directories of the image's volumes. All of them are made only where the
 * image has nothing of that name. A path of the image's with ".." in it is left out.
 */
#pragma once

#include "images/image_config.h"
#include "images/rootfs.h"

void pin_image_complete(struct pin_arena *arena, const char *hostname, const struct pin_image_config *config,
                        struct pin_rootfs *rootfs);
