/* layer_unpack.h: from a layer's blob to a directory that overlay can use.
 *
 * The caller has checked the blob's own digest. What is made below `root` counts only when this returns true:
 * the diff id is known at the end. See layer_tree.h for what is kept of an entry.
 */
#pragma once

#include "images/store/layer_stream.h"

struct pin_layer_unpacked {
    uint8_t diff_id[PIN_SHA256_SIZE];
    uint64_t bytes;   /* of the tar */
    uint64_t entries; /* in the tar */
    uint64_t devices; /* for which an empty file stands in */
    const char *media_type;
};

bool pin_layer_unpack(int blob, int root, const struct pin_layer_limits *limits,
                      struct pin_layer_unpacked *unpacked, struct pin_error *err);
