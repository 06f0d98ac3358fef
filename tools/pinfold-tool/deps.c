#include "tools/pinfold-tool/deps.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/names.h"
#include "images/image_resolve.h"
#include "pin_tool_runners.h"

#define RECREATE_TRIES 50 /* of a tenth of a second each */

/* Where layers are inside: console scripts and virtual environments hold their own path. */
static const struct {
    const char *target, *programs, *driver, *interpreter;
} places[] = {
    [PIN_INSTALLER_PIP] = {"/opt/pinfold/python", "/opt/pinfold/python/bin",             "install.py", "python3"},
    [PIN_INSTALLER_NPM] = {"/opt/pinfold/node",   "/opt/pinfold/node/node_modules/.bin", "install.js", "node"   },
};

static const struct pin_pair variables[] = {
    [PIN_INSTALLER_PIP] = {"VIRTUAL_ENV", "/opt/pinfold/python"           },
    [PIN_INSTALLER_NPM] = {"NODE_PATH",   "/opt/pinfold/node/node_modules"},
};

static const char *driver_of(enum pin_installer installer) {
    for (size_t i = 0; i < pin_tool_runners_count; i++)
        if (strcmp(pin_tool_runners[i].name, places[installer].driver) == 0)
            return (const char *)pin_tool_runners[i].data;
    return "";
}

/* --- what tells one interpreter from the next --- */

static bool is_host(const char *image) {
    return image == NULL || strcmp(image, "host") == 0;
}

/* The host's may change under our feet: its file says which one it is. */
static const char *host_interpreter(const char *name, struct pin_arena *arena, struct pin_error *err) {
    static const char *const folders[] = {"/usr/local/bin", "/usr/bin"}; /* of the profiles' PATH */
    char path[PATH_MAX], real[PATH_MAX];
    struct stat facts;
    for (size_t i = 0; i < PIN_COUNT(folders); i++) {
        (void)snprintf(path, sizeof(path), "%s/%s", folders[i], name);
        if (realpath(path, real) != NULL && stat(real, &facts) == 0)
            return pin_arena_printf(arena, "%s %lld %lld.%09ld", real, (long long)facts.st_size,
                                    (long long)facts.st_mtim.tv_sec, facts.st_mtim.tv_nsec);
    }
    (void)pin_fail(err, PIN_ERROR_NOT_FOUND, "this host has no '%s' that packages could be installed for",
                   name);
    return NULL;
}

static const char *image_digest(const char *image, struct pin_arena *arena, struct pin_error *err) {
    PIN_IMAGE_STORE struct pin_image_store store = PIN_IMAGE_STORE_NONE;
    struct pin_image_config config = {0};
    if (!pin_image_store_open(&store, false, err) ||
        !pin_image_find(&store, arena, image, &config, NULL, err)) {
        (void)pin_wrap(err, "the image '%.60s'", image);
        return NULL;
    }
    return config.manifest;
}

static bool describe(struct pin_deps_wanted *wanted, const struct pin_deps_options *options,
                     struct pin_arena *arena, struct pin_error *err) {
    const char *name = places[wanted->installer].interpreter;
    wanted->image = is_host(options->image) ? "host" : image_digest(options->image, arena, err);
    if (wanted->image == NULL)
        return false;
    wanted->interpreter = is_host(options->image) ? host_interpreter(name, arena, err) : name;
    return wanted->interpreter != NULL;
}

/* --- one layer --- */

struct making {
    const struct pin_deps_store *store;
    const struct pin_deps_wanted *wanted;
    const struct pin_deps_options *options;
    const struct pin_tool_config *stored;
    struct pin_arena *arena;
    char key[PIN_DEPS_KEY_TEXT];
};

static bool publish(const struct making *making, struct pin_error *err) {
    struct pin_deps_size size;
    char digest[PIN_DIGEST_TEXT];
    if (!pin_deps_settle(making->store->tmp, making->key, &size, err) ||
        !pin_deps_lock_digest(making->store->tmp, making->key, digest, err))
        return false;
    PIN_FREE char *facts = pin_deps_facts(making->wanted, digest, (long long)size.bytes,
                                          (long long)size.entries, (long long)time(NULL));
    return facts == NULL ? pin_fail(err, PIN_ERROR_EXHAUSTED, "memory is out")
                         : pin_deps_publish(making->store, making->key, facts, err);
}

/* With the lock held alone. */
static bool make(const struct making *making, struct pin_error *err) {
    char path[PATH_MAX];
    const enum pin_installer installer = making->wanted->installer;
    const struct pin_deps_job job = {
        .installer = installer,
        .requirements = making->wanted->requirements,
        .stored = making->stored,
        .options = making->options,
        .path = path,
        .target = places[installer].target,
        .driver = driver_of(installer),
        .parent = making->store->tmp,
        .folder = making->key,
    };
    bool good = pin_deps_begin(making->store, making->key, path, err) &&
                pin_deps_install(&job, making->arena, err) && publish(making, err);
    if (!good)
        pin_deps_abandon(making->store, making->key);
    return good;
}

/* Sandboxes that wait for calls may use the old layer for as long as they like: nobody waits for them. */
static int lock_used(const struct making *making, struct pin_error *err) {
    const struct timespec pause = {.tv_nsec = 100 * 1000 * 1000};
    int lock = -1;
    for (unsigned tries = 0; lock < 0 && tries < RECREATE_TRIES; tries++) {
        if (tries > 0)
            (void)nanosleep(&pause, NULL);
        pin_error_clear(err);
        lock = pin_deps_lock(making->store, making->key, PIN_DEPS_ALONE_AT_ONCE, err);
        if (lock < 0 && err->kind != PIN_ERROR_BUSY)
            return -1;
    }
    if (lock < 0)
        (void)pin_hint(err, "'pinfold pool clear' ends the sandboxes that wait for calls");
    return lock;
}

