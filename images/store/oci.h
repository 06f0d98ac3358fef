/* oci.h: the JSON documents of an image, read strictly: index, manifest, configuration.
 *
 * Pure and bounded; duplicate keys, other digests than SHA-256, documents that are two kinds at once, layers
 * from foreign addresses are refused. All that comes out is in the caller's arena. Source: OCI
 * image-spec 1.1, image-index.md, manifest.md, config.md; Docker's manifest schema 2.
 */
#pragma once

#include "images/image_config.h"
#include "images/image_name.h"

#define PIN_OCI_DOCUMENT_MAX ((size_t)4 * 1024 * 1024) /* bytes */
#define PIN_OCI_INDEX_MAX 4096                         /* descriptors */

struct pin_oci_descriptor {
    const char *media_type;
    char digest[PIN_DIGEST_TEXT];
    uint64_t size;
    const char *architecture, *os, *variant; /* NULL: not said */
    const char *name;                        /* org.opencontainers.image.ref.name, or NULL */
    const char *signature;                   /* dev.cosignproject.cosign/signature, base64, or NULL */
};

struct pin_oci_index {
    struct pin_oci_descriptor *manifests;
    size_t count;
};

struct pin_oci_manifest {
    struct pin_oci_descriptor config;
    struct pin_oci_descriptor *layers;
    size_t layer_count;
    const char *media_type; /* as it says, or what it must be */
};

struct pin_oci_platform {
    const char *os, *architecture, *variant; /* variant NULL: any */
};

bool pin_oci_index_parse(struct pin_arena *arena, const char *data, size_t size, struct pin_oci_index *index,
                         struct pin_error *err);
bool pin_oci_manifest_parse(struct pin_arena *arena, const char *data, size_t size,
                            struct pin_oci_manifest *manifest, struct pin_error *err);
/* Fills what a configuration says, and the diff ids of the layers. */
bool pin_oci_config_parse(struct pin_arena *arena, const char *data, size_t size,
                          struct pin_image_config *config, struct pin_error *err);

bool pin_oci_is_index(const char *media_type);
bool pin_oci_is_manifest(const char *media_type);

/* "linux/arm64/v8"; NULL is this machine. False: malformed. */
bool pin_oci_platform_parse(struct pin_arena *arena, const char *text, struct pin_oci_platform *platform);
/* The first manifest of the index for the platform, or NULL. One that doesn't say its platform fits when
 * nothing else does. */
const struct pin_oci_descriptor *pin_oci_index_choose(const struct pin_oci_index *index,
                                                      const struct pin_oci_platform *platform);
