#include "images/store/export.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <archive.h>
#include <archive_entry.h>
#include <jansson.h>

#include "base/cleanup.h"
#include "base/io.h"
#include "images/image_name.h"
#include "images/store/blob.h"
#include "images/store/hash.h"

#define CHUNK ((size_t)128 * 1024)
#define MANIFEST_TYPE "application/vnd.oci.image.manifest.v1+json"

/* Where the layout goes: one of two. */
struct target {
    int dir;
    struct archive *tar;
    const struct pin_image_store *store;
    char buffer[CHUNK];
};

static bool tar_failed(const struct target *target, struct pin_error *err) {
    errno = archive_errno(target->tar);
    return pin_fail_errno(err, "write the archive: %.120s", archive_error_string(target->tar));
}

static bool begin_member(struct target *target, const char *path, uint64_t size, struct pin_error *err) {
    struct archive_entry *entry = archive_entry_new();
    archive_entry_set_pathname(entry, path);
    archive_entry_set_filetype(entry, AE_IFREG);
    archive_entry_set_perm(entry, 0644);
    archive_entry_set_size(entry, (int64_t)size);
    archive_entry_set_mtime(entry, 0, 0);
    int code = archive_write_header(target->tar, entry);
    archive_entry_free(entry);
    return code == ARCHIVE_OK || tar_failed(target, err);
}

static bool put_text(struct target *target, const char *path, const char *text, struct pin_error *err) {
    size_t size = strlen(text);
    if (target->tar != NULL)
        return begin_member(target, path, size, err) &&
               (archive_write_data(target->tar, text, size) == (la_ssize_t)size || tar_failed(target, err));
    PIN_CLOSE int file =
        openat(target->dir, path, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0644);
    if (file < 0)
        return pin_fail_errno(err, "make '%s'", path);
    return pin_write_all(file, text, size, err);
}

static bool put_piece(struct target *target, int file, size_t size, struct pin_error *err) {
    if (target->tar != NULL)
        return archive_write_data(target->tar, target->buffer, size) == (la_ssize_t)size ||
               tar_failed(target, err);
    return pin_write_all(file, target->buffer, size, err);
}

static bool copy_blob(struct target *target, int from, int file, const char *digest, struct pin_error *err) {
    PIN_HASHER struct pin_hasher *hasher = pin_hasher_new();
    uint8_t hash[PIN_SHA256_SIZE];
    char found[PIN_DIGEST_TEXT];
    for (;;) {
        ssize_t got = read(from, target->buffer, CHUNK);
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0)
            return pin_fail_errno(err, "read the blob %s", digest);
        if (got == 0)
            break;
        pin_hasher_add(hasher, target->buffer, (size_t)got);
        if (!put_piece(target, file, (size_t)got, err))
            return false;
    }
    pin_hasher_finish(hasher, hash);
    return strcmp(pin_digest_print(found, hash), digest) == 0 ||
           pin_fail(err, PIN_ERROR_INVALID, "the blob %s of the store is damaged", digest);
}

static bool put_blob(struct target *target, const char *digest, struct pin_error *err) {
    char path[96];
    struct stat st;
    (void)snprintf(path, sizeof(path), "blobs/sha256/%.64s", digest + strlen("sha256:"));
    PIN_CLOSE int file = -1, from = pin_store_open_blob(target->store, digest, err);
    if (from < 0)
        return false;
    if (fstat(from, &st) < 0)
        return pin_fail_errno(err, "look at the blob %s", digest);
    if (target->tar != NULL)
        return begin_member(target, path, (uint64_t)st.st_size, err) &&
               copy_blob(target, from, -1, digest, err);
    file = openat(target->dir, path, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0644);
    if (file < 0)
        return errno == EEXIST ||
               pin_fail_errno(err, "make '%s'", path); /* two layers may be the same blob */
    return copy_blob(target, from, file, digest, err);
}

static json_t *describe(const struct target *target, const char *digest, const char *type, const char *name) {
    struct stat st = {0};
    char path[80];
    (void)snprintf(path, sizeof(path), "blobs/%.64s", digest + strlen("sha256:"));
    (void)fstatat(target->store->dir, path, &st, AT_SYMLINK_NOFOLLOW);
    json_t *descriptor =
        json_pack("{s:s, s:s, s:I}", "mediaType", type, "digest", digest, "size", (json_int_t)st.st_size);
    if (name != NULL)
        (void)json_object_set_new(descriptor, "annotations",
                                  json_pack("{s:s}", "org.opencontainers.image.ref.name", name));
    return descriptor;
}

