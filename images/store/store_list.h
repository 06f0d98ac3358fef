/* store_list.h: what is in the store: names and images. */
#pragma once

#include "base/arena.h"
#include "images/image_config.h"
#include "images/image_name.h"
#include "images/image_store.h"

struct pin_store_name {
    struct pin_image_name name;
    char digest[PIN_DIGEST_TEXT];
    int64_t since_s; /* when the name was given, seconds since 1970 */
};

struct pin_store_names {
    struct pin_store_name *items; /* sorted by name */
    size_t count;
};

bool pin_store_list_names(const struct pin_image_store *store, struct pin_arena *arena,
                          struct pin_store_names *names, struct pin_error *err);

/* The entries of a folder of the store that are 64 hex characters, sorted; in the arena. */
bool pin_store_list_hex(const struct pin_image_store *store, const char *folder, struct pin_arena *arena,
                        const char ***items, size_t *count, struct pin_error *err);

/* Bytes on disk that the blob or the layer takes. */
uint64_t pin_store_blob_bytes(const struct pin_image_store *store, const char *hex);