static bool make_alone(const struct making *making, bool recreate, struct pin_error *err) {
    PIN_CLOSE int lock =
        recreate ? lock_used(making, err) : pin_deps_lock(making->store, making->key, PIN_DEPS_ALONE, err);
    if (lock < 0)
        return false;
    /* another call may have made it while we waited */
    return (!recreate && pin_deps_exists(making->store, making->key)) || make(making, err);
}

/* The lock that holds the layer; -1. Between making and holding it, gc may have been faster. */
static int hold(const struct making *making, struct pin_error *err) {
    bool recreate = making->options->recreate;
    for (unsigned tries = 0; tries < 8; tries++) {
        PIN_CLOSE int lock = pin_deps_lock(making->store, making->key, PIN_DEPS_SHARED, err);
        if (lock < 0)
            return -1;
        if (!recreate && pin_deps_exists(making->store, making->key))
            return pin_steal_fd(&lock);
        pin_close_fd(&lock);
        if (making->options->found) {
            (void)pin_fail(err, PIN_ERROR_NOT_FOUND, "they aren't installed yet");
            return -1;
        }
        if (!make_alone(making, recreate, err))
            return -1;
        recreate = false;
    }
    (void)pin_fail(err, PIN_ERROR_BUSY,
                   "the dependencies were removed again and again while they were wanted");
    return -1;
}

static bool add_layer(struct pin_call_deps *deps, const struct making *making, struct pin_error *err) {
    const enum pin_installer installer = making->wanted->installer;
    int lock = hold(making, err);
    if (lock < 0)
        return false;
    deps->locks[installer] = lock;
    deps->has[installer] = true;
    deps->layers[deps->layer_count++] = (struct pin_mount_rule){
        .source = pin_arena_printf(making->arena, "%s/%s/layer", making->store->path, making->key),
        .target = places[installer].target,
        .access = PIN_ACCESS_READ,
    };
    deps->env[deps->env_count++] = variables[installer];
    return pin_deps_read_lock(making->store, making->key, deps->digests[installer], err);
}

static bool add_list(struct pin_call_deps *deps, const struct pin_deps_store *store,
                     const struct pin_call_config *config, enum pin_installer installer,
                     const struct pin_deps_options *options, struct pin_arena *arena, struct pin_error *err) {
    struct pin_deps_wanted wanted = {
        .installer = installer,
        .index = config->stored.index[installer],
        .requirements = &config->requirements[installer],
    };
    struct making making = {store, &wanted, options, &config->stored, arena, ""};
    return describe(&wanted, options, arena, err) &&
           (pin_deps_key(&wanted, making.key) ||
            pin_fail(err, PIN_ERROR_INVALID, "a requirement is no UTF-8")) &&
           add_layer(deps, &making, err);
}

bool pin_call_deps(struct pin_call_deps *deps, const struct pin_call_config *config,
                   const struct pin_deps_options *options, struct pin_arena *arena, struct pin_error *err) {
    struct pin_deps_store store = PIN_DEPS_STORE_NONE;
    bool good = pin_deps_store_open(&store, true, err);
    for (enum pin_installer i = 0; good && i < PIN_INSTALLER_COUNT; i++)
        if (config->requirements[i].count > 0)
            good = add_list(deps, &store, config, i, options, arena, err);
    pin_deps_store_close(&store);
    return good || pin_wrap(err, "the dependencies");
}

/* --- in the call --- */

const char *pin_call_deps_python(const struct pin_call_deps *deps) {
    return deps->has[PIN_INSTALLER_PIP] ? "/opt/pinfold/python/bin/python3" : NULL;
}

void pin_call_deps_path(const struct pin_call_deps *deps, struct pin_bundle *bundle) {
    for (size_t i = 0; i < PIN_INSTALLER_COUNT; i++) {
        for (size_t j = 0; deps->has[i] && j < bundle->process.env_count; j++)
            if (strncmp(bundle->process.env[j], "PATH=", 5) == 0)
                bundle->process.env[j] = pin_arena_printf(&bundle->arena, "PATH=%s:%s", places[i].programs,
                                                          bundle->process.env[j] + 5);
    }
}

const char *pin_call_deps_lock(const struct pin_call_deps *deps, enum pin_installer installer) {
    return deps->has[installer] ? deps->digests[installer] : NULL;
}

void pin_call_deps_tell(const struct pin_call_deps *deps, json_t *result) {
    json_t *locks = json_object();
    for (size_t i = 0; i < PIN_INSTALLER_COUNT; i++)
        if (deps->has[i])
            (void)json_object_set_new(locks, pin_installer_name((enum pin_installer)i),
                                      json_string(deps->digests[i]));
    if (deps->layer_count > 0)
        (void)json_object_set_new(result, "dependencies", locks);
    else
        json_decref(locks);
}

void pin_call_deps_free(struct pin_call_deps *deps) {
    for (size_t i = 0; i < PIN_INSTALLER_COUNT; i++)
        if (deps->has[i])
            pin_close_fd(&deps->locks[i]);
    *deps = (struct pin_call_deps){0};
}
