#include "images/store/verify.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/text.h"
#include "images/image_resolve.h"
#include "images/store/blob.h"
#include "images/store/layer_store.h"
#include "images/store/store_list.h"
#include "images/store/tree_index.h"

struct checking {
    const struct pin_image_store *store;
    struct pin_arena arena;
    struct pin_verify *verify;
    const char *layer; /* hex, while its tree is compared */
};

static void fault(struct checking *checking, const char *what, const char *detail) {
    checking->verify->faults++;
    checking->verify->fault(checking->verify->context, what, detail);
}

static bool check_blobs(struct checking *checking, struct pin_error *err) {
    const char **blobs;
    size_t count;
    if (!pin_store_list_hex(checking->store, "blobs", &checking->arena, &blobs, &count, err))
        return false;
    for (size_t i = 0; i < count; i++) {
        char digest[PIN_DIGEST_TEXT];
        (void)snprintf(digest, sizeof(digest), "sha256:%.64s", blobs[i]);
        uint64_t size = pin_store_blob_bytes(checking->store, blobs[i]);
        checking->verify->blobs++;
        checking->verify->bytes += size;
        if (!pin_store_check_blob(checking->store, digest, size))
            fault(checking, pin_arena_printf(&checking->arena, "blob %s", digest), "damaged");
    }
    return true;
}

static void tree_differs(void *context, const char *path, const char *what) {
    char shown[400];
    struct checking *checking = context;
    fault(checking,
          pin_arena_printf(&checking->arena, "layer sha256:%s /%s", checking->layer,
                           pin_escape(shown, sizeof(shown), path, strlen(path))),
          what);
}

static bool check_layer(struct checking *checking, struct pin_error *err) {
    PIN_CLOSE int root = -1;
    FILE *index = pin_layer_index(checking->store, checking->layer, &root);
    checking->verify->layers++;
    if (index == NULL) {
        fault(checking, pin_arena_printf(&checking->arena, "layer sha256:%s", checking->layer), "incomplete");
        return true;
    }
    bool done = pin_tree_index_check(root, index, tree_differs, checking, err);
    (void)fclose(index);
    return done;
}

static bool check_layers(struct checking *checking, struct pin_error *err) {
    const char **layers;
    size_t count;
    if (!pin_store_list_hex(checking->store, "layers", &checking->arena, &layers, &count, err))
        return false;
    for (size_t i = 0; i < count; i++) {
        struct pin_error why = {0};
        checking->layer = layers[i];
        if (!check_layer(checking, &why))
            fault(checking, pin_arena_printf(&checking->arena, "layer sha256:%s", layers[i]), why.message);
    }
    return true;
}

static void check_parts(struct checking *checking, const struct pin_image_config *image) {
    const struct {
        const char *digest;
        uint64_t size;
    } documents[] = {
        {image->manifest, image->manifest_bytes},
        {image->config,   image->config_bytes  },
    };
    for (size_t i = 0; i < 2; i++)
        if (pin_store_blob_bytes(checking->store, documents[i].digest + 7) != documents[i].size)
            fault(checking,
                  pin_arena_printf(&checking->arena, "blob %s of image %s", documents[i].digest,
                                   image->manifest),
                  "missing, or of another size");
    for (size_t i = 0; i < image->layer_count; i++) {
        struct pin_image_layer layer;
        if (pin_store_blob_bytes(checking->store, image->layers[i].blob + 7) != image->layers[i].blob_bytes)
            fault(checking,
                  pin_arena_printf(&checking->arena, "blob %s of image %s", image->layers[i].blob,
                                   image->manifest),
                  "missing, or of another size");
        if (!pin_layer_have(checking->store, image->layers[i].diff_id, &layer))
            fault(checking,
                  pin_arena_printf(&checking->arena, "layer %s of image %s", image->layers[i].diff_id,
                                   image->manifest),
                  "missing");
    }
}

static bool check_images(struct checking *checking, struct pin_error *err) {
    const char **images;
    size_t count;
    if (!pin_store_list_hex(checking->store, "images", &checking->arena, &images, &count, err))
        return false;
    for (size_t i = 0; i < count; i++) {
        struct pin_image_config image;
        struct pin_error why = {0};
        const char *digest = pin_arena_printf(&checking->arena, "sha256:%s", images[i]);
        checking->verify->images++;
        if (pin_image_find(checking->store, &checking->arena, digest, &image, NULL, &why))
            check_parts(checking, &image);
        else
            fault(checking, pin_arena_printf(&checking->arena, "image %s", digest), why.message);
    }
    return true;
}

static bool check_names(struct checking *checking, struct pin_error *err) {
    struct pin_store_names names;
    struct pin_error why = {0};
    (void)err;
    if (!pin_store_list_names(checking->store, &checking->arena, &names, &why)) {
        fault(checking, "names", why.message);
        return true;
    }
    for (size_t i = 0; i < names.count; i++) {
        char path[96], text[PIN_IMAGE_TEXT];
        (void)snprintf(path, sizeof(path), "images/%.64s/record", names.items[i].digest + 7);
        checking->verify->names++;
        if (faccessat(checking->store->dir, path, F_OK, 0) < 0)
            fault(checking,
                  pin_arena_printf(&checking->arena, "name %s",
                                   pin_image_name_print(text, &names.items[i].name)),
                  "stands for an image that isn't there");
    }
    return true;
}

static void ignore_fault(void *context, const char *what, const char *detail) {
    (void)context;
    (void)what;
    (void)detail;
}

bool pin_store_is_whole(const struct pin_image_store *store, const struct pin_image_config *image) {
    struct pin_verify verify = {.fault = ignore_fault};
    struct checking checking = {.store = store, .verify = &verify};
    check_parts(&checking, image);
    pin_arena_free(&checking.arena);
    return verify.faults == 0;
}

bool pin_store_verify(const struct pin_image_store *store, struct pin_verify *verify, struct pin_error *err) {
    static bool (*const checks[])(struct checking * checking, struct pin_error * err) = {
        check_blobs, check_layers, check_images, check_names};
    struct checking checking = {.store = store, .verify = verify};
    bool done = true;
    for (size_t i = 0; done && i < (verify->blobs_only ? 1 : sizeof(checks) / sizeof(*checks)); i++)
        done = checks[i](&checking, err);
    pin_arena_free(&checking.arena);
    return done;
}
