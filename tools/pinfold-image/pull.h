/* pull.h: getting an image from a registry into the store.
 *
 * The tag is resolved to a digest once, and everything after goes by digest: what is copied is what was
 * looked at. Manifests come as they are, so that an image has here the digest that it has in the registry. */
#pragma once

#include "images/store/import.h"
#include "images/store/work.h"
#include "tools/pinfold-image/skopeo.h"

struct pull {
    const char *reference; /* "registry.example/team/app:1" */
    struct skopeo skopeo;
    bool repair;              /* an image that is here already is got again, and mended */
    struct pin_import import; /* name, platform, keys, limits, progress */
};

bool pull_image(struct pin_store_work *work, const struct pull *pull, struct pin_arena *arena,
                struct pin_image_config *image, struct pin_error *err);
