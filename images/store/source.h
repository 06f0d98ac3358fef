/* source.h: where an image is imported from, as a set of files that can't be swapped or lead elsewhere.
 *
 * A directory is read by openat2(2) beneath its descriptor, without links, regular files only. Of an archive
 * (tar; none, gzip or zstd) the members that an image can need are spooled into the work folder, each under
 * the digest of its name: no name of the archive's ever becomes a path.
 */
#pragma once

#include "images/store/work.h"

enum pin_source_kind {
    PIN_SOURCE_AUTO,
    PIN_SOURCE_OCI,    /* an OCI image layout: directory or tar */
    PIN_SOURCE_DOCKER, /* what `docker save` writes */
    PIN_SOURCE_ROOTFS, /* a root filesystem: directory or tar */
    PIN_SOURCE_KIND_COUNT
};
extern const char *const pin_source_kind_names[PIN_SOURCE_KIND_COUNT + 1]; /* ends with NULL */

struct pin_image_source {
    enum pin_source_kind kind; /* never AUTO once open */
    bool spooled;              /* `dir` is ours, and names in it are digests */
    bool is_directory;
    int dir;  /* of OCI, DOCKER and a ROOTFS directory; -1 otherwise */
    int file; /* of a ROOTFS archive */
};

#define PIN_IMAGE_SOURCE_NONE                                                                                \
    { .kind = PIN_SOURCE_AUTO, .dir = -1, .file = -1 }

bool pin_source_open(struct pin_image_source *source, struct pin_store_work *work, const char *path,
                     enum pin_source_kind kind, struct pin_error *err);
void pin_source_close(struct pin_image_source *source);
#define PIN_IMAGE_SOURCE __attribute__((cleanup(pin_source_close)))

/* Opens a member ("index.json", "blobs/sha256/…") for reading; -1 on failure. */
int pin_source_member(const struct pin_image_source *source, const char *path, struct pin_error *err);
/* A small member whole; the caller frees it. */
char *pin_source_read(const struct pin_image_source *source, const char *path, size_t limit, size_t *size,
                      struct pin_error *err);