/* Whether a kept blob of a signature is its manifest: the only one of them with a schema's version. */
static bool is_manifest(const struct target *target, const char *digest) {
    size_t size;
    struct pin_error ignored = {0};
    PIN_FREE char *data = pin_store_read_blob(target->store, digest, &size, &ignored);
    json_t *document = data == NULL ? NULL : json_loadb(data, size, 0, NULL);
    bool found = json_object_get(document, "schemaVersion") != NULL;
    json_decref(document);
    return found;
}

static char *print_index(const struct target *target, const struct pin_image_config *image,
                         const char *reference) {
    json_t *list = json_array();
    char name[96];
    (void)json_array_append_new(list, describe(target, image->manifest, image->manifest_type, reference));
    (void)snprintf(name, sizeof(name), "sha256-%.64s.sig", image->manifest + strlen("sha256:"));
    for (size_t i = 0; i < image->signature_count; i++)
        if (is_manifest(target, image->signatures[i]))
            (void)json_array_append_new(list, describe(target, image->signatures[i], MANIFEST_TYPE, name));
    json_t *index = json_pack("{s:i, s:s, s:o}", "schemaVersion", 2, "mediaType",
                              "application/vnd.oci.image.index.v1+json", "manifests", list);
    char *text = json_dumps(index, JSON_COMPACT);
    json_decref(index);
    return text;
}

static bool put_layout(struct target *target, const struct pin_image_config *image, const char *reference,
                       struct pin_error *err) {
    PIN_FREE char *index = print_index(target, image, reference);
    if (index == NULL)
        return pin_fail(err, PIN_ERROR_EXHAUSTED, "no memory to write the index");
    if (!put_text(target, "oci-layout", "{\"imageLayoutVersion\":\"1.0.0\"}", err) ||
        !put_text(target, "index.json", index, err) || !put_blob(target, image->manifest, err) ||
        !put_blob(target, image->config, err))
        return false;
    for (size_t i = 0; i < image->layer_count; i++) {
        bool again = false; /* a tar would have it twice */
        for (size_t j = 0; j < i; j++)
            again |= strcmp(image->layers[i].blob, image->layers[j].blob) == 0;
        if (!again && !put_blob(target, image->layers[i].blob, err))
            return false;
    }
    for (size_t i = 0; i < image->signature_count; i++)
        if (!put_blob(target, image->signatures[i], err))
            return false;
    return true;
}

static bool export_tar(struct target *target, const struct pin_image_config *image, const char *path,
                       const char *reference, struct pin_error *err) {
    PIN_CLOSE int file = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
    if (file < 0) {
        (void)pin_fail_errno(err, "make '%.200s'", path);
        return pin_point(err, "%s", path);
    }
    target->tar = archive_write_new();
    bool done = (archive_write_set_format_pax_restricted(target->tar) == ARCHIVE_OK &&
                 archive_write_open_fd(target->tar, file) == ARCHIVE_OK) ||
                tar_failed(target, err);
    done = done && put_layout(target, image, reference, err);
    done = done && (archive_write_close(target->tar) == ARCHIVE_OK || tar_failed(target, err));
    (void)archive_write_free(target->tar);
    if (!done)
        (void)unlink(path);
    return done;
}

static bool export_directory(struct target *target, const struct pin_image_config *image, const char *path,
                             const char *reference, struct pin_error *err) {
    if (mkdir(path, 0755) < 0 && errno != EEXIST) {
        (void)pin_fail_errno(err, "make '%.200s'", path);
        return pin_point(err, "%s", path);
    }
    PIN_CLOSE int dir = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (dir < 0 || mkdirat(dir, "blobs", 0755) < 0 || mkdirat(dir, "blobs/sha256", 0755) < 0) {
        bool taken = errno == EEXIST;
        (void)pin_fail_errno(err, "make a layout in '%.200s'", path);
        (void)pin_point(err, "%s", path);
        return taken ? pin_hint(err, "there is one already: name another directory, or remove it first")
                     : false;
    }
    target->dir = dir;
    return put_layout(target, image, reference, err);
}

bool pin_image_export(struct pin_store_work *work, const struct pin_image_config *image, const char *path,
                      bool as_tar, const char *reference, struct pin_error *err) {
    struct target target = {.dir = -1, .store = work->store};
    return as_tar ? export_tar(&target, image, path, reference, err)
                  : export_directory(&target, image, path, reference, err);
}
