#include "images/store/commit.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <jansson.h>

#include "base/cleanup.h"
#include "base/names.h"
#include "images/store/blob.h"
#include "images/store/layer_store.h"
#include "images/store/oci.h"
#include "images/store/record.h"
#include "images/store/rootfs_tar.h"

#define MANIFEST_TYPE "application/vnd.oci.image.manifest.v1+json"
#define CONFIG_TYPE "application/vnd.oci.image.config.v1+json"
#define LAYER_TYPE "application/vnd.oci.image.layer.v1.tar"

/* An OCI manifest lists OCI's types; Docker's name the same bytes. */
static const char *oci_type(const char *type) {
    static const char *const pairs[][2] = {
        {"application/vnd.docker.image.rootfs.diff.tar",      LAYER_TYPE        },
        {"application/vnd.docker.image.rootfs.diff.tar.gzip", LAYER_TYPE "+gzip"},
        {"application/vnd.docker.image.rootfs.diff.tar.zstd", LAYER_TYPE "+zstd"},
    };
    for (size_t i = 0; i < PIN_COUNT(pairs); i++)
        if (strcmp(pairs[i][0], type) == 0)
            return pairs[i][1];
    return type;
}

static json_t *descriptor(const char *type, const char *digest, uint64_t size) {
    return json_pack("{s:s, s:s, s:I}", "mediaType", type, "digest", digest, "size", (json_int_t)size);
}

static bool make_layer(struct pin_store_work *work, const struct pin_commit *commit, struct pin_arena *arena,
                       struct pin_image_layer *layer, struct pin_error *err) {
    uint64_t set_ids = 0;
    struct pin_rootfs_tar_options options = {.leave_out = commit->leave_out,
                                             .changes = true,
                                             .own_is_root = geteuid() != 0,
                                             .set_ids = &set_ids,
                                             .first_id = commit->first_id};
    char digest[PIN_DIGEST_TEXT], diff_id[PIN_DIGEST_TEXT];
    PIN_CLOSE int tar = openat(work->dir, "tar", O_RDWR | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (tar < 0)
        return pin_fail_errno(err, "make a tar of the changes");
    if (!pin_rootfs_tar_write(commit->changes, tar, &options, err) ||
        !pin_store_add_file(work, tar, digest, &layer->blob_bytes, err))
        return false;
    layer->blob = pin_arena_strdup(arena, digest);
    layer->media_type = LAYER_TYPE;
    if (!pin_layer_add(work, commit->limits, false, layer, diff_id, err))
        return false;
    layer->lost.set_ids = set_ids;
    layer->diff_id = pin_arena_strdup(arena, diff_id);
    return true;
}

static bool put_json(struct pin_store_work *work, const json_t *document, char digest[PIN_DIGEST_TEXT],
                     uint64_t *size, struct pin_error *err) {
    PIN_FREE char *text = json_dumps(document, JSON_COMPACT);
    if (text == NULL)
        return pin_fail(err, PIN_ERROR_EXHAUSTED, "no memory to write a document");
    *size = strlen(text);
    return pin_store_add_bytes(work, text, strlen(text), digest, err);
}

/* The base's configuration as it is, with one layer and one line of history more. */
static bool put_config(struct pin_store_work *work, const struct pin_commit *commit,
                       const struct pin_image_layer *layer, char digest[PIN_DIGEST_TEXT], uint64_t *size,
                       struct pin_error *err) {
    size_t length;
    PIN_FREE char *data = pin_store_read_blob(work->store, commit->base->config, &length, err);
    if (data == NULL)
        return false;
    json_t *config = json_loadb(data, length, JSON_REJECT_DUPLICATES, NULL);
    json_t *history = json_object_get(config, "history");
    (void)json_array_append_new(json_object_get(json_object_get(config, "rootfs"), "diff_ids"),
                                json_string(layer->diff_id));
    if (json_is_array(history))
        (void)json_array_append_new(history, json_pack("{s:s}", "created_by", commit->note));
    bool done = config == NULL ? pin_fail(err, PIN_ERROR_SYNTAX, "the base's configuration is damaged")
                               : put_json(work, config, digest, size, err);
    json_decref(config);
    return done;
}

static bool put_manifest(struct pin_store_work *work, const struct pin_image_config *image,
                         char digest[PIN_DIGEST_TEXT], uint64_t *size, struct pin_error *err) {
    json_t *layers = json_array();
    for (size_t i = 0; i < image->layer_count; i++)
        (void)json_array_append_new(layers, descriptor(image->layers[i].media_type, image->layers[i].blob,
                                                       image->layers[i].blob_bytes));
    json_t *manifest =
        json_pack("{s:i, s:s, s:o, s:o}", "schemaVersion", 2, "mediaType", MANIFEST_TYPE, "config",
                  descriptor(CONFIG_TYPE, image->config, image->config_bytes), "layers", layers);
    bool done = put_json(work, manifest, digest, size, err);
    json_decref(manifest);
    return done;
}

/* Nobody has signed the new image, and it comes from no index. */
static void start_from_base(const struct pin_commit *commit, struct pin_arena *arena,
                            const struct pin_image_layer *layer, struct pin_image_config *image) {
    *image = *commit->base;
    image->index = NULL;
    image->signature_count = image->signed_by_count = 0;
    image->layers = pin_arena_array(arena, image->layer_count + 1, sizeof(*image->layers));
    for (size_t i = 0; i < image->layer_count; i++) {
        image->layers[i] = commit->base->layers[i];
        image->layers[i].media_type = oci_type(image->layers[i].media_type);
    }
    image->layers[image->layer_count++] = *layer;
}

static void add_history(const struct pin_commit *commit, struct pin_arena *arena,
                        struct pin_image_config *image) {
    struct pin_image_history *history = pin_arena_array(arena, image->history_count + 1, sizeof(*history));
    for (size_t i = 0; i < image->history_count; i++)
        history[i] = image->history[i];
    history[image->history_count++] = (struct pin_image_history){.created_by = commit->note};
    image->history = history;
}

bool pin_image_commit(struct pin_store_work *work, const struct pin_commit *commit,
                      const struct pin_image_name *name, struct pin_arena *arena,
                      struct pin_image_config *image, struct pin_error *err) {
    struct pin_image_layer layer = {0};
    struct pin_image_config made;
    char config[PIN_DIGEST_TEXT], manifest[PIN_DIGEST_TEXT], text[PIN_IMAGE_TEXT];
    if (commit->base->layer_count >= PIN_IMAGE_LAYERS_MAX)
        return pin_fail(err, PIN_ERROR_REFUSED, "the base has %d layers already, the most that there can be",
                        PIN_IMAGE_LAYERS_MAX);
    if (!make_layer(work, commit, arena, &layer, err))
        return false;
    start_from_base(commit, arena, &layer, &made);
    if (!put_config(work, commit, &layer, config, &made.config_bytes, err))
        return false;
    made.config = config;
    made.manifest_type = MANIFEST_TYPE;
    if (!put_manifest(work, &made, manifest, &made.manifest_bytes, err))
        return false;
    add_history(commit, arena, &made);
    made.config = pin_arena_strdup(arena, config);
    made.manifest = pin_arena_strdup(arena, manifest);
    made.name = pin_arena_strdup(arena, pin_image_name_print(text, name));
    if (!pin_record_put(work, arena, &made, err) || !pin_record_name(work, name, made.manifest, err))
        return false;
    *image = made;
    return true;
}
