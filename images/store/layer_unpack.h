/* layer_unpack.h: from a layer's blob to a directory that overlay can use.
 *
 * What is made below `root` counts only when this returns true:
 * the diff id is known at the end. See layer_tree.h for what is kept of an entry.
 */
#pragma once

#include "images/image_config.h"
#include "images/store/layer_stream.h"

struct pin_layer_unpacked {
    char diff_id[PIN_DIGEST_TEXT];
    uint64_t bytes;   /* of the tar */
    uint64_t entries; /* in the tar */
    struct pin_layer_losses lost;
    const char *media_type;
};

/* `digest` is the blob's own, which the caller has checked. */
bool pin_layer_unpack(int blob, const char *digest, int root, const struct pin_layer_limits *limits,
                      struct pin_layer_unpacked *unpacked, struct pin_error *err);
