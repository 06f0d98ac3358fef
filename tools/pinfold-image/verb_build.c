/* `pinfold image build`. */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stddef.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/io.h"
#include "base/names.h"
#include "images/image_name.h"
#include "pin_image_recipes.h"
#include "tools/pinfold-image/build.h"
#include "tools/pinfold-image/packages.h"
#include "tools/pinfold-image/verbs.h"

struct build_values {
    const char *lock, *policy;
    bool list, json;
};

#define AT(member) offsetof(struct build_values, member)
static const struct pin_option options[] = {
    {"lock",   0, PIN_OPTION_TEXT, AT(lock),   "FILE",
     "the packages exactly; where it isn't there, it is written",                                    NULL},
    {"policy", 0, PIN_OPTION_TEXT, AT(policy), "P",
     "what the sandboxes of the build may have, over what builds usually have",                      NULL},
    {"list",   0, PIN_OPTION_FLAG, AT(list),   NULL,   "list the recipes that pinfold brings along", NULL},
    {"json",   0, PIN_OPTION_FLAG, AT(json),   NULL,   "print one JSON object",                      NULL},
};
#undef AT

static const struct pin_embedded *find_recipe(const char *name) {
    for (size_t i = 0; i < pin_image_recipes_count; i++) {
        const char *file = pin_image_recipes[i].name;
        size_t stem = strlen(file) - strlen(".json");
        if (strlen(name) == stem && memcmp(file, name, stem) == 0)
            return &pin_image_recipes[i];
    }
    return NULL;
}

static bool not_found(const char *name, struct pin_error *err) {
    (void)pin_fail(err, PIN_ERROR_NOT_FOUND, "there is no recipe '%.60s'", name);
    return pin_hint(
        err, "'pinfold image build --list' lists them; a file of one's own has a '/' or '.json' in it");
}

/* A name that pinfold knows, or a file. */
static bool read_recipe(const char *name, struct pin_arena *arena, struct pin_recipe *recipe,
                        struct pin_error *err) {
    const struct pin_embedded *known = find_recipe(name);
    size_t size;
    if (known != NULL)
        return pin_recipe_parse(arena, (const char *)known->data, known->size, recipe, err);
    if (strchr(name, '/') == NULL && strstr(name, ".json") == NULL)
        return not_found(name, err);
    PIN_FREE char *data = pin_read_file_at(AT_FDCWD, name, PIN_RECIPE_MAX + 1, &size, err);
    if (data == NULL || !pin_recipe_parse(arena, data, size, recipe, err)) {
        (void)pin_wrap(err, "recipe '%.100s'", name);
        return pin_point(err, "%s", name);
    }
    return true;
}

/* False without an error: there is none yet. */
static bool read_lock(const char *path, struct pin_arena *arena, struct pin_lock *lock,
                      struct pin_error *err) {
    size_t size;
    if (path == NULL || (access(path, F_OK) != 0 && errno == ENOENT))
        return false;
    PIN_FREE char *data = pin_read_file_at(AT_FDCWD, path, PIN_LOCK_MAX + 1, &size, err);
    if (data != NULL && pin_lock_parse(arena, data, size, lock, err))
        return true;
    (void)pin_wrap(err, "lock '%.100s'", path);
    return pin_point(err, "%s", path);
}

static bool write_lock(const char *path, struct pin_arena *arena, const struct pin_lock *lock,
                       struct pin_error *err) {
    const char *text = pin_lock_print(arena, lock);
    if (path == NULL)
        return true;
    PIN_CLOSE int file = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
    if (file < 0)
        return pin_fail_errno(err, "write the lock '%.100s'", path);
    return pin_write_all(file, text, strlen(text), err);
}

static bool get_packages(const struct build_values *values, const struct build *build,
                         struct pin_arena *arena, struct pin_lock *lock, struct pin_error *err) {
    if (read_lock(values->lock, arena, lock, err))
        return packages_fetch(arena, lock, build->show, err);
    return !pin_is_set(err) && packages_resolve(arena, build->recipe, build->show, lock, err) &&
           write_lock(values->lock, arena, lock, err);
}

