#include <string.h>

#include "base/cleanup.h"
#include "images/store/import_parts.h"

#define NESTING_MAX 4

/* "sha256-HEX.sig" and the like, perhaps behind a repository's name: cosign's artifacts. */
static bool is_artifact(const char *name) {
    static const char *const endings[] = {".sig", ".att", ".sbom"};
    const char *hash = name == NULL ? NULL : strstr(name, "sha256-");
    if (hash == NULL || strspn(hash + 7, "0123456789abcdef") != 64)
        return false;
    for (int i = 0; i < 3; i++)
        if (strcmp(hash + 7 + 64, endings[i]) == 0)
            return true;
    return false;
}

static bool is_candidate(const struct pin_oci_descriptor *manifest, const char *reference) {
    if (!pin_oci_is_manifest(manifest->media_type) && !pin_oci_is_index(manifest->media_type))
        return false;
    if (reference == NULL)
        return !is_artifact(manifest->name);
    return (manifest->name != NULL && strcmp(manifest->name, reference) == 0) ||
           strcmp(manifest->digest, reference) == 0;
}

static bool same_name(const char *a, const char *b) {
    return a == NULL || b == NULL ? a == b : strcmp(a, b) == 0;
}

static bool keep_candidates(const struct pin_importing *importing, struct pin_oci_index *kept,
                            struct pin_error *err) {
    const struct pin_oci_index *top = &importing->top;
    kept->manifests = pin_arena_array(importing->arena, top->count + 1, sizeof(*kept->manifests));
    for (size_t i = 0; i < top->count; i++)
        if (is_candidate(&top->manifests[i], importing->import->reference))
            kept->manifests[kept->count++] = top->manifests[i];
    if (kept->count == 0)
        return importing->import->reference == NULL
                   ? pin_fail(err, PIN_ERROR_NOT_FOUND, "the layout has no image")
                   : pin_fail(err, PIN_ERROR_NOT_FOUND, "the layout has no image '%.100s'",
                              importing->import->reference);
    for (size_t i = 1; i < kept->count; i++)
        if (!same_name(kept->manifests[i].name, kept->manifests[0].name)) {
            (void)pin_fail(err, PIN_ERROR_USAGE, "the layout has several images");
            return pin_hint(
                err, "choose one with --ref: '%.50s', '%.50s', …",
                kept->manifests[0].name == NULL ? kept->manifests[0].digest : kept->manifests[0].name,
                kept->manifests[i].name == NULL ? kept->manifests[i].digest : kept->manifests[i].name);
        }
    return true;
}

static const struct pin_oci_descriptor *choose(struct pin_importing *importing,
                                               const struct pin_oci_index *index, struct pin_error *err) {
    struct pin_oci_platform platform;
    if (index->count == 1)
        return &index->manifests[0]; /* its configuration tells whether the platform is right */
    if (!pin_oci_platform_parse(importing->arena, importing->import->platform, &platform)) {
        (void)pin_fail(err, PIN_ERROR_INVALID, "'%s' is no platform", importing->import->platform);
        return NULL;
    }
    const struct pin_oci_descriptor *chosen = pin_oci_index_choose(index, &platform);
    if (chosen == NULL)
        (void)pin_fail(err, PIN_ERROR_NOT_FOUND, "the image isn't there for %s/%s", platform.os,
                       platform.architecture);
    return chosen;
}

/* An index may lead to another; it can't lead in a circle without breaking SHA-256, but it can be deep. */
static bool descend(struct pin_importing *importing, struct pin_oci_index index, struct pin_error *err) {
    for (int level = 0; level < NESTING_MAX; level++) {
        const struct pin_oci_descriptor *chosen = choose(importing, &index, err);
        if (chosen == NULL)
            return false;
        importing->manifest = *chosen;
        if (pin_oci_is_manifest(chosen->media_type))
            return true;
        if (!pin_oci_is_index(chosen->media_type))
            return pin_fail(err, PIN_ERROR_UNSUPPORTED, "the index leads to a '%.80s'", chosen->media_type);
        if (importing->index == NULL)
            importing->index = pin_arena_strdup(importing->arena, chosen->digest);
        size_t size;
        PIN_FREE char *data = pin_import_document(importing, chosen, &size, err);
        if (data == NULL || !pin_oci_index_parse(importing->arena, data, size, &index, err))
            return false;
        if (index.count == 0)
            return pin_fail(err, PIN_ERROR_INVALID, "the image's index is empty");
    }
    return pin_fail(err, PIN_ERROR_INVALID, "the image's indexes are nested too deep");
}

bool pin_import_choose(struct pin_importing *importing, struct pin_error *err) {
    size_t size;
    struct pin_oci_index kept = {0};
    PIN_FREE char *data = pin_source_read(importing->source, "index.json", PIN_OCI_DOCUMENT_MAX, &size, err);
    if (data == NULL || !pin_oci_index_parse(importing->arena, data, size, &importing->top, err) ||
        !keep_candidates(importing, &kept, err))
        return false;
    importing->source_name = kept.manifests[0].name;
    return descend(importing, kept, err);
}
