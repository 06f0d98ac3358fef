/* build.h: an image from packages, made in two sandboxes without a network.
 *
 * The first has the host image as its root and unpacks the essential packages with mmdebstrap. What comes out
 * is the root of the second, in which dpkg sets all packages up: their scripts run as root of that sandbox
 * and reach nothing but the image that is made. What leaves a sandbox is a tar, unpacked as any other image
 * is. Both run by `pinfold run`, below build/unpack.json and build/configure.json, the caller's policy and
 * the site's own.
 */
#pragma once

#include "images/image_config.h"
#include "images/store/recipe.h"
#include "images/store/work.h"

struct build {
    const struct pin_recipe *recipe;
    const struct pin_lock *lock; /* its packages are fetched: packages.h */
    const char *name;            /* of the image */
    const char *policy;          /* a file by its whole path, or the name of a policy; NULL: none */
    bool show;                   /* progress, on standard error */
};

bool build_image(const struct pin_image_store *store, const struct build *build, struct pin_arena *arena,
                 struct pin_image_config *image, struct pin_error *err);
