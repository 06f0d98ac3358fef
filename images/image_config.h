/* image_config.h: what an image says about itself, as the store's record has it.
 *
 * A record is written once, by an import that has checked every digest, and read on the hot path: one small
 * JSON file, by jansson. All strings are in the caller's arena. Source of the fields: OCI image-spec 1.1,
 * config.md.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/error.h"

#define PIN_IMAGE_RECORD_MAX ((size_t)4 * 1024 * 1024) /* bytes */
#define PIN_IMAGE_LAYERS_MAX 127                       /* what overlay and other tools agree on */

struct pin_image_label {
    const char *key, *value;
};

/* Entries that the store keeps otherwise than a layer has them: docs/images.md "Unpacking". */
struct pin_layer_losses {
    uint64_t devices;    /* empty files stand in for them */
    uint64_t set_ids;    /* files without their set-user-id and set-group-id bits */
    uint64_t owners;     /* with owners that a sandbox of this user can't have */
    uint64_t attributes; /* without file capabilities, ACLs and the like */
};

struct pin_image_layer {
    const char *diff_id; /* "sha256:…" of the tar: the name of the unpacked layer */
    const char *blob;    /* "sha256:…" as it came */
    const char *media_type;
    uint64_t blob_bytes, unpacked_bytes, entries;
    struct pin_layer_losses lost; /* not in a record: pin_layer_have() tells it */
};

struct pin_image_history {
    const char *created_by, *comment;
    bool empty_layer;
};

struct pin_image_config {
    const char *name;          /* the name asked for in its short form; NULL when asked for by digest */
    const char *manifest;      /* "sha256:…": the digest of the image */
    const char *manifest_type; /* media type */
    uint64_t manifest_bytes;
    const char *index;  /* "sha256:…" of the index that it was chosen from; NULL: none */
    const char *config; /* "sha256:…" */
    uint64_t config_bytes;
    const char *architecture, *os, *variant, *created, *author; /* NULL: absent */
    const char *user;                                           /* "", "1000", "1000:100", "name:group" */
    const char *workdir;                                        /* "" or absolute */
    const char *stop_signal;
    const char **env, **entrypoint, **command, **volumes, **ports;
    size_t env_count, entrypoint_count, command_count, volume_count, port_count;
    struct pin_image_label *labels;
    size_t label_count;
    struct pin_image_layer *layers; /* the lowest first */
    size_t layer_count;
    struct pin_image_history *history;
    size_t history_count;
    const char **signatures; /* "sha256:…": manifests of signatures that are kept beside the image */
    size_t signature_count;
    const char **signed_by; /* "sha256:…" of the public keys whose signatures were checked (DER, SPKI) */
    size_t signed_by_count;
};

/* Reads a record from its bytes. */
bool pin_image_record_parse(struct pin_arena *arena, const char *data, size_t size,
                            struct pin_image_config *config, struct pin_error *err);
/* The record as JSON text; the caller frees it. NULL on failure. */
char *pin_image_record_print(const struct pin_image_config *config, struct pin_error *err);

/* Whether the record says that this public key (PEM) has signed the image. The signature was checked when the
 * image was imported, or by `pinfold image verify --key`. */
bool pin_image_signed_with(const struct pin_image_config *config, const char *pem);
