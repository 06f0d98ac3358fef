#include "images/store/import.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/names.h"
#include "images/image_resolve.h"
#include "images/store/import_parts.h"
#include "images/store/layer_store.h"
#include "images/store/record.h"

void pin_import_say(const struct pin_importing *importing, const char *what, const char *which) {
    if (importing->import->progress != NULL)
        importing->import->progress(importing->import->context, what, which);
}

bool pin_import_blob(struct pin_importing *importing, const struct pin_oci_descriptor *blob,
                     struct pin_error *err) {
    char path[96];
    if (importing->in_store)
        return true;
    (void)snprintf(path, sizeof(path), "blobs/sha256/%.64s", blob->digest + strlen("sha256:"));
    PIN_CLOSE int from = pin_source_member(importing->source, path, err);
    return from >= 0 && pin_store_add_blob(importing->work, from, blob->digest, blob->size, err);
}

char *pin_import_document(struct pin_importing *importing, const struct pin_oci_descriptor *blob,
                          size_t *size, struct pin_error *err) {
    if (blob->size > PIN_OCI_DOCUMENT_MAX) {
        (void)pin_fail(err, PIN_ERROR_INVALID, "the document %s is larger than %zu bytes", blob->digest,
                       PIN_OCI_DOCUMENT_MAX);
        return NULL;
    }
    return pin_import_blob(importing, blob, err)
               ? pin_store_read_blob(importing->work->store, blob->digest, size, err)
               : NULL;
}

static bool read_config(struct pin_importing *importing, const struct pin_oci_manifest *manifest,
                        struct pin_image_config *image, struct pin_error *err) {
    size_t size;
    PIN_FREE char *data = pin_import_document(importing, &manifest->config, &size, err);
    if (data == NULL || !pin_oci_config_parse(importing->arena, data, size, image, err))
        return false;
    if (image->layer_count != manifest->layer_count)
        return pin_fail(err, PIN_ERROR_INVALID, "the manifest has %zu layers, the configuration %zu",
                        manifest->layer_count, image->layer_count);
    for (size_t i = 0; i < image->layer_count; i++) {
        image->layers[i].blob = pin_arena_strdup(importing->arena, manifest->layers[i].digest);
        image->layers[i].blob_bytes = manifest->layers[i].size;
        image->layers[i].media_type = manifest->layers[i].media_type;
    }
    image->config = pin_arena_strdup(importing->arena, manifest->config.digest);
    image->config_bytes = manifest->config.size;
    return true;
}

static bool read_image(struct pin_importing *importing, struct pin_image_config *image,
                       struct pin_error *err) {
    size_t size;
    struct pin_oci_manifest manifest;
    PIN_FREE char *data = pin_import_document(importing, &importing->manifest, &size, err);
    if (data == NULL || !pin_oci_manifest_parse(importing->arena, data, size, &manifest, err) ||
        !read_config(importing, &manifest, image, err))
        return false;
    image->manifest = pin_arena_strdup(importing->arena, importing->manifest.digest);
    image->manifest_type = manifest.media_type;
    image->manifest_bytes = importing->manifest.size;
    image->index = importing->index;
    return true;
}

static bool check_platform(struct pin_importing *importing, const struct pin_image_config *image,
                           struct pin_error *err) {
    struct pin_oci_platform platform;
    if (!pin_oci_platform_parse(importing->arena, importing->import->platform, &platform)) {
        (void)pin_fail(err, PIN_ERROR_INVALID, "'%s' is no platform", importing->import->platform);
        return pin_hint(err, "it looks like 'linux/arm64' or 'linux/arm/v7'");
    }
    bool os = image->os == NULL || image->os[0] == '\0' || strcmp(image->os, platform.os) == 0;
    bool machine = image->architecture == NULL || image->architecture[0] == '\0' ||
                   strcmp(image->architecture, platform.architecture) == 0;
    if (os && machine)
        return true;
    (void)pin_fail(err, PIN_ERROR_UNSUPPORTED, "the image is for %.30s/%.30s, not for %s/%s",
                   os ? platform.os : image->os, image->architecture == NULL ? "?" : image->architecture,
                   platform.os, platform.architecture);
    return pin_hint(err, "name another platform with --platform to import it all the same");
}

