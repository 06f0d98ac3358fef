#include "images/store/blob.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/io.h"
#include "images/store/hash.h"
#include "images/store/layer_pipe.h"
#include "images/store/oci.h"

static void blob_path(char path[80], const char *digest) {
    (void)snprintf(path, 80, "blobs/%s", digest + strlen("sha256:"));
}

bool pin_store_check_blob(const struct pin_image_store *store, const char *digest, uint64_t size) {
    struct pin_error ignored = {0};
    PIN_CLOSE int fd = pin_store_open_blob(store, digest, &ignored);
    char found[PIN_DIGEST_TEXT];
    uint64_t found_size;
    return fd >= 0 && pin_hash_file(fd, found, &found_size, &ignored) && found_size == size &&
           strcmp(found, digest) == 0;
}

struct source {
    int from;
    uint64_t read, most;
};

/* To the end, or to a piece beyond `most`. */
static ptrdiff_t read_source(void *context, void *to, size_t room, uint64_t *taken, struct pin_error *err) {
    struct source *source = context;
    ssize_t got = 0;
    if (source->read <= source->most)
        do
            got = pread(source->from, to, room, (off_t)source->read);
        while (got < 0 && errno == EINTR);
    if (got < 0)
        (void)pin_fail_errno(err, "read the blob");
    else
        source->read += (uint64_t)got;
    *taken = source->read;
    return got;
}

/* What is hashed is what is written, from the same buffer. */
static bool copy_hashed(int from, int to, uint64_t most, char digest[PIN_DIGEST_TEXT], uint64_t *size,
                        struct pin_error *err) {
    struct source source = {.from = from, .most = most};
    struct pin_layer_piece piece;
    PIN_LAYER_PIPE struct pin_layer_pipe *pipe = pin_layer_pipe_open(read_source, &source, true, err);
    if (pipe == NULL)
        return false;
    *size = 0;
    do {
        if (!pin_layer_pipe_take(pipe, &piece, err) || !pin_write_all(to, piece.data, piece.size, err))
            return false;
        *size += piece.size;
    } while (piece.size > 0);
    pin_layer_pipe_digest(pipe, digest);
    return true;
}

static int new_file(struct pin_store_work *work, struct pin_error *err) {
    int file = openat(work->dir, "blob", O_RDWR | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (file < 0)
        (void)pin_fail_errno(err, "make a blob in the image store");
    return file;
}

static bool publish(struct pin_store_work *work, int file, const char *digest, struct pin_error *err) {
    if (fsync(file) < 0)
        return pin_fail_errno(err, "sync a blob");
    if (pin_store_publish(work, "blob", "blobs", digest + strlen("sha256:"), err))
        return true;
    if (err->kind != PIN_ERROR_EXISTS)
        return false;
    /* Somebody else was faster; or what is there is damaged, and ours is known to be good. */
    pin_error_clear(err);
    char path[80];
    blob_path(path, digest);
    return renameat(work->dir, "blob", work->store->dir, path) == 0 || pin_fail_errno(err, "publish a blob");
}

bool pin_store_add_blob(struct pin_store_work *work, int from, const char *digest, uint64_t size,
                        struct pin_error *err) {
    char found[PIN_DIGEST_TEXT];
    uint64_t found_size;
    if (pin_store_check_blob(work->store, digest, size))
        return true;
    PIN_CLOSE int file = new_file(work, err);
    if (file < 0 || !copy_hashed(from, file, size, found, &found_size, err))
        return pin_wrap(err, "blob %s", digest);
    if (found_size != size)
        return pin_fail(err, PIN_ERROR_INVALID, "the blob %s has %s than the %llu bytes that were announced",
                        digest, found_size > size ? "more" : "less", (unsigned long long)size);
    if (strcmp(found, digest) != 0)
        return pin_fail(err, PIN_ERROR_INVALID, "the blob %s has the digest %s", digest, found);
    return publish(work, file, digest, err);
}

bool pin_store_add_file(struct pin_store_work *work, int from, char digest[PIN_DIGEST_TEXT], uint64_t *size,
                        struct pin_error *err) {
    PIN_CLOSE int file = new_file(work, err);
    if (file < 0 || !copy_hashed(from, file, UINT64_MAX >> 1, digest, size, err))
        return false;
    return publish(work, file, digest, err);
}

bool pin_store_add_bytes(struct pin_store_work *work, const void *data, size_t size,
                         char digest[PIN_DIGEST_TEXT], struct pin_error *err) {
    uint8_t hash[PIN_SHA256_SIZE];
    pin_sha256(data, size, hash);
    (void)pin_digest_print(digest, hash);
    PIN_CLOSE int file = new_file(work, err);
    return file >= 0 && pin_write_all(file, data, size, err) && publish(work, file, digest, err);
}

int pin_store_open_blob(const struct pin_image_store *store, const char *digest, struct pin_error *err) {
    char path[80];
    blob_path(path, digest);
    int fd = openat(store->dir, path, O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0)
        (void)pin_fail_errno(err, "open the blob %s", digest);
    return fd;
}

char *pin_store_read_blob(const struct pin_image_store *store, const char *digest, size_t *size,
                          struct pin_error *err) {
    PIN_CLOSE int fd = pin_store_open_blob(store, digest, err);
    PIN_FREE char *data = fd < 0 ? NULL : pin_read_all(fd, PIN_OCI_DOCUMENT_MAX, size, err);
    uint8_t hash[PIN_SHA256_SIZE];
    char found[PIN_DIGEST_TEXT];
    if (data == NULL)
        return NULL;
    pin_sha256(data, *size, hash);
    if (strcmp(pin_digest_print(found, hash), digest) == 0)
        return pin_steal_ptr(&data);
    (void)pin_fail(err, PIN_ERROR_INVALID, "the blob %s of the store is damaged", digest);
    (void)pin_hint(err, "import or pull the image again");
    return NULL;
}
