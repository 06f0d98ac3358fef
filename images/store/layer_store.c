#include "images/store/layer_store.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/io.h"
#include "base/units.h"
#include "images/remove.h"
#include "images/store/tree_index.h"

/* "BYTES bytes ENTRIES entries" */
static bool read_sizes(char *text, struct pin_image_layer *layer) {
    char *rest = NULL, *bytes = strtok_r(text, " ", &rest), *word = strtok_r(NULL, " ", &rest),
         *entries = strtok_r(NULL, " ", &rest);
    return word != NULL && entries != NULL && pin_parse_u64(bytes, &layer->unpacked_bytes) &&
           pin_parse_u64(entries, &layer->entries);
}

bool pin_layer_have(const struct pin_image_store *store, const char *diff_id, struct pin_image_layer *layer) {
    char path[96], text[128] = "";
    (void)snprintf(path, sizeof(path), "layers/%.64s/sizes", diff_id + strlen("sha256:"));
    PIN_CLOSE int fd = openat(store->dir, path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    if (fd < 0 || read(fd, text, sizeof(text) - 1) <= 0)
        return false;
    return read_sizes(text, layer);
}

static bool write_sizes(int folder, const struct pin_layer_unpacked *unpacked, struct pin_error *err) {
    char text[128];
    int size = snprintf(text, sizeof(text), "%" PRIu64 " bytes %" PRIu64 " entries\n", unpacked->bytes,
                        unpacked->entries);
    PIN_CLOSE int fd = openat(folder, "sizes", O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (fd < 0)
        return pin_fail_errno(err, "write the layer's sizes");
    return pin_write_all(fd, text, (size_t)size, err);
}

static bool write_index(int folder, int root, struct pin_error *err) {
    int fd = openat(folder, "tree", O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    FILE *to = fd < 0 ? NULL : fdopen(fd, "w");
    if (to == NULL) {
        (void)pin_fail_errno(err, "write the layer's index");
        pin_close_slot(&fd);
        return false;
    }
    bool done = pin_tree_index_write(root, to, err);
    if (fclose(to) != 0 && done)
        return pin_fail_errno(err, "write the layer's index");
    return done;
}

/* The folder of the layer that is being made; its root stands at 0755 until the tar says otherwise. */
static bool make_folder(struct pin_store_work *work, int *folder, int *root, struct pin_error *err) {
    static const struct timespec epoch[2] = {{0}, {0}};
    if (!pin_remove_tree(work->dir, "layer", err))
        return false;
    if (mkdirat(work->dir, "layer", 0700) < 0 || mkdirat(work->dir, "layer/root", 0755) < 0)
        return pin_fail_errno(err, "make a folder for the layer");
    *folder = openat(work->dir, "layer", O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    *root = openat(work->dir, "layer/root", O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (*folder < 0 || *root < 0 || fchmod(*root, 0755) < 0 || futimens(*root, epoch) < 0)
        return pin_fail_errno(err, "make a folder for the layer");
    return true;
}

static bool publish(struct pin_store_work *work, int folder, const char *diff_id, struct pin_error *err) {
    if (syncfs(folder) <
        0) /* one call for all that was written, where a call for each file would take minutes */
        return pin_fail_errno(err, "sync the layer");
    if (pin_store_publish(work, "layer", "layers", diff_id + strlen("sha256:"), err))
        return true;
    if (err->kind != PIN_ERROR_EXISTS)
        return false;
    pin_error_clear(err); /* somebody else was faster, with the same diff id: the same tree */
    return true;
}

static bool unpack(struct pin_store_work *work, const struct pin_layer_limits *limits,
                   struct pin_image_layer *layer, char found[PIN_DIGEST_TEXT], struct pin_error *err) {
    PIN_CLOSE int folder = -1, root = -1, blob = pin_store_open_blob(work->store, layer->blob, err);
    struct pin_layer_unpacked unpacked;
    if (blob < 0 || !make_folder(work, &folder, &root, err) ||
        !pin_layer_unpack(blob, root, limits, &unpacked, err))
        return false;
    (void)pin_digest_print(found, unpacked.diff_id);
    if (layer->diff_id != NULL && strcmp(found, layer->diff_id) != 0)
        return pin_fail(err, PIN_ERROR_INVALID, "its tar has the digest %s, the image says %s", found,
                        layer->diff_id);
    layer->unpacked_bytes = unpacked.bytes;
    layer->entries = unpacked.entries;
    return write_index(folder, root, err) && write_sizes(folder, &unpacked, err) &&
           publish(work, folder, found, err);
}

bool pin_layer_add(struct pin_store_work *work, const struct pin_layer_limits *limits,
                   struct pin_image_layer *layer, char found[PIN_DIGEST_TEXT], struct pin_error *err) {
    PIN_CLOSE int claim = -1;
    if (layer->diff_id != NULL) {
        char name[80];
        bool waited;
        (void)snprintf(name, sizeof(name), "layer-%.64s", layer->diff_id + strlen("sha256:"));
        claim = pin_store_claim(work->store, name, &waited, err);
        if (claim < 0)
            return false;
        memcpy(found, layer->diff_id, PIN_DIGEST_TEXT);
        if (pin_layer_have(work->store, layer->diff_id, layer))
            return true;
    }
    return unpack(work, limits, layer, found, err) || pin_wrap(err, "layer %.19s", layer->blob);
}
