/* recipe.h: what an image is built from: a recipe, and the lock that says which packages exactly.
 *
 * Both are JSON, bounded and checked whole; what comes out is safe in an argument list and as a file's name.
 * The same recipe and the same lock give the same image. Format: docs/images.md "Recipes". All strings are in
 * the caller's arena.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/error.h"
#include "base/sha256.h"

#define PIN_RECIPE_MAX ((size_t)64 * 1024) /* bytes */
#define PIN_LOCK_MAX ((size_t)4 * 1024 * 1024)
#define PIN_LOCK_PACKAGES_MAX 2000

struct pin_recipe {
    const char *name, *description;
    const char **packages; /* of Debian, by name */
    size_t package_count;
    const char *config;           /* JSON: the "config" of OCI's image configuration */
    char digest[PIN_DIGEST_TEXT]; /* of the recipe's text */
};

struct pin_lock_package {
    const char *name, *version, *architecture;
    char digest[PIN_DIGEST_TEXT]; /* of the .deb */
    uint64_t size;
};

struct pin_lock {
    int64_t epoch_s;                   /* no file of the image is newer: seconds since 1970 */
    struct pin_lock_package *packages; /* in the order of their names */
    size_t count;
};

bool pin_recipe_parse(struct pin_arena *arena, const char *data, size_t size, struct pin_recipe *recipe,
                      struct pin_error *err);

bool pin_lock_parse(struct pin_arena *arena, const char *data, size_t size, struct pin_lock *lock,
                    struct pin_error *err);
/* The lock as JSON, one package a line; in the arena. */
const char *pin_lock_print(struct pin_arena *arena, const struct pin_lock *lock);

/* "python3", and no option, pattern or path. */
bool pin_package_is_name(const char *text);
/* What Debian writes into versions: letters, digits and ".+~:-". */
bool pin_package_is_version(const char *text);
/* The file that apt keeps a package in: "NAME_VERSION_ARCHITECTURE.deb", a colon as "%3a". */
const char *pin_package_file(struct pin_arena *arena, const struct pin_lock_package *package);
