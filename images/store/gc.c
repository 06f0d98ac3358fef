#include "images/store/gc.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "images/image_resolve.h"
#include "images/store/layer_store.h"
#include "images/store/store_list.h"

struct digests { /* a sorted set; its texts are in the arena */
    const char **items;
    size_t count;
};

struct collection {
    struct pin_store_work *work;
    struct pin_arena arena;
    struct pin_gc_report *report;
    bool dry;
    struct digests named, blobs, layers; /* hex: what stays */
};

static int by_text(const void *a, const void *b) {
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

static void add(struct collection *collection, struct digests *set, const char *digest) {
    if (digest != NULL)
        *(const char **)pin_arena_grow(&collection->arena, &set->items, &set->count, sizeof(*set->items)) =
            digest + strlen("sha256:");
}

static void sort(struct digests *set) {
    if (set->count > 1)
        qsort(set->items, set->count, sizeof(*set->items), by_text);
}

static bool has(const struct digests *set, const char *hex) {
    return set->count > 0 && bsearch(&hex, set->items, set->count, sizeof(*set->items), by_text) != NULL;
}

static void tell(struct collection *collection, const char *what, const char *hex, uint64_t bytes,
                 uint64_t *count) {
    struct pin_gc_report *report = collection->report;
    (*count)++;
    report->bytes += bytes;
    if (report->goes != NULL)
        report->goes(report->context, what, hex, bytes);
}

static bool find_named(struct collection *collection, struct pin_error *err) {
    struct pin_store_names names;
    if (!pin_store_list_names(collection->work->store, &collection->arena, &names, err))
        return false;
    for (size_t i = 0; i < names.count; i++)
        add(collection, &collection->named, names.items[i].digest);
    sort(&collection->named);
    return true;
}

static bool keep(struct collection *collection, const char *hex, struct pin_error *err) {
    struct pin_image_config image;
    const char *digest = pin_arena_printf(&collection->arena, "sha256:%s", hex);
    if (!pin_image_find(collection->work->store, &collection->arena, digest, &image, NULL, err)) {
        /* What it needs is unknown, so nothing can be called superfluous. */
        (void)pin_wrap(err, "an image that is in use");
        return pin_hint(err, "see 'pinfold image verify'");
    }
    add(collection, &collection->blobs, image.manifest);
    add(collection, &collection->blobs, image.config);
    add(collection, &collection->blobs, image.index);
    for (size_t i = 0; i < image.signature_count; i++)
        add(collection, &collection->blobs, image.signatures[i]);
    for (size_t i = 0; i < image.layer_count; i++) {
        add(collection, &collection->blobs, image.layers[i].blob);
        add(collection, &collection->layers, image.layers[i].diff_id);
    }
    return true;
}

/* With the lock that a sandbox would hold shared: one that comes now finds nothing. */
static bool drop_image(struct collection *collection, const char *hex, struct pin_error *err) {
    char path[96];
    (void)snprintf(path, sizeof(path), "images/%s", hex);
    PIN_CLOSE int folder =
        openat(collection->work->store->dir, path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (folder < 0)
        return pin_fail_errno(err, "open '%s' of the image store", path);
    if (flock(folder, LOCK_EX | LOCK_NB) < 0) {
        collection->report->held++;
        return keep(collection, hex, err);
    }
    tell(collection, "image", hex, 0, &collection->report->images);
    return collection->dry || pin_store_discard(collection->work, "images", hex, err);
}

static bool collect_images(struct collection *collection, struct pin_error *err) {
    const char **images;
    size_t count;
    if (!pin_store_list_hex(collection->work->store, "images", &collection->arena, &images, &count, err))
        return false;
    for (size_t i = 0; i < count; i++) {
        bool named = has(&collection->named, images[i]);
        if (named ? !keep(collection, images[i], err) : !drop_image(collection, images[i], err))
            return false;
    }
    sort(&collection->blobs);
    sort(&collection->layers);
    return true;
}

static uint64_t layer_bytes(const struct collection *collection, const char *hex) {
    char digest[PIN_DIGEST_TEXT];
    struct pin_image_layer layer = {0};
    (void)snprintf(digest, sizeof(digest), "sha256:%.64s", hex);
    return pin_layer_have(collection->work->store, digest, &layer) ? layer.unpacked_bytes : 0;
}

static bool collect_folder(struct collection *collection, const char *folder, const struct digests *stays,
                           uint64_t *number, struct pin_error *err) {
    const char **items;
    size_t count;
    bool layers = strcmp(folder, "layers") == 0;
    if (!pin_store_list_hex(collection->work->store, folder, &collection->arena, &items, &count, err))
        return false;
    for (size_t i = 0; i < count; i++) {
        if (has(stays, items[i]))
            continue;
        uint64_t bytes = layers ? layer_bytes(collection, items[i])
                                : pin_store_blob_bytes(collection->work->store, items[i]);
        tell(collection, layers ? "layer" : "blob", items[i], bytes, number);
        if (!collection->dry && !pin_store_discard(collection->work, folder, items[i], err))
            return false;
    }
    return true;
}

/* Files of locks that nobody holds; who opens one now sees that it has no name any more, and makes another.
 */
static void collect_locks(const struct pin_image_store *store) {
    int fd = openat(store->dir, "locks", O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    DIR *list = fd < 0 ? NULL : fdopendir(fd);
    if (list == NULL) {
        pin_close_slot(&fd);
        return;
    }
    const struct dirent *entry;
    while ((entry = readdir(list)) != NULL) {
        if (entry->d_name[0] == '.')
            continue;
        PIN_CLOSE int lock = openat(fd, entry->d_name, O_RDWR | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK);
        if (lock >= 0 && flock(lock, LOCK_EX | LOCK_NB) == 0)
            (void)unlinkat(fd, entry->d_name, 0);
    }
    (void)closedir(list);
}

static bool collect(struct collection *collection, struct pin_error *err) {
    if (!find_named(collection, err) || !collect_images(collection, err))
        return false;
    if (!collect_folder(collection, "layers", &collection->layers, &collection->report->layers, err) ||
        !collect_folder(collection, "blobs", &collection->blobs, &collection->report->blobs, err))
        return false;
    if (!collection->dry)
        collect_locks(collection->work->store);
    return true;
}

bool pin_store_gc(struct pin_store_work *work, bool dry, struct pin_gc_report *report,
                  struct pin_error *err) {
    struct collection collection = {.work = work, .report = report, .dry = dry};
    bool done = collect(&collection, err);
    pin_arena_free(&collection.arena);
    return done;
}
