/* layer_store.h: unpacked layers in the store.
 *
 * A layer is unpacked in the work folder and appears under its diff id by one rename, synced, with its index.
 * Two that want the same layer unpack it once. */
#pragma once

#include <stdio.h>

#include "images/image_config.h"
#include "images/store/blob.h"
#include "images/store/layer_unpack.h"

/* Whether the layer is there; fills its sizes. */
bool pin_layer_have(const struct pin_image_store *store, const char *diff_id, struct pin_image_layer *layer);

/* The tree of a layer (`hex` of its diff id) and its index, to compare them; NULL: it isn't complete. */
FILE *pin_layer_index(const struct pin_image_store *store, const char *hex, int *root);

/* Unpacks the layer's blob, which is in the store and sound, unless the layer is there already. Without a
 * `diff_id` it is taken from the tar, and put into `found`. Fills the layer's sizes. `mends`: a layer that is
 * there is compared with its index first, and takes the place of a damaged one, unless a sandbox runs from
 * that. */
bool pin_layer_add(struct pin_store_work *work, const struct pin_layer_limits *limits, bool mends,
                   struct pin_image_layer *layer, char found[PIN_DIGEST_TEXT], struct pin_error *err);