static bool check_layer_type(const struct pin_image_layer *layer, struct pin_error *err) {
    static const char *const types[] = {
        "application/vnd.oci.image.layer.v1.tar",
        "application/vnd.oci.image.layer.v1.tar+gzip",
        "application/vnd.oci.image.layer.v1.tar+zstd",
        "application/vnd.docker.image.rootfs.diff.tar",
        "application/vnd.docker.image.rootfs.diff.tar.gzip",
        "application/vnd.docker.image.rootfs.diff.tar.zstd",
    };
    return pin_name_find(types, PIN_COUNT(types), layer->media_type) >= 0 ||
           pin_fail(err, PIN_ERROR_UNSUPPORTED, "the layer %.19s has the type '%.80s'", layer->blob,
                    layer->media_type);
}

static bool get_layer(struct pin_importing *importing, struct pin_image_layer *layer, struct pin_error *err) {
    struct pin_oci_descriptor blob = {.size = layer->blob_bytes};
    char found[PIN_DIGEST_TEXT];
    memcpy(blob.digest, layer->blob, sizeof(blob.digest));
    pin_import_say(importing, "blob", layer->blob);
    return pin_import_blob(importing, &blob, err) &&
           pin_layer_add(importing->work, importing->import->limits, importing->again, layer, found, err);
}

static bool get_layers(struct pin_importing *importing, struct pin_image_config *image,
                       struct pin_error *err) {
    for (size_t i = 0; i < image->layer_count; i++)
        if (!check_layer_type(&image->layers[i], err))
            return false;
    for (size_t i = 0; i < image->layer_count; i++)
        if (!get_layer(importing, &image->layers[i], err))
            return false;
    return true;
}

static const char *choose_name(const struct pin_importing *importing) {
    return importing->import->name != NULL ? importing->import->name : importing->source_name;
}

static bool check_name(const struct pin_importing *importing, struct pin_image_name *name,
                       struct pin_error *err) {
    const char *text = choose_name(importing);
    if (text == NULL) {
        (void)pin_fail(err, PIN_ERROR_USAGE, "the source has no name for the image");
        return pin_hint(err, "name it: pinfold image import PATH NAME");
    }
    if (!pin_image_name_parse(text, name, err))
        return false;
    return name->digest[0] == '\0' ||
           pin_fail(err, PIN_ERROR_INVALID, "'%.100s' is a digest, not a name to give", text);
}

/* Who imports what is there already has it looked at, and mended. */
static bool have_image(const struct pin_importing *importing, const struct pin_image_config *image) {
    char path[96];
    (void)snprintf(path, sizeof(path), "images/%.64s/record", image->manifest + strlen("sha256:"));
    return faccessat(importing->work->store->dir, path, F_OK, AT_SYMLINK_NOFOLLOW) == 0;
}

static bool import_image(struct pin_importing *importing, struct pin_image_config *image,
                         struct pin_error *err) {
    struct pin_image_name name;
    char claim_name[80];
    bool waited;
    if (!check_name(importing, &name, err) || !read_image(importing, image, err) ||
        !check_platform(importing, image, err) || !pin_import_signatures(importing, image, err))
        return false;
    /* Who imports the same image at the same time waits here, and then finds all of it. */
    (void)snprintf(claim_name, sizeof(claim_name), "image-%.64s", image->manifest + strlen("sha256:"));
    PIN_CLOSE int claim = pin_store_claim(importing->work->store, claim_name, &waited, err);
    if (claim < 0)
        return false;
    importing->again = have_image(importing, image);
    if (!get_layers(importing, image, err))
        return false;
    char text[PIN_IMAGE_TEXT];
    image->name = pin_arena_strdup(importing->arena, pin_image_name_print(text, &name));
    return pin_record_put(importing->work, importing->arena, image, err) &&
           pin_record_name(importing->work, &name, image->manifest, err);
}

bool pin_image_import(struct pin_store_work *work, const struct pin_import *import, struct pin_arena *arena,
                      struct pin_image_config *image, struct pin_error *err) {
    static bool (*const prepare[])(struct pin_importing * importing, struct pin_error * err) = {
        [PIN_SOURCE_OCI] = pin_import_choose,
        [PIN_SOURCE_DOCKER] = pin_import_docker,
        [PIN_SOURCE_ROOTFS] = pin_import_rootfs,
    };
    PIN_IMAGE_SOURCE struct pin_image_source source = PIN_IMAGE_SOURCE_NONE;
    struct pin_image_config done = {0};
    if (!pin_source_open(&source, work, import->path, import->kind, err))
        return false;
    struct pin_importing importing = {
        .work = work,
        .import = import,
        .source = &source,
        .arena = arena,
    };
    if (!prepare[source.kind](&importing, err) || !import_image(&importing, &done, err))
        return pin_wrap(err, "import '%.100s'", import->path);
    *image = done;
    return true;
}
