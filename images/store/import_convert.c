#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <jansson.h>

#include "base/cleanup.h"
#include "base/names.h"
#include "images/store/import_parts.h"
#include "images/store/layer_store.h"
#include "images/store/rootfs_tar.h"

#define MANIFEST_TYPE "application/vnd.oci.image.manifest.v1+json"
#define CONFIG_TYPE "application/vnd.oci.image.config.v1+json"

static bool put_json(struct pin_importing *importing, json_t *document, char digest[PIN_DIGEST_TEXT],
                     uint64_t *size, struct pin_error *err) {
    PIN_FREE char *text = json_dumps(document, JSON_COMPACT);
    if (text == NULL)
        return pin_fail(err, PIN_ERROR_EXHAUSTED, "no memory to write a document");
    *size = strlen(text);
    return pin_store_add_bytes(importing->work, text, strlen(text), digest, err);
}

static json_t *descriptor(const char *media_type, const char *digest, uint64_t size) {
    return json_pack("{s:s, s:s, s:I}", "mediaType", media_type, "digest", digest, "size", (json_int_t)size);
}

/* The manifest of what we have put together; takes the list of layers over. */
static bool put_manifest(struct pin_importing *importing, const char *config, uint64_t config_size,
                         json_t *layers, struct pin_error *err) {
    json_t *manifest = json_pack("{s:i, s:s, s:o, s:o}", "schemaVersion", 2, "mediaType", MANIFEST_TYPE,
                                 "config", descriptor(CONFIG_TYPE, config, config_size), "layers", layers);
    importing->in_store = true;
    importing->manifest.media_type = MANIFEST_TYPE;
    bool done = put_json(importing, manifest, importing->manifest.digest, &importing->manifest.size, err);
    json_decref(manifest);
    return done;
}

/* The type by the first bytes, as the unpacker tells it. */
static bool add_layer(struct pin_importing *importing, int file, json_t *layers,
                      struct pin_image_layer *layer, struct pin_error *err) {
    char digest[PIN_DIGEST_TEXT];
    if (!pin_store_add_file(importing->work, file, digest, &layer->blob_bytes, err))
        return false;
    PIN_LAYER_STREAM struct pin_layer_stream *stream =
        pin_layer_stream_open(file, digest, importing->import->limits, err);
    if (stream == NULL)
        return false;
    layer->blob = pin_arena_strdup(importing->arena, digest);
    layer->media_type = pin_layer_stream_media_type(stream);
    (void)json_array_append_new(layers, descriptor(layer->media_type, digest, layer->blob_bytes));
    return true;
}

static bool matches(const json_t *image, const char *reference) {
    size_t i;
    json_t *tag;
    json_t *tags = json_object_get(image, "RepoTags");
    if (reference == NULL)
        return true;
    json_array_foreach(tags, i, tag) {
        if (json_is_string(tag) && strcmp(json_string_value(tag), reference) == 0)
            return true;
    }
    return false;
}

static const json_t *choose_docker(struct pin_importing *importing, const json_t *list,
                                   struct pin_error *err) {
    const json_t *chosen = NULL;
    for (size_t i = 0; i < json_array_size(list); i++) {
        if (!matches(json_array_get(list, i), importing->import->reference))
            continue;
        if (chosen != NULL) {
            (void)pin_fail(err, PIN_ERROR_USAGE, "the archive has several images");
            (void)pin_hint(err, "choose one with --ref NAME:TAG");
            return NULL;
        }
        chosen = json_array_get(list, i);
    }
    if (chosen == NULL)
        (void)pin_fail(err, PIN_ERROR_NOT_FOUND, "the archive has no such image");
    return chosen;
}

static bool add_docker_layers(struct pin_importing *importing, const json_t *paths, json_t *layers,
                              struct pin_error *err) {
    if (!json_is_array(paths) || json_array_size(paths) > PIN_IMAGE_LAYERS_MAX)
        return pin_fail(err, PIN_ERROR_SYNTAX, "the archive's manifest has no good list of layers");
    for (size_t i = 0; i < json_array_size(paths); i++) {
        struct pin_image_layer layer = {0};
        const char *path = json_string_value(json_array_get(paths, i));
        if (path == NULL)
            return pin_fail(err, PIN_ERROR_SYNTAX, "the archive's manifest has a layer without a path");
        pin_import_say(importing, "blob", path);
        PIN_CLOSE int file = pin_source_member(importing->source, path, err);
        if (file < 0 || !add_layer(importing, file, layers, &layer, err))
            return pin_wrap(err, "layer '%.80s'", path);
    }
    return true;
}

