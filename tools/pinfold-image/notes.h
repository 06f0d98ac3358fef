/* notes.h: what the store keeps of an image otherwise than it came, in words. */
#pragma once

#include <jansson.h>

#include "images/image_config.h"

/* An array of sentences, the caller's; empty where nothing was lost. */
json_t *image_notes(const struct pin_image_config *image);