/* What is a path counts from here, and not from the folder of the build. */
static bool whole_path(const char *policy, struct pin_arena *arena, const char **whole,
                       struct pin_error *err) {
    char here[PATH_MAX];
    size_t size = policy == NULL ? 0 : strlen(policy);
    bool path = policy != NULL &&
                (strchr(policy, '/') != NULL || (size > 5 && strcmp(policy + size - 5, ".json") == 0));
    *whole = policy;
    if (!path || policy[0] == '/')
        return true;
    if (getcwd(here, sizeof(here)) == NULL)
        return pin_fail_errno(err, "tell the current directory");
    *whole = pin_arena_printf(arena, "%s/%s", here, policy);
    return true;
}

static bool check_name(const char *text, struct pin_error *err) {
    struct pin_image_name name;
    if (!pin_image_name_parse(text, &name, err))
        return false;
    return (name.name[0] != '\0' && name.digest[0] == '\0') ||
           pin_fail(err, PIN_ERROR_USAGE, "'%.100s' is a digest, not a name to give", text);
}

static int list_recipes(const struct build_values *values) {
    PIN_ARENA struct pin_arena arena = {0};
    struct pin_error err = {0};
    json_t *list = json_array();
    for (size_t i = 0; i < pin_image_recipes_count; i++) {
        struct pin_recipe recipe;
        if (!pin_recipe_parse(&arena, (const char *)pin_image_recipes[i].data, pin_image_recipes[i].size,
                              &recipe, &err)) {
            json_decref(list);
            return pin_report(&err, values->json);
        }
        if (!values->json)
            (void)printf("%-14s %s\n", recipe.name, recipe.description);
        (void)json_array_append_new(list, json_pack("{s:s, s:s, s:s}", "name", recipe.name, "description",
                                                    recipe.description, "digest", recipe.digest));
    }
    json_t *object = json_pack("{s:o}", "recipes", list);
    if (values->json)
        print_object(object);
    else
        json_decref(object);
    return 0;
}

static bool build_recipe(const struct pin_invocation *invocation, struct pin_arena *arena,
                         struct pin_image_config *image, struct pin_error *err) {
    const struct build_values *values = invocation->values;
    PIN_IMAGE_STORE struct pin_image_store store = PIN_IMAGE_STORE_NONE;
    struct pin_recipe recipe = {0};
    struct pin_lock lock = {0};
    if (!read_recipe(invocation->arguments[0], arena, &recipe, err))
        return false;
    struct build build = {
        .recipe = &recipe,
        .lock = &lock,
        .name = invocation->argument_count > 1 ? invocation->arguments[1] : recipe.name,
        .show = !values->json && isatty(STDERR_FILENO),
    };
    return check_name(build.name, err) && whole_path(values->policy, arena, &build.policy, err) &&
           pin_image_store_open(&store, true, err) && get_packages(values, &build, arena, &lock, err) &&
           build_image(&store, &build, arena, image, err);
}

static int run_build(const struct pin_invocation *invocation) {
    const struct build_values *values = invocation->values;
    struct pin_error err = {0};
    PIN_ARENA struct pin_arena arena = {0};
    struct pin_image_config image;
    if (values->list)
        return list_recipes(values);
    if (invocation->argument_count == 0) {
        (void)pin_fail(&err, PIN_ERROR_USAGE, "no recipe is named");
        (void)pin_hint(&err, "'pinfold image build --list' lists them");
    }
    if (pin_is_set(&err) || !build_recipe(invocation, &arena, &image, &err))
        return pin_report(&err, values->json);
    return tell_made(&image, values->json);
}

const struct pin_verb verb_build = {
    .name = "image build",
    .synopsis = "RECIPE [NAME]",
    .summary = "builds an image from Debian's packages, in sandboxes",
    .description =
        "RECIPE is one that pinfold brings along, or a file. apt fetches the packages from the host's "
        "own sources; they are unpacked and set up in sandboxes without a network. The same recipe and "
        "the same lock give the same digest.",
    .example = "pinfold image build python\npinfold image build --lock tools.lock ./tools.json tools:v1",
    .options = options,
    .option_count = PIN_COUNT(options),
    .values_size = sizeof(struct build_values),
    .most_arguments = 2,
    .run = run_build,
};
