/* import.h: from a source to an image in the store.
 *
 * In this order, so that no byte is used before it is known to be the right one: manifest, configuration and
 * signatures (copied, digests checked, parsed), then the layers' blobs, then unpacking (diff ids checked),
 * then the record, then the name. Whatever fails, the store has what it had before, and maybe blobs that `gc`
 * takes.
 */
#pragma once

#include "images/image_config.h"
#include "images/store/layer_stream.h"
#include "images/store/source.h"

struct pin_import {
    const char *path; /* of the source */
    enum pin_source_kind kind;
    const char *name;        /* to give the image; NULL: the one that the source says */
    const char *reference;   /* which image of the source; NULL: the only one */
    const char *platform;    /* "os/architecture[/variant]"; NULL: this machine's */
    const char *const *keys; /* PEM texts */
    size_t key_count;
    bool require_signature; /* by one of the keys, before anything is unpacked */
    bool clamp_times;       /* of a directory: no time later than `latest_s` */
    int64_t latest_s;
    const char *config; /* of a root filesystem: OCI's "config" object as JSON; NULL: a shell and a PATH */
    const char *note;   /* of a root filesystem: what its history says; NULL: that it was imported */
    const struct pin_layer_limits *limits;
    void (*progress)(void *context, const char *what, const char *which); /* may be NULL */
    void *context;
};

/* `image` is what the store has now; in the arena. */
bool pin_image_import(struct pin_store_work *work, const struct pin_import *import, struct pin_arena *arena,
                      struct pin_image_config *image, struct pin_error *err);
