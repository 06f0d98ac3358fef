/* import_parts.h: what the files of the import share. Nobody else includes it. */
#pragma once

#include "images/store/blob.h"
#include "images/store/import.h"
#include "images/store/oci.h"

struct pin_importing {
    struct pin_store_work *work;
    const struct pin_import *import;
    const struct pin_image_source *source;
    struct pin_arena *arena;
    struct pin_oci_descriptor manifest; /* chosen */
    const char *index;                  /* digest of the index that it was chosen from, or NULL */
    const char *source_name;            /* what the source calls it, or NULL */
    struct pin_oci_index top;           /* of a layout */
    bool in_store;                      /* the blobs are there already: made by ourselves */
    bool again;                         /* the store has the image already */
};

/* A layout: chooses the manifest, which is then in the store. */
bool pin_import_choose(struct pin_importing *importing, struct pin_error *err);
/* The others: make manifest and configuration, and put all into the store. */
bool pin_import_docker(struct pin_importing *importing, struct pin_error *err);
bool pin_import_rootfs(struct pin_importing *importing, struct pin_error *err);

/* Copies a blob of the layout into the store. */
bool pin_import_blob(struct pin_importing *importing, const struct pin_oci_descriptor *blob,
                     struct pin_error *err);
/* The same for a small one, and reads it; NULL on failure. */
char *pin_import_document(struct pin_importing *importing, const struct pin_oci_descriptor *blob,
                          size_t *size, struct pin_error *err);

/* Keeps the signatures of the layout that speak of this image, and tells whose they are. */
bool pin_import_signatures(struct pin_importing *importing, struct pin_image_config *image,
                           struct pin_error *err);
/* Checks kept signatures of an image of the store against the keys; adds to `image->signed_by`. */
bool pin_import_check_kept(const struct pin_image_store *store, struct pin_arena *arena,
                           const char *const *keys, size_t key_count, struct pin_image_config *image,
                           struct pin_error *err);

void pin_import_say(const struct pin_importing *importing, const char *what, const char *which);
