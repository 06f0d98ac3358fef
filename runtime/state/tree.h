/* tree.h: removing a directory whose content is hostile.
 *
 * The tree is walked by descriptors: no link is followed, no mount is entered, and no path is built, so that
 * neither the names nor the depth nor the number of entries matter. At most PIN_TREE_DEPTH directories are
 * open: what lies deeper is moved up to the top of the tree first. Directories without permissions are given
 * them. Nothing may change the tree meanwhile: its processes must be dead.
 */
#pragma once

#include "base/error.h"

#define PIN_TREE_DEPTH 32

/* Removes `name` in `parent`, a directory or not. True too when it is missing. On failure what could be
 * removed is gone. As an ordinary user this needs an id that owns the directories: files of subordinate ids
 * are removed from within their user namespace. */
bool pin_tree_remove(int parent, const char *name, struct pin_error *err);
