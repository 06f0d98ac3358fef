#include "images/store/layer_store.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/io.h"
#include "base/names.h"
#include "base/units.h"
#include "images/image_resolve.h"
#include "images/remove.h"
#include "images/store/store_list.h"
#include "images/store/tree_index.h"

#define SIZES_MAX 256 /* six numbers and their words */

#define AT(member) offsetof(struct pin_image_layer, member)
/* "NUMBER WORD" each; layers of older stores have the first two. */
static const struct {
    const char *word;
    size_t at; /* of the uint64_t in struct pin_image_layer */
} sizes[] = {
    {"bytes",      AT(unpacked_bytes) },
    {"entries",    AT(entries)        },
    {"devices",    AT(lost.devices)   },
    {"set-ids",    AT(lost.set_ids)   },
    {"owners",     AT(lost.owners)    },
    {"attributes", AT(lost.attributes)},
};
#undef AT

static bool read_sizes(char *text, struct pin_image_layer *layer) {
    struct pin_image_layer found = *layer;
    char *rest = NULL, *number = strtok_r(text, " \n", &rest);
    size_t count = 0;
    for (; number != NULL && count < PIN_COUNT(sizes); number = strtok_r(NULL, " \n", &rest)) {
        const char *word = strtok_r(NULL, " \n", &rest);
        uint64_t *value = (uint64_t *)(void *)((char *)&found + sizes[count].at);
        if (word == NULL || strcmp(word, sizes[count].word) != 0 || !pin_parse_u64(number, value))
            return false;
        count++;
    }
    if (count < 2)
        return false;
    *layer = found;
    return true;
}

