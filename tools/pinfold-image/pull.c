#include "tools/pinfold-image/pull.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <jansson.h>

#include "base/cleanup.h"
#include "base/io.h"
#include "images/image_name.h"
#include "images/image_resolve.h"
#include "images/store/oci.h"
#include "images/store/record.h"
#include "images/store/verify.h"

#define MANIFEST_TYPE "application/vnd.oci.image.manifest.v1+json"

struct pulling {
    struct pin_store_work *work;
    const struct pull *pull;
    struct pin_arena *arena;
    struct pin_image_name name;     /* in the registry */
    struct pin_image_name own_name; /* in the store */
    const char *index_data;         /* of an image for several machines */
    size_t index_size;
    const char *index;              /* its digest; NULL: none */
    uint64_t blob_max;              /* bytes of the largest blob that the manifest announces */
    char manifest[PIN_DIGEST_TEXT]; /* what is pulled */
    json_t *layout;                 /* the list of the layout's index */
    int blobs;
};

static const char *digest_of(struct pin_arena *arena, const void *data, size_t size) {
    uint8_t hash[PIN_SHA256_SIZE];
    char text[PIN_DIGEST_TEXT];
    pin_sha256(data, size, hash);
    return pin_arena_strdup(arena, pin_digest_print(text, hash));
}

static bool choose_from_index(struct pulling *pulling, const struct pin_oci_index *index,
                              struct pin_error *err) {
    struct pin_oci_platform platform;
    if (!pin_oci_platform_parse(pulling->arena, pulling->pull->import.platform, &platform)) {
        (void)pin_fail(err, PIN_ERROR_INVALID, "'%s' is no platform", pulling->pull->import.platform);
        return pin_hint(err, "it looks like 'linux/arm64' or 'linux/arm/v7'");
    }
    const struct pin_oci_descriptor *chosen = pin_oci_index_choose(index, &platform);
    if (chosen == NULL)
        return pin_fail(err, PIN_ERROR_NOT_FOUND, "the registry doesn't have the image for %s/%s",
                        platform.os, platform.architecture);
    memcpy(pulling->manifest, chosen->digest, sizeof(pulling->manifest));
    return true;
}

static bool is_expected(const char *digest, const char *expected, struct pin_error *err) {
    return expected[0] == '\0' || strcmp(digest, expected) == 0 ||
           pin_fail(err, PIN_ERROR_INVALID, "the registry gave %s for %s", digest, expected);
}

/* No blob is larger than the manifest says, however much a registry sends. */
static bool bound_blobs(struct pulling *pulling, const struct pin_oci_manifest *manifest,
                        struct pin_error *err) {
    uint64_t most = pulling->pull->import.limits->bytes;
    pulling->blob_max = PIN_OCI_DOCUMENT_MAX;
    for (size_t i = 0; i < manifest->layer_count; i++) {
        uint64_t size = manifest->layers[i].size;
        if (size > most)
            return pin_fail(err, PIN_ERROR_REFUSED, "the layer %.19s has %llu bytes, more than %llu",
                            manifest->layers[i].digest, (unsigned long long)size, (unsigned long long)most);
        if (size > pulling->blob_max)
            pulling->blob_max = size;
    }
    return true;
}

static bool look_at_manifest(struct pulling *pulling, struct pin_error *err) {
    const char *reference =
        pin_arena_printf(pulling->arena, "docker://%s@%s", pulling->name.name, pulling->manifest);
    size_t size;
    struct pin_oci_manifest manifest;
    PIN_FREE char *data = skopeo_inspect_raw(&pulling->pull->skopeo, reference, &size, err);
    return data != NULL && is_expected(digest_of(pulling->arena, data, size), pulling->manifest, err) &&
           pin_oci_manifest_parse(pulling->arena, data, size, &manifest, err) &&
           bound_blobs(pulling, &manifest, err);
}

/* Resolves the tag: after this, only digests are asked for. */
static bool look_up(struct pulling *pulling, struct pin_error *err) {
    size_t size;
    struct pin_oci_index index;
    struct pin_oci_manifest manifest;
    struct pin_error not_index = {0};
    const char *reference = pin_arena_printf(pulling->arena, "docker://%s", pulling->pull->reference);
    PIN_FREE char *data = skopeo_inspect_raw(&pulling->pull->skopeo, reference, &size, err);
    if (data == NULL)
        return false;
    const char *digest = digest_of(pulling->arena, data, size);
    if (!is_expected(digest, pulling->name.digest, err))
        return false;
    if (pin_oci_index_parse(pulling->arena, data, size, &index, &not_index)) {
        pulling->index = digest;
        pulling->index_data = pin_arena_memdup(pulling->arena, data, size);
        pulling->index_size = size;
        return choose_from_index(pulling, &index, err);
    }
    if (!pin_oci_manifest_parse(pulling->arena, data, size, &manifest, err))
        return pin_wrap(err, "'%.100s' in the registry", pulling->pull->reference);
    memcpy(pulling->manifest, digest, PIN_DIGEST_TEXT);
    return bound_blobs(pulling, &manifest, err);
}

