/* remove.h: removing a tree of ours, by descriptor, without following anything. */
#pragma once

#include <stdbool.h>

#include "base/error.h"

/* Removes `name` in `dir` and all below it; one that isn't there is fine. Stays on the same filesystem. */
bool pin_remove_tree(int dir, const char *name, struct pin_error *err);
