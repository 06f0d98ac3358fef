/* gc.h: removing what no name and no sandbox needs any more.
 *
 * An image is kept as long as a name stands for it or somebody holds it (image_resolve.h); a blob or a layer
 * as long as a kept image has it. Runs alone in the store: an import in progress makes it wait.
 */
#pragma once

#include "images/store/work.h"

struct pin_gc_report {
    uint64_t images, layers, blobs; /* that go, or would go */
    uint64_t bytes;                 /* of their blobs and tars */
    uint64_t held;                  /* images without a name that a sandbox still uses */
    void (*goes)(void *context, const char *what, const char *digest, uint64_t bytes); /* may be NULL */
    void *context;
};

/* `work` must have been begun ALONE. With `dry` nothing is removed. */
bool pin_store_gc(struct pin_store_work *work, bool dry, struct pin_gc_report *report, struct pin_error *err);
