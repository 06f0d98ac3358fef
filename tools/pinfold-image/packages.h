/* packages.h: Debian's packages, fetched by apt with the host's own sources, keys and proxies.
 *
 * apt works in folders of ours ("apt" below the cache), as if nothing were installed, and checks signatures
 * as it does for the host. What it has fetched stays there: a lock whose packages are all there needs no
 * network.
 */
#pragma once

#include "images/store/recipe.h"

/* Asks the sources what the recipe needs today, and fetches it. The lock is in the arena. */
bool packages_resolve(struct pin_arena *arena, const struct pin_recipe *recipe, bool show,
                      struct pin_lock *lock, struct pin_error *err);
/* Fetches what isn't there yet of exactly these. */
bool packages_fetch(struct pin_arena *arena, const struct pin_lock *lock, bool show, struct pin_error *err);
/* Copies them into the folder, each as it is copied checked against its digest in the lock. */
bool packages_copy(struct pin_arena *arena, const struct pin_lock *lock, int folder, struct pin_error *err);
