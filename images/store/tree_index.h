/* tree_index.h: what is in a directory tree, record by record, to tell later whether it still is.
 *
 * A record is "KIND MODE USER GROUP TIME SIZE DIGEST PATH" and a zero byte; KIND is f, d, l, p or w
 * (whiteout); DIGEST covers the content of a file or the target of a link, and the extended attributes.
 * Records come in the order of their paths, compared part by part.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "base/error.h"

/* Writes the index of the tree below `root`. */
bool pin_tree_index_write(int root, FILE *to, struct pin_error *err);

/* Compares the tree with an index; calls `differs` for each path that isn't as it was ("" is the root), with
 * what is the matter: "changed", "missing" or "extra". False: it couldn't be compared. */
bool pin_tree_index_check(int root, FILE *index,
                          void (*differs)(void *context, const char *path, const char *what), void *context,
                          struct pin_error *err);