static bool convert_docker(struct pin_importing *importing, const json_t *list, struct pin_error *err) {
    const json_t *image = choose_docker(importing, list, err);
    if (image == NULL)
        return false;
    const char *path = json_string_value(json_object_get(image, "Config"));
    const char *name = json_string_value(json_array_get(json_object_get(image, "RepoTags"), 0));
    size_t size;
    char digest[PIN_DIGEST_TEXT];
    if (path == NULL)
        return pin_fail(err, PIN_ERROR_SYNTAX, "the archive's manifest names no configuration");
    if (importing->import->reference != NULL)
        name = importing->import->reference;
    importing->source_name = name == NULL ? NULL : pin_arena_strdup(importing->arena, name);
    PIN_FREE char *config = pin_source_read(importing->source, path, PIN_OCI_DOCUMENT_MAX, &size, err);
    if (config == NULL || !pin_store_add_bytes(importing->work, config, size, digest, err))
        return false;
    json_t *layers = json_array();
    if (add_docker_layers(importing, json_object_get(image, "Layers"), layers, err))
        return put_manifest(importing, digest, size, layers, err);
    json_decref(layers);
    return false;
}

bool pin_import_docker(struct pin_importing *importing, struct pin_error *err) {
    size_t size;
    json_error_t why;
    PIN_FREE char *data =
        pin_source_read(importing->source, "manifest.json", PIN_OCI_DOCUMENT_MAX, &size, err);
    if (data == NULL)
        return false;
    json_t *list = json_loadb(data, size, JSON_REJECT_DUPLICATES, &why);
    if (!json_is_array(list)) {
        json_decref(list);
        return pin_fail(err, PIN_ERROR_SYNTAX, "the archive's manifest isn't a list in JSON");
    }
    bool done = convert_docker(importing, list, err);
    json_decref(list);
    return done;
}

/* A directory is written as a tar first, into the work folder. */
static int tar_of(struct pin_importing *importing, struct pin_error *err) {
    if (!importing->source->is_directory)
        return importing->source->file;
    struct pin_rootfs_tar_options options = {
        .own_is_root = geteuid() != 0,
        .clamp_times = importing->import->clamp_times,
        .latest_s = importing->import->latest_s,
    };
    struct stat store;
    if (fstat(importing->work->store->dir, &store) < 0) {
        (void)pin_fail_errno(err, "look at the store");
        return -1;
    }
    options.never_device = store.st_dev;
    options.never_inode = store.st_ino;
    PIN_CLOSE int tar =
        openat(importing->work->dir, "tar", O_RDWR | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (tar < 0) {
        (void)pin_fail_errno(err, "make a tar of the directory");
        return -1;
    }
    if (!pin_rootfs_tar_write(importing->source->dir, tar, &options, err))
        return -1;
    return pin_steal_fd(&tar);
}

/* What a root filesystem doesn't say of itself. */
static const char plain_config[] =
    "{\"Env\":[\"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin\"],\"Cmd\":[\"/bin/sh\"]}";

static json_t *rootfs_config(struct pin_importing *importing, const char *diff_id, struct pin_error *err) {
    const struct pin_import *import = importing->import;
    struct pin_oci_platform platform;
    json_error_t why;
    if (!pin_oci_platform_parse(importing->arena, import->platform, &platform))
        (void)pin_oci_platform_parse(importing->arena, NULL, &platform);
    json_t *given =
        json_loads(import->config != NULL ? import->config : plain_config, JSON_REJECT_DUPLICATES, &why);
    if (given == NULL) {
        (void)pin_fail(err, PIN_ERROR_SYNTAX, "the image's configuration isn't JSON: %.100s", why.text);
        return NULL;
    }
    json_t *config =
        json_pack("{s:s, s:s, s:o, s:{s:s, s:[s]}, s:[{s:s}]}", "architecture", platform.architecture, "os",
                  platform.os, "config", given, "rootfs", "type", "layers", "diff_ids", diff_id, "history",
                  "created_by", import->note != NULL ? import->note : "pinfold image import");
    if (platform.variant != NULL)
        (void)json_object_set_new(config, "variant", json_string(platform.variant));
    return config;
}

bool pin_import_rootfs(struct pin_importing *importing, struct pin_error *err) {
    struct pin_image_layer layer = {0};
    char diff_id[PIN_DIGEST_TEXT], digest[PIN_DIGEST_TEXT];
    uint64_t size;
    if (importing->import->require_signature)
        return pin_fail(err, PIN_ERROR_REFUSED, "a root filesystem can't bring a signature along");
    int tar = tar_of(importing, err);
    if (tar < 0)
        return false;
    json_t *layers = json_array();
    bool added = add_layer(importing, tar, layers, &layer, err) &&
                 pin_layer_add(importing->work, importing->import->limits, false, &layer, diff_id, err);
    if (tar != importing->source->file)
        (void)close(tar);
    if (!added) {
        json_decref(layers);
        return false;
    }
    json_t *config = rootfs_config(importing, diff_id, err);
    bool done = config != NULL && put_json(importing, config, digest, &size, err);
    json_decref(config);
    if (done)
        return put_manifest(importing, digest, size, layers, err);
    json_decref(layers);
    return false;
}
