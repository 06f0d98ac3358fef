#include "images/store/recipe.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include <jansson.h>

#include "base/names.h"
#include "base/text.h"
#include "images/image_name.h"

#define PACKAGES_MAX 256 /* that a recipe may name */

static bool all_of(const char *text, const char *others) {
    for (; *text != '\0'; text++) {
        bool letter = (*text >= 'a' && *text <= 'z') || (*text >= 'A' && *text <= 'Z');
        if (!letter && !(*text >= '0' && *text <= '9') && strchr(others, *text) == NULL)
            return false;
    }
    return true;
}

bool pin_package_is_name(const char *text) {
    bool starts = (text[0] >= 'a' && text[0] <= 'z') || (text[0] >= '0' && text[0] <= '9');
    return starts && strlen(text) <= 100 && all_of(text, "+.-");
}

bool pin_package_is_version(const char *text) {
    return text[0] >= '0' && text[0] <= '9' && strlen(text) <= 100 && all_of(text, ".+~:-");
}

static json_t *read_object(const char *data, size_t size, size_t limit, const char *what,
                           const char *const *keys, size_t key_count, struct pin_error *err) {
    json_error_t why;
    const char *key;
    json_t *value, *object = NULL;
    if (size > limit)
        (void)pin_fail(err, PIN_ERROR_INVALID, "the %s is larger than %zu bytes", what, limit);
    else if ((object = json_loadb(data, size, JSON_REJECT_DUPLICATES, &why)) == NULL)
        (void)pin_fail(err, PIN_ERROR_SYNTAX, "the %s isn't JSON: line %d: %s", what, why.line, why.text);
    else if (json_integer_value(json_object_get(object, "pinfold")) != 1)
        (void)pin_fail(err, PIN_ERROR_INVALID, "the %s doesn't say \"pinfold\": 1", what);
    json_object_foreach(object, key, value) if (!pin_is_set(err) && pin_name_find(keys, key_count, key) < 0) {
        (void)pin_fail(err, PIN_ERROR_INVALID, "the %s has a key '%.60s' that nobody knows", what, key);
        (void)pin_point(err, "/%.60s", key);
    }
    if (!pin_is_set(err))
        return object;
    json_decref(object);
    return NULL;
}

static bool read_packages(struct pin_arena *arena, const json_t *list, struct pin_recipe *recipe,
                          struct pin_error *err) {
    size_t i, count = json_array_size(list);
    json_t *item;
    if (!json_is_array(list) || count > PACKAGES_MAX)
        return pin_fail(err, PIN_ERROR_INVALID, "the recipe has no list of at most %d packages",
                        PACKAGES_MAX) ||
               pin_point(err, "/packages");
    recipe->packages = pin_arena_array(arena, count + 1, sizeof(*recipe->packages));
    json_array_foreach(list, i, item) {
        const char *name = json_string_value(item);
        if (name == NULL || strlen(name) != json_string_length(item) || !pin_package_is_name(name))
            return pin_fail(err, PIN_ERROR_INVALID, "'%.60s' isn't the name of a package",
                            name == NULL ? "?" : name) ||
                   pin_point(err, "/packages/%zu", i);
        recipe->packages[recipe->package_count++] = pin_arena_strdup(arena, name);
    }
    return true;
}

static bool read_config(struct pin_arena *arena, const json_t *config, struct pin_recipe *recipe,
                        struct pin_error *err) {
    if (config != NULL && !json_is_object(config))
        return pin_fail(err, PIN_ERROR_INVALID, "the recipe's configuration isn't an object") ||
               pin_point(err, "/config");
    char *text = config == NULL ? NULL : json_dumps(config, JSON_COMPACT | JSON_SORT_KEYS);
    recipe->config = pin_arena_strdup(arena, text == NULL ? "{}" : text);
    free(text);
    return true;
}

static bool read_recipe(struct pin_arena *arena, const json_t *object, struct pin_recipe *recipe,
                        struct pin_error *err) {
    const char *name = json_string_value(json_object_get(object, "name"));
    const char *description = json_string_value(json_object_get(object, "description"));
    struct pin_image_name parsed;
    struct pin_error no_name = {0};
    if (name == NULL || !pin_image_name_parse(name, &parsed, &no_name) || strpbrk(name, ":@") != NULL)
        return pin_fail(err, PIN_ERROR_INVALID, "the recipe has no good name") || pin_point(err, "/name");
    recipe->name = pin_arena_strdup(arena, name);
    recipe->description = pin_arena_strdup(arena, description == NULL ? "" : description);
    return read_packages(arena, json_object_get(object, "packages"), recipe, err) &&
           read_config(arena, json_object_get(object, "config"), recipe, err);
}

bool pin_recipe_parse(struct pin_arena *arena, const char *data, size_t size, struct pin_recipe *recipe,
                      struct pin_error *err) {
    static const char *const keys[] = {"pinfold", "name", "description", "packages", "config"};
    struct pin_recipe read = {0};
    uint8_t hash[PIN_SHA256_SIZE];
    json_t *object = read_object(data, size, PIN_RECIPE_MAX, "recipe", keys, PIN_COUNT(keys), err);
    bool done = object != NULL && read_recipe(arena, object, &read, err);
    json_decref(object);
    if (!done)
        return false;
    pin_sha256(data, size, hash);
    (void)pin_digest_print(read.digest, hash);
    *recipe = read;
    return true;
}

