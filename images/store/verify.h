/* verify.h: is the store still what it was? Every blob is hashed again, every unpacked layer compared with
 * its index, every name and record looked at.
 */
#pragma once

#include <stdint.h>

#include "images/image_config.h"
#include "images/image_store.h"

struct pin_verify {
    bool blobs_only;
    void (*fault)(void *context, const char *what, const char *detail); /* "blob sha256:…", "damaged" */
    void *context;
    uint64_t blobs, layers, images, names, bytes, faults; /* looked at; found */
};

/* Whether all parts of an image are there, blobs with their sizes; none is read. */
bool pin_store_is_whole(const struct pin_image_store *store, const struct pin_image_config *image);

bool pin_store_verify(const struct pin_image_store *store, struct pin_verify *verify, struct pin_error *err);
