#include <string.h>

#include "base/cleanup.h"
#include "images/store/import_parts.h"
#include "images/store/record.h"
#include "images/store/signature.h"

#define SIGNATURES_MAX 64

static bool speaks_of(const char *payload, size_t size, const struct pin_image_config *image) {
    char digest[PIN_DIGEST_TEXT];
    return pin_signature_payload(payload, size, digest) &&
           (strcmp(digest, image->manifest) == 0 ||
            (image->index != NULL && strcmp(digest, image->index) == 0));
}

static bool note_keys(struct pin_arena *arena, const char *const *keys, size_t key_count, const char *payload,
                      size_t size, const char *signature, struct pin_image_config *image,
                      struct pin_error *err) {
    for (size_t i = 0; i < key_count; i++) {
        char digest[PIN_DIGEST_TEXT];
        if (!pin_signature_key_digest(keys[i], digest, err))
            return false;
        if (pin_signature_verify(keys[i], payload, size, signature))
            pin_record_merge(arena, &image->signed_by, &image->signed_by_count, digest);
    }
    return true;
}

static bool is_signature(const struct pin_oci_descriptor *layer) {
    return strcmp(layer->media_type, PIN_SIGNATURE_MEDIA_TYPE) == 0 && layer->signature != NULL &&
           layer->size <= PIN_SIGNATURE_PAYLOAD_MAX;
}

static bool read_signature(struct pin_importing *importing, const struct pin_oci_descriptor *layer,
                           struct pin_image_config *image, bool *kept, struct pin_error *err) {
    size_t size;
    PIN_FREE char *payload = pin_import_document(importing, layer, &size, err);
    if (payload == NULL)
        return false;
    if (!speaks_of(payload, size, image))
        return true;
    *kept = true;
    pin_record_merge(importing->arena, &image->signatures, &image->signature_count, layer->digest);
    return note_keys(importing->arena, importing->import->keys, importing->import->key_count, payload, size,
                     layer->signature, image, err);
}

static bool read_manifest(struct pin_importing *importing, const struct pin_oci_descriptor *descriptor,
                          struct pin_image_config *image, struct pin_error *err) {
    size_t size;
    struct pin_oci_manifest manifest;
    PIN_FREE char *data = pin_import_document(importing, descriptor, &size, err);
    bool kept = false;
    if (data == NULL || !pin_oci_manifest_parse(importing->arena, data, size, &manifest, err))
        return false;
    for (size_t i = 0; i < manifest.layer_count; i++)
        if (is_signature(&manifest.layers[i]) &&
            !read_signature(importing, &manifest.layers[i], image, &kept, err))
            return false;
    if (!kept)
        return true;
    pin_record_merge(importing->arena, &image->signatures, &image->signature_count, descriptor->digest);
    if (!pin_import_blob(importing, &manifest.config, err))
        return false;
    pin_record_merge(importing->arena, &image->signatures, &image->signature_count, manifest.config.digest);
    return true;
}

static bool might_sign(const struct pin_importing *importing, const struct pin_oci_descriptor *descriptor) {
    if (!pin_oci_is_manifest(descriptor->media_type) ||
        strcmp(descriptor->digest, importing->manifest.digest) == 0)
        return false;
    return descriptor->name == NULL || strstr(descriptor->name, ".sig") != NULL;
}

bool pin_import_signatures(struct pin_importing *importing, struct pin_image_config *image,
                           struct pin_error *err) {
    size_t looked_at = 0;
    for (size_t i = 0; i < importing->top.count && looked_at < SIGNATURES_MAX; i++) {
        if (!might_sign(importing, &importing->top.manifests[i]))
            continue;
        looked_at++;
        struct pin_error why = {0}; /* a broken signature is none; what it lacks shows below */
        if (!read_manifest(importing, &importing->top.manifests[i], image, &why) &&
            why.kind == PIN_ERROR_EXHAUSTED) {
            *err = why;
            return false;
        }
    }
    if (!importing->import->require_signature || image->signed_by_count > 0)
        return true;
    (void)pin_fail(err, PIN_ERROR_REFUSED, "the image %s isn't signed by a key that was named",
                   image->manifest);
    return pin_hint(err, "%s",
                    image->signature_count > 0 ? "it has signatures, by other keys"
                                               : "it comes without signatures");
}

bool pin_import_check_kept(const struct pin_image_store *store, struct pin_arena *arena,
                           const char *const *keys, size_t key_count, struct pin_image_config *image,
                           struct pin_error *err) {
    size_t count = image->signature_count;
    for (size_t i = 0; i < count; i++) {
        size_t size;
        struct pin_oci_manifest manifest;
        struct pin_error not_one = {0};
        PIN_FREE char *data = pin_store_read_blob(store, image->signatures[i], &size, err);
        if (data == NULL)
            return false;
        if (!pin_oci_manifest_parse(arena, data, size, &manifest, &not_one))
            continue; /* a payload: read with its manifest */
        for (size_t j = 0; j < manifest.layer_count; j++) {
            struct pin_error gone = {0};
            PIN_FREE char *payload = pin_store_read_blob(store, manifest.layers[j].digest, &size, &gone);
            if (payload != NULL && is_signature(&manifest.layers[j]) && speaks_of(payload, size, image) &&
                !note_keys(arena, keys, key_count, payload, size, manifest.layers[j].signature, image, err))
                return false;
        }
    }
    return true;
}
