/* Index, manifest, configuration, a signature's payload: any bytes give a document within its bounds, or one
 * error. */
#include <assert.h>
#include <stdint.h>
#include <string.h>

#include "images/store/oci.h"
#include "images/store/signature.h"

static void check_index(struct pin_arena *arena, const char *data, size_t size) {
    struct pin_error err = {0};
    struct pin_oci_index index;
    struct pin_oci_platform platform = {"linux", "amd64", NULL};
    if (!pin_oci_index_parse(arena, data, size, &index, &err)) {
        assert(pin_is_set(&err));
        return;
    }
    assert(index.count <= PIN_OCI_INDEX_MAX);
    for (size_t i = 0; i < index.count; i++)
        assert(pin_image_is_digest(index.manifests[i].digest));
    (void)pin_oci_index_choose(&index, &platform);
}

static void check_manifest(struct pin_arena *arena, const char *data, size_t size) {
    struct pin_error err = {0};
    struct pin_oci_manifest manifest;
    if (!pin_oci_manifest_parse(arena, data, size, &manifest, &err)) {
        assert(pin_is_set(&err));
        return;
    }
    assert(manifest.layer_count <= PIN_IMAGE_LAYERS_MAX && pin_image_is_digest(manifest.config.digest));
}

static void check_config(struct pin_arena *arena, const char *data, size_t size) {
    struct pin_error err = {0};
    struct pin_image_config image;
    if (!pin_oci_config_parse(arena, data, size, &image, &err)) {
        assert(pin_is_set(&err));
        return;
    }
    assert(image.workdir[0] == '\0' || image.workdir[0] == '/');
    for (size_t i = 0; i < image.env_count; i++)
        assert(strchr(image.env[i], '=') > image.env[i]);
    for (size_t i = 0; i < image.layer_count; i++)
        assert(pin_image_is_digest(image.layers[i].diff_id));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct pin_arena arena = {0};
    char digest[PIN_DIGEST_TEXT];
    check_index(&arena, (const char *)data, size);
    check_manifest(&arena, (const char *)data, size);
    check_config(&arena, (const char *)data, size);
    assert(!pin_signature_payload((const char *)data, size, digest) || pin_image_is_digest(digest));
    pin_arena_free(&arena);
    return 0;
}
