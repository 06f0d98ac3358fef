/* image_store.h: the folder that images live in, by descriptor.
 *
 *   blobs/HEX         as they came, named by their SHA-256
 *   layers/HEX/root   an unpacked layer, named by its diff id, fit as a lower directory of overlay
 *   layers/HEX/tree   what is in it, record by record, for `verify`
 *   images/HEX/record what an image is, named by its manifest's digest
 *   refs/NAME         the digest that a name stands for
 *   locks/  tmp/      who is at work; what isn't finished
 *
 * The folder is mode 0700 and the caller's own, or it isn't used. Everything becomes visible by one rename.
 * root: /var/lib/pinfold/images; others: $XDG_DATA_HOME/pinfold/images, or ~/.local/share/pinfold/images;
 * $PINFOLD_IMAGES overrides both.
 */
#pragma once

#include <limits.h>
#include <stdbool.h>

#include "base/error.h"

struct pin_image_store {
    int dir; /* -1: closed */
    char path[PATH_MAX];
};

#define PIN_IMAGE_STORE_NONE                                                                                 \
    { .dir = -1, .path = "" }

/* Opens the store; with `create` it is made where it isn't there. */
bool pin_image_store_open(struct pin_image_store *store, bool create, struct pin_error *err);
/* The same at a path of the caller's choice. */
bool pin_image_store_open_at(struct pin_image_store *store, const char *path, bool create,
                             struct pin_error *err);
/* Makes the folders of an open store that aren't there: for whoever is about to write. */
bool pin_image_store_complete(const struct pin_image_store *store, struct pin_error *err);
void pin_image_store_close(struct pin_image_store *store);

#define PIN_IMAGE_STORE __attribute__((cleanup(pin_image_store_close)))
