/* commit.h: an image from another one and what a sandbox has changed on it.
 *
 * The changes are the upper directory of an overlay over the base's layers; they become one layer more, with
 * overlay's whiteouts and opaque directories written as OCI layers say them.
 */
#pragma once

#include "images/image_config.h"
#include "images/image_name.h"
#include "images/store/layer_stream.h"
#include "images/store/work.h"

struct pin_commit {
    const struct pin_image_config *base;
    int changes;                  /* the upper directory */
    const char *const *leave_out; /* paths in it that aren't the image's; NULL: none */
    uint32_t first_id;            /* the first id of the sandbox's range: it becomes 0 in the image */
    const char *note;             /* for the history */
    const struct pin_layer_limits *limits;
};

/* `image` is in the arena. */
bool pin_image_commit(struct pin_store_work *work, const struct pin_commit *commit,
                      const struct pin_image_name *name, struct pin_arena *arena,
                      struct pin_image_config *image, struct pin_error *err);
