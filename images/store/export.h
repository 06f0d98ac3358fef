/* export.h: writing an image of the store as an OCI image layout: a directory, or a tar of one. */
#pragma once

#include "images/image_config.h"
#include "images/store/work.h"

/* `path` must not be there yet (a directory may be an empty one). `reference` is what the layout calls the
 * image. Every blob's digest is checked on the way. */
bool pin_image_export(struct pin_store_work *work, const struct pin_image_config *image, const char *path,
                      bool as_tar, const char *reference, struct pin_error *err);