bool pin_layer_have(const struct pin_image_store *store, const char *diff_id, struct pin_image_layer *layer) {
    char path[96], text[SIZES_MAX] = "";
    (void)snprintf(path, sizeof(path), "layers/%.64s/root", diff_id + strlen("sha256:"));
    if (faccessat(store->dir, path, F_OK, AT_SYMLINK_NOFOLLOW) != 0)
        return false;
    (void)snprintf(path, sizeof(path), "layers/%.64s/sizes", diff_id + strlen("sha256:"));
    PIN_CLOSE int fd = openat(store->dir, path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    if (fd < 0 || read(fd, text, sizeof(text) - 1) <= 0)
        return false;
    return read_sizes(text, layer);
}

FILE *pin_layer_index(const struct pin_image_store *store, const char *hex, int *root) {
    char path[96];
    (void)snprintf(path, sizeof(path), "layers/%.64s/tree", hex);
    int fd = openat(store->dir, path, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
    FILE *index = fd < 0 ? NULL : fdopen(fd, "r");
    if (index == NULL) {
        pin_close_slot(&fd);
        return NULL;
    }
    (void)snprintf(path, sizeof(path), "layers/%.64s/root", hex);
    *root = openat(store->dir, path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (*root >= 0)
        return index;
    (void)fclose(index);
    return NULL;
}

static void count_difference(void *context, const char *path, const char *what) {
    (void)path;
    (void)what;
    ++*(size_t *)context;
}

static bool is_sound(const struct pin_image_store *store, const char *diff_id) {
    PIN_CLOSE int root = -1;
    struct pin_image_layer layer = {0};
    if (!pin_layer_have(store, diff_id, &layer))
        return false;
    FILE *index = pin_layer_index(store, diff_id + strlen("sha256:"), &root);
    size_t differences = 0;
    struct pin_error why = {0}; /* what can't be compared isn't sound */
    if (index == NULL)
        return false;
    bool compared = pin_tree_index_check(root, index, count_difference, &differences, &why);
    (void)fclose(index);
    return compared && differences == 0;
}

static bool write_sizes(int folder, const struct pin_image_layer *layer, struct pin_error *err) {
    char text[SIZES_MAX];
    int size = 0;
    for (size_t i = 0; i < PIN_COUNT(sizes); i++) {
        uint64_t value;
        memcpy(&value, (const char *)layer + sizes[i].at, sizeof(value));
        size += snprintf(text + size, sizeof(text) - (size_t)size, "%" PRIu64 " %s%s", value, sizes[i].word,
                         i + 1 < PIN_COUNT(sizes) ? " " : "\n");
    }
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

static bool has_layer(const struct pin_image_config *image, const char *hex) {
    for (size_t i = 0; i < image->layer_count; i++)
        if (strcmp(image->layers[i].diff_id + strlen("sha256:"), hex) == 0)
            return true;
    return false;
}

/* Takes the lock of every image with the layer, that a sandbox would hold shared; who starts one now waits.
 */
static bool lock_images(const struct pin_image_store *store, struct pin_arena *arena, const char *hex,
                        int **locks, size_t *count, struct pin_error *err) {
    const char **images;
    size_t image_count;
    if (!pin_store_list_hex(store, "images", arena, &images, &image_count, err))
        return false;
    for (size_t i = 0; i < image_count; i++) {
        struct pin_image_config image;
        struct pin_error unknown = {0}; /* what can't be read can't be run either */
        int hold;
        if (!pin_image_find(store, arena, pin_arena_printf(arena, "sha256:%s", images[i]), &image, &hold,
                            &unknown))
            continue;
        *(int *)pin_arena_grow(arena, locks, count, sizeof(**locks)) = hold;
        if (has_layer(&image, hex) && flock(hold, LOCK_EX | LOCK_NB) != 0) {
            (void)pin_fail(err, PIN_ERROR_BUSY,
                           "the layer sha256:%.12s… is damaged, and a sandbox runs from it", hex);
            return pin_hint(err, "end what runs from the image, then get it again");
        }
    }
    return true;
}

/* The old tree goes with the work folder. */
static bool replace(struct pin_store_work *work, const char *hex, struct pin_error *err) {
    char path[96];
    PIN_ARENA struct pin_arena arena = {0};
    int *locks = NULL;
    size_t count = 0;
    (void)snprintf(path, sizeof(path), "layers/%.64s", hex);
    bool done = lock_images(work->store, &arena, hex, &locks, &count, err);
    if (done && renameat2(work->dir, "layer", work->store->dir, path, RENAME_EXCHANGE) < 0)
        done = pin_fail_errno(err, "replace '%s' in the image store", path);
    done = done && pin_store_sync(work->store, "layers", err);
    for (size_t i = 0; i < count; i++)
        (void)close(locks[i]);
    return done;
}

static bool publish(struct pin_store_work *work, int folder, const char *diff_id, bool replaces,
                    struct pin_error *err) {
    if (syncfs(folder) <
        0) /* one call for all that was written, where a call for each file would take minutes */
        return pin_fail_errno(err, "sync the layer");
    if (pin_store_publish(work, "layer", "layers", diff_id + strlen("sha256:"), err))
        return true;
    if (err->kind != PIN_ERROR_EXISTS)
        return false;
    pin_error_clear(
        err); /* somebody else was faster, with the same diff id: the same tree; or it is damaged */
    return !replaces || is_sound(work->store, diff_id) || replace(work, diff_id + strlen("sha256:"), err);
}

static bool unpack(struct pin_store_work *work, const struct pin_layer_limits *limits, bool replaces,
                   struct pin_image_layer *layer, char found[PIN_DIGEST_TEXT], struct pin_error *err) {
    PIN_CLOSE int folder = -1, root = -1, blob = pin_store_open_blob(work->store, layer->blob, err);
    struct pin_layer_unpacked unpacked;
    if (blob < 0 || !make_folder(work, &folder, &root, err) ||
        !pin_layer_unpack(blob, layer->blob, root, limits, &unpacked, err))
        return false;
    memcpy(found, unpacked.diff_id, PIN_DIGEST_TEXT);
    if (layer->diff_id != NULL && strcmp(found, layer->diff_id) != 0)
        return pin_fail(err, PIN_ERROR_INVALID, "its tar has the digest %s, the image says %s", found,
                        layer->diff_id);
    layer->unpacked_bytes = unpacked.bytes;
    layer->entries = unpacked.entries;
    layer->lost = unpacked.lost;
    return write_index(folder, root, err) && write_sizes(folder, layer, err) &&
           publish(work, folder, found, replaces, err);
}

bool pin_layer_add(struct pin_store_work *work, const struct pin_layer_limits *limits, bool mends,
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
        if (pin_layer_have(work->store, layer->diff_id, layer) &&
            (!mends || is_sound(work->store, layer->diff_id)))
            return true;
    }
    /* with the claim, one that is there all the same is damaged */
    return unpack(work, limits, layer->diff_id != NULL, layer, found, err) ||
           pin_wrap(err, "layer %.19s", layer->blob);
}
