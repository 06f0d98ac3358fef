/* front_image.h: the part of a request that an image of the store answers.
 *
 * The image is found by its name and held as long as front->image_hold is open. What it says of itself counts
 * below the policy: docs/images.md, "Running".
 */
#pragma once

#include "tools/pinfold/front.h"

/* Whether the request names an image of the store: anything but the host image. */
bool pin_front_has_image(const struct pin_front *front);

/* Fills front->rootfs and what the request takes from the image. Judges no rule of the policy but the keys
 * that a signature is asked of. */
bool pin_front_take_image(struct pin_front *front, struct pin_findings *found);
