/* blob.h: blobs of the store: what came in, by its digest.
 *
 * A blob is copied and hashed in one go and becomes visible only when digest and size are right; what is used
 * later is the copy, so that nobody can swap it in between.
 */
#pragma once

#include "images/store/work.h"

/* Copies a blob of exactly `size` bytes with this digest from a descriptor (not its position) into the store.
 * One that is there already and sound is not copied again. */
bool pin_store_add_blob(struct pin_store_work *work, int from, const char *digest, uint64_t size,
                        struct pin_error *err);
/* The same for what we have made ourselves; tells the digest. */
bool pin_store_add_bytes(struct pin_store_work *work, const void *data, size_t size,
                         char digest[PIN_DIGEST_TEXT], struct pin_error *err);
/* Any file: hashes it while copying; tells digest and size. */
bool pin_store_add_file(struct pin_store_work *work, int from, char digest[PIN_DIGEST_TEXT], uint64_t *size,
                        struct pin_error *err);
/* Whether the blob is there and, byte for byte, what its name says. */
bool pin_store_check_blob(const struct pin_image_store *store, const char *digest, uint64_t size);
/* Opens a blob for reading; -1 on failure. */
int pin_store_open_blob(const struct pin_image_store *store, const char *digest, struct pin_error *err);
/* A small blob whole, with its digest checked; the caller frees it. NULL on failure. */
char *pin_store_read_blob(const struct pin_image_store *store, const char *digest, size_t *size,
                          struct pin_error *err);