static bool add_blob(struct pulling *pulling, const void *data, size_t size, const char *digest,
                     struct pin_error *err) {
    const char *hex = digest + strlen("sha256:");
    PIN_CLOSE int file =
        openat(pulling->blobs, hex, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (file < 0)
        return pin_fail_errno(err, "write a document of the image");
    return pin_write_all(file, data, size, err);
}

static void add_to_layout(struct pulling *pulling, const char *type, const char *digest, size_t size,
                          const char *name) {
    (void)json_array_append_new(pulling->layout,
                                json_pack("{s:s, s:s, s:I, s:{s:s}}", "mediaType", type, "digest", digest,
                                          "size", (json_int_t)size, "annotations",
                                          "org.opencontainers.image.ref.name", name));
}

static bool move_blobs(struct pulling *pulling, int from, struct pin_error *err) {
    int again = openat(from, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *list = again < 0 ? NULL : fdopendir(again);
    if (list == NULL)
        return pin_fail_errno(err, "list what skopeo got");
    const struct dirent *entry;
    bool done = true;
    while (done && (errno = 0, entry = readdir(list)) != NULL)
        if (pin_image_is_hex(entry->d_name))
            done = renameat(from, entry->d_name, pulling->blobs, entry->d_name) == 0 ||
                   pin_fail_errno(err, "move a blob");
    if (done && errno != 0)
        done = pin_fail_errno(err, "list what skopeo got");
    (void)closedir(list);
    return done;
}

/* Copies one manifest and its blobs into the layout. */
static bool copy(struct pulling *pulling, const char *reference, const char *name, const char *expected,
                 uint64_t blob_max, struct pin_error *err) {
    const struct pin_store_work *work = pulling->work;
    const char *path = pin_arena_printf(pulling->arena, "%s/tmp/%s/skopeo", work->store->path, work->name);
    if (!skopeo_copy(&pulling->pull->skopeo, reference, path, blob_max, err))
        return false;
    PIN_CLOSE int from = openat(work->dir, "skopeo", O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    size_t size;
    PIN_FREE char *data =
        from < 0 ? NULL : pin_read_file_at(from, "manifest.json", PIN_OCI_DOCUMENT_MAX, &size, err);
    struct pin_oci_manifest manifest;
    if (from < 0)
        return pin_fail_errno(err, "open what skopeo got");
    if (data == NULL || !pin_oci_manifest_parse(pulling->arena, data, size, &manifest, err))
        return false;
    const char *digest = digest_of(pulling->arena, data, size);
    if (!is_expected(digest, expected, err))
        return false;
    if (!add_blob(pulling, data, size, digest, err) || !move_blobs(pulling, from, err))
        return false;
    if (name != NULL)
        add_to_layout(pulling, manifest.media_type, digest, size, name);
    return true;
}

/* A signature that isn't there is no fault here: whether one is needed is decided by the import. */
static void copy_signatures(struct pulling *pulling) {
    const char *const signed_digests[] = {pulling->manifest, pulling->index};
    for (size_t i = 0; i < 2; i++) {
        struct pin_error absent = {0};
        if (signed_digests[i] == NULL)
            continue;
        const char *tag =
            pin_arena_printf(pulling->arena, "sha256-%s.sig", signed_digests[i] + strlen("sha256:"));
        const char *reference = pin_arena_printf(pulling->arena, "docker://%s:%s", pulling->name.name, tag);
        (void)copy(pulling, reference, tag, "", PIN_OCI_DOCUMENT_MAX, &absent);
    }
}

static bool make_layout(struct pulling *pulling, struct pin_error *err) {
    int dir = pulling->work->dir;
    if (mkdirat(dir, "layout", 0700) < 0 || mkdirat(dir, "layout/blobs", 0700) < 0 ||
        mkdirat(dir, "layout/blobs/sha256", 0700) < 0)
        return pin_fail_errno(err, "make a layout");
    pulling->blobs = openat(dir, "layout/blobs/sha256", O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    return pulling->blobs >= 0 || pin_fail_errno(err, "make a layout");
}

static bool write_file(int dir, const char *name, const char *text, struct pin_error *err) {
    PIN_CLOSE int file = openat(dir, name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (file < 0)
        return pin_fail_errno(err, "write '%s'", name);
    return pin_write_all(file, text, strlen(text), err);
}

static bool write_index(struct pulling *pulling, struct pin_error *err) {
    json_t *index = json_pack("{s:i, s:O}", "schemaVersion", 2, "manifests", pulling->layout);
    PIN_FREE char *text = json_dumps(index, JSON_COMPACT);
    json_decref(index);
    return write_file(pulling->work->dir, "layout/index.json", text, err) &&
           write_file(pulling->work->dir, "layout/oci-layout", "{\"imageLayoutVersion\":\"1.0.0\"}", err);
}

static bool fill_layout(struct pulling *pulling, struct pin_error *err) {
    const char *reference =
        pin_arena_printf(pulling->arena, "docker://%s@%s", pulling->name.name, pulling->manifest);
    const char *top = pulling->index == NULL ? "image" : NULL;
    if (pulling->index != NULL && !look_at_manifest(pulling, err))
        return false;
    if (!make_layout(pulling, err) ||
        !copy(pulling, reference, top, pulling->manifest, pulling->blob_max, err))
        return false;
    if (pulling->index != NULL) {
        if (!add_blob(pulling, pulling->index_data, pulling->index_size, pulling->index, err))
            return false;
        add_to_layout(pulling, "application/vnd.oci.image.index.v1+json", pulling->index, pulling->index_size,
                      "image");
    }
    if (pulling->pull->import.key_count > 0)
        copy_signatures(pulling);
    return write_index(pulling, err);
}

static bool import_layout(struct pulling *pulling, struct pin_image_config *image, struct pin_error *err) {
    char text[PIN_IMAGE_TEXT];
    struct pin_import import = pulling->pull->import;
    const struct pin_store_work *work = pulling->work;
    import.path = pin_arena_printf(pulling->arena, "%s/tmp/%s/layout", work->store->path, work->name);
    import.kind = PIN_SOURCE_OCI;
    import.reference = "image";
    import.name = pin_arena_strdup(pulling->arena, pin_image_name_print(text, &pulling->own_name));
    return pin_image_import(pulling->work, &import, pulling->arena, image, err);
}

/* An image that is here already, whole, only gets its name. */
static bool have_it(struct pulling *pulling, struct pin_image_config *image, bool *had,
                    struct pin_error *err) {
    struct pin_error absent = {0};
    char text[PIN_IMAGE_TEXT];
    *had = !pulling->pull->repair && pulling->pull->import.key_count == 0 &&
           !pulling->pull->import.require_signature &&
           pin_image_find(pulling->work->store, pulling->arena, pulling->manifest, image, NULL, &absent) &&
           pin_store_is_whole(pulling->work->store, image);
    if (!*had)
        return true;
    image->name = pin_arena_strdup(pulling->arena, pin_image_name_print(text, &pulling->own_name));
    return pin_record_name(pulling->work, &pulling->own_name, image->manifest, err);
}

static bool pull_once(struct pulling *pulling, struct pin_image_config *image, struct pin_error *err) {
    char claim_name[96];
    bool waited, had;
    (void)snprintf(claim_name, sizeof(claim_name), "pull-%s", pulling->manifest + strlen("sha256:"));
    PIN_CLOSE int claim = pin_store_claim(pulling->work->store, claim_name, &waited, err);
    if (claim < 0 || !have_it(pulling, image, &had, err))
        return false;
    return had || (fill_layout(pulling, err) && import_layout(pulling, image, err));
}

static bool choose_name(struct pulling *pulling, struct pin_error *err) {
    const struct pull *pull = pulling->pull;
    if (!pin_image_name_parse(pull->reference, &pulling->name, err))
        return false;
    if (pulling->name.name[0] == '\0')
        return pin_fail(err, PIN_ERROR_USAGE, "a digest alone doesn't say which registry has it");
    if (pull->import.name != NULL)
        return pin_image_name_parse(pull->import.name, &pulling->own_name, err);
    pulling->own_name = pulling->name;
    pulling->own_name.digest[0] = '\0';
    if (pulling->name.digest[0] == '\0')
        return true;
    (void)pin_fail(err, PIN_ERROR_USAGE, "an image that is pulled by its digest needs a name");
    return pin_hint(err, "give it one with --name");
}

bool pull_image(struct pin_store_work *work, const struct pull *pull, struct pin_arena *arena,
                struct pin_image_config *image, struct pin_error *err) {
    struct pulling pulling = {.work = work, .pull = pull, .arena = arena, .blobs = -1};
    if (!choose_name(&pulling, err) || !look_up(&pulling, err))
        return false;
    pulling.layout = json_array();
    bool done = pull_once(&pulling, image, err);
    json_decref(pulling.layout);
    pin_close_slot(&pulling.blobs);
    return done;
}