static const char *text_of(struct pin_arena *arena, const json_t *object, const char *key,
                           bool (*good)(const char *text)) {
    const json_t *value = json_object_get(object, key);
    const char *text = json_string_value(value);
    if (text == NULL || strlen(text) != json_string_length(value) || !good(text))
        return NULL;
    return pin_arena_strdup(arena, text);
}

static bool read_package(struct pin_arena *arena, const json_t *item, struct pin_lock_package *package) {
    static const char *const keys[] = {"name", "version", "architecture", "digest", "size"};
    const char *digest = text_of(arena, item, "digest", pin_image_is_digest);
    json_int_t size = json_integer_value(json_object_get(item, "size"));
    package->name = text_of(arena, item, "name", pin_package_is_name);
    package->version = text_of(arena, item, "version", pin_package_is_version);
    package->architecture = text_of(arena, item, "architecture", pin_package_is_name);
    if (digest == NULL || package->name == NULL || package->version == NULL ||
        package->architecture == NULL || size <= 0 || json_object_size(item) != PIN_COUNT(keys))
        return false;
    memcpy(package->digest, digest, sizeof(package->digest));
    package->size = (uint64_t)size;
    return true;
}

static bool read_lock(struct pin_arena *arena, const json_t *object, struct pin_lock *lock,
                      struct pin_error *err) {
    const json_t *list = json_object_get(object, "packages"), *epoch = json_object_get(object, "epoch");
    size_t i, count = json_array_size(list);
    json_t *item;
    if (!json_is_integer(epoch) || json_integer_value(epoch) < 0)
        return pin_fail(err, PIN_ERROR_INVALID, "the lock has no good epoch") || pin_point(err, "/epoch");
    if (count == 0 || count > PIN_LOCK_PACKAGES_MAX)
        return pin_fail(err, PIN_ERROR_INVALID, "the lock has no list of 1 to %d packages",
                        PIN_LOCK_PACKAGES_MAX) ||
               pin_point(err, "/packages");
    lock->epoch_s = json_integer_value(epoch);
    lock->packages = pin_arena_array(arena, count, sizeof(*lock->packages));
    json_array_foreach(list, i, item) {
        if (!read_package(arena, item, &lock->packages[lock->count++]) ||
            (i > 0 && strcmp(lock->packages[i - 1].name, lock->packages[i].name) >= 0))
            return pin_fail(err, PIN_ERROR_INVALID,
                            "the lock has a package that isn't whole, or isn't in order") ||
                   pin_point(err, "/packages/%zu", i);
    }
    return true;
}

bool pin_lock_parse(struct pin_arena *arena, const char *data, size_t size, struct pin_lock *lock,
                    struct pin_error *err) {
    static const char *const keys[] = {"pinfold", "epoch", "packages"};
    struct pin_lock read = {0};
    json_t *object = read_object(data, size, PIN_LOCK_MAX, "lock", keys, PIN_COUNT(keys), err);
    bool done = object != NULL && read_lock(arena, object, &read, err);
    json_decref(object);
    if (done)
        *lock = read;
    return done;
}

/* Names, versions and digests have no character that JSON would have to escape. */
const char *pin_lock_print(struct pin_arena *arena, const struct pin_lock *lock) {
    char *text = NULL;
    size_t size = 0;
    FILE *to = open_memstream(&text, &size);
    if (to == NULL)
        abort();
    (void)fprintf(to, "{\"pinfold\": 1, \"epoch\": %" PRId64 ", \"packages\": [\n", lock->epoch_s);
    for (size_t i = 0; i < lock->count; i++) {
        const struct pin_lock_package *package = &lock->packages[i];
        (void)fprintf(to,
                      "  {\"name\": \"%s\", \"version\": \"%s\", \"architecture\": \"%s\", \"digest\": "
                      "\"%s\", \"size\": %" PRIu64 "}%s\n",
                      package->name, package->version, package->architecture, package->digest, package->size,
                      i + 1 < lock->count ? "," : "");
    }
    (void)fputs("]}\n", to);
    if (fclose(to) != 0)
        abort();
    const char *kept = pin_arena_strndup(arena, text, size);
    free(text);
    return kept;
}

const char *pin_package_file(struct pin_arena *arena, const struct pin_lock_package *package) {
    char version[3 * 100 + 1];
    size_t used = 0;
    for (const char *at = package->version; *at != '\0' && used + 4 < sizeof(version); at++) {
        if (*at == ':') {
            memcpy(version + used, "%3a", 3);
            used += 3;
        } else {
            version[used++] = *at;
        }
    }
    version[used] = '\0';
    return pin_arena_printf(arena, "%s_%s_%s.deb", package->name, version, package->architecture);
}
