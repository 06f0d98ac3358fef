/* layer_path.h: what a name in a layer's tar means: a place below the layer's root, and maybe a whiteout.
 *
 * Pure. A leading "/", "./" and empty parts are dropped; ".." is refused anywhere: no honest tool writes it.
 * Source: OCI image-spec 1.1, layer.md, "Whiteouts".
 */
#pragma once

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>

#include "base/error.h"

#define PIN_LAYER_DEPTH_MAX 256

enum pin_layer_entry {
    PIN_LAYER_ROOT,     /* "./": the root itself */
    PIN_LAYER_PLAIN,    /* an entry */
    PIN_LAYER_WHITEOUT, /* ".wh.NAME": NAME of the layers below is gone */
    PIN_LAYER_OPAQUE,   /* ".wh..wh..opq": all that the layers below have in `parent` is gone */
    PIN_LAYER_SKIP,     /* aufs's own notes, ".wh..wh.*" */
};

struct pin_layer_path {
    enum pin_layer_entry kind;
    char parent[PATH_MAX];   /* "usr/bin"; "" is the root */
    char name[NAME_MAX + 1]; /* of the entry, or of what the whiteout removes */
};

bool pin_layer_path_parse(const char *text, struct pin_layer_path *path, struct pin_error *err);
