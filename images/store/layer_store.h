/* layer_store.h: unpacked layers in the store.
 *
 * A layer is unpacked in the work folder and appears under its diff id by one rename, synced, with its index.
 * Two that want the same layer unpack it once. */
#pragma once

#include "images/image_config.h"
#include "images/store/blob.h"
#include "images/store/layer_unpack.h"

/* Whether the layer is there; fills its sizes. */
bool pin_layer_have(const struct pin_image_store *store, const char *diff_id, struct pin_image_layer *layer);

/* Unpacks the layer's blob, which is in the store and sound, unless the layer is there already. Without a
 * `diff_id` it is taken from the tar, and put into `found`. Fills the layer's sizes. */
bool pin_layer_add(struct pin_store_work *work, const struct pin_layer_limits *limits,
                   struct pin_image_layer *layer, char found[PIN_DIGEST_TEXT], struct pin_error *err);
