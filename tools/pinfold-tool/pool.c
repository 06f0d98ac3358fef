#include "tools/pinfold-tool/pool.h"

#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/units.h"
#include "runtime/kept/home.h"
#include "tools/pinfold-kept/client.h"
#include "tools/pinfold-kept/end.h"

#define FILE_NAME "pool.json"
#define GONE_NS (10 * PIN_NS_PER_S)
#define DEFAULT_AHEAD 2
#define DEFAULT_MOST 16
#define DEFAULT_MEMORY (UINT64_C(1) << 30)
#define DEFAULT_IDLE_NS (10 * 60 * PIN_NS_PER_S)

static uint64_t number_of(const json_t *file, const char *key, uint64_t otherwise) {
    const json_t *value = json_object_get(file, key);
    return json_is_integer(value) && json_integer_value(value) >= 0 ? (uint64_t)json_integer_value(value)
                                                                    : otherwise;
}

bool pin_pool_load(int state_dir, struct pin_pool_settings *settings, struct pin_error *err) {
    struct pin_error missing = {0};
    json_t *file = pin_home_read(state_dir, FILE_NAME, &missing);
    if (file == NULL && missing.kind != PIN_ERROR_NOT_FOUND) {
        *err = missing;
        return false;
    }
    settings->ahead = number_of(file, "ahead", DEFAULT_AHEAD);
    settings->most = number_of(file, "most", DEFAULT_MOST);
    settings->memory_bytes = number_of(file, "memory_bytes", DEFAULT_MEMORY);
    settings->idle_ns = number_of(file, "idle_ms", DEFAULT_IDLE_NS / PIN_NS_PER_MS) * PIN_NS_PER_MS;
    json_decref(file);
    return true;
}

bool pin_pool_save(int state_dir, const struct pin_pool_settings *settings, struct pin_error *err) {
    json_t *file = json_pack("{s:I, s:I, s:I, s:I}", "ahead", (json_int_t)settings->ahead, "most",
                             (json_int_t)settings->most, "memory_bytes", (json_int_t)settings->memory_bytes,
                             "idle_ms", (json_int_t)(settings->idle_ns / PIN_NS_PER_MS));
    bool ok = file != NULL && pin_home_write(state_dir, FILE_NAME, file, err);
    json_decref(file);
    return ok;
}

static bool is_ours(const char *name) {
    return strncmp(name, PIN_POOL_WARM, strlen(PIN_POOL_WARM)) == 0 ||
           strncmp(name, PIN_POOL_AHEAD, strlen(PIN_POOL_AHEAD)) == 0;
}

struct listing {
    int state_dir;
    json_t *list;
};

bool pin_pool_is_idle(const json_t *stats) {
    const char *state = json_string_value(json_object_get(stats, "state"));
    return state != NULL && strcmp(state, "ending") != 0 && !json_is_true(json_object_get(stats, "frozen")) &&
           json_integer_value(json_object_get(stats, "running")) == 0;
}

static bool add(void *context, const char *name, int folder) {
    const struct listing *listing = context;
    struct pin_error err = {0}, none = {0}; /* one that is just being started, or ends, has nothing to tell */
    PIN_CLIENT struct pin_client client = PIN_CLIENT_NONE;
    if (!is_ours(name))
        return true;
    if (!pin_home_is_live(folder)) { /* nobody asks for its log */
        (void)pin_home_remove(listing->state_dir, name, &err);
        return true;
    }
    client.name = name;
    client.in.limit = PIN_WIRE_REPLY_MAX;
    client.socket = pin_home_connect(folder, name, &err);
    json_t *stats = client.socket < 0 ? NULL : pin_client_call(&client, pin_client_request("stats"), &err);
    json_t *facts = pin_home_read(folder, "sandbox.json", &none);
    const json_t *fingerprint = json_object_get(facts, "fingerprint");
    json_t *memory = json_object_get(stats, "memory_bytes");
    if (memory == NULL)
        memory = json_object_get(stats, "memory_peak_bytes");
    (void)json_array_append_new(listing->list,
                                json_pack("{s:s, s:s, s:s?, s:s, s:I, s:I}", "name", name, "kind",
                                          name[0] == PIN_POOL_WARM[0] ? "warm" : "ahead", "fingerprint",
                                          json_string_value(fingerprint), "state",
                                          stats == NULL             ? "starting"
                                          : pin_pool_is_idle(stats) ? "idle"
                                                                    : "busy",
                                          "memory_bytes", json_integer_value(memory), "idle_ms",
                                          json_integer_value(json_object_get(stats, "idle_ms"))));
    json_decref(stats);
    json_decref(facts);
    return true;
}

json_t *pin_pool_list(int state_dir, struct pin_error *err) {
    json_t *list = json_array();
    struct listing listing = {state_dir, list};
    if (pin_home_list(state_dir, add, &listing, err))
        return list;
    json_decref(list);
    return NULL;
}

bool pin_pool_end(int state_dir, const char *name, struct pin_error *err) {
    for (uint64_t until = pin_now_ns() + GONE_NS;;) {
        struct pin_error left = {0}, gone = {0}; /* then there is nothing to kill */
        (void)pin_end_kill(name, &gone);
        if (pin_home_remove(state_dir, name, &left) || left.kind == PIN_ERROR_NOT_FOUND)
            return true;
        if (left.kind != PIN_ERROR_BUSY || pin_now_ns() > until) {
            *err = left;
            return false;
        }
        (void)usleep(1000); /* it has said its last words, and is about to end; or it is just being made */
    }
}

static bool add_name(void *context, const char *name, int folder) {
    (void)folder;
    if (is_ours(name))
        (void)json_array_append_new(context, json_string(name));
    return true;
}

bool pin_pool_clear(int state_dir, struct pin_error *err) {
    json_t *names = json_array(), *name;
    bool ok = pin_home_list(state_dir, add_name, names, err);
    size_t i;
    json_array_foreach(names, i, name) ok = ok && pin_pool_end(state_dir, json_string_value(name), err);
    json_decref(names);
    return ok;
}

static bool is_idle(const json_t *item) {
    return strcmp(json_string_value(json_object_get(item, "state")), "idle") == 0;
}

/* "warm-FAMILY-REVISION-…" or "ahead-…": the same family, and another revision. */
static bool is_outdated(const char *name, const char *family, const char *revision) {
    const char *at = strchr(name, '-');
    size_t family_size = strlen(family), revision_size = strlen(revision);
    if (at == NULL || strncmp(at + 1, family, family_size) != 0 || at[1 + family_size] != '-')
        return false;
    at += 2 + family_size;
    return strncmp(at, revision, revision_size) != 0 || at[revision_size] != '-';
}

bool pin_pool_replace(int state_dir, const char *family, const char *revision, struct pin_error *err) {
    json_t *list = pin_pool_list(state_dir, err), *item;
    bool ok = list != NULL;
    size_t i;
    json_array_foreach(list, i, item) {
        const char *name = json_string_value(json_object_get(item, "name"));
        if (ok && is_idle(item) && is_outdated(name, family, revision))
            ok = pin_pool_end(state_dir, name, err);
    }
    json_decref(list);
    return ok;
}

static const char *longest_unused(json_t *list, const char *prefix) {
    const char *found = NULL;
    json_int_t most = -1;
    size_t i;
    json_t *item;
    json_array_foreach(list, i, item) {
        const char *name = json_string_value(json_object_get(item, "name"));
        json_int_t idle_ms = json_integer_value(json_object_get(item, "idle_ms"));
        if (!is_idle(item) || idle_ms <= most || strncmp(name, prefix, strlen(prefix)) == 0)
            continue;
        found = name;
        most = idle_ms;
    }
    return found;
}

static bool has_room(json_t *list, const struct pin_pool_settings *settings) {
    uint64_t memory_bytes = 0;
    size_t i;
    json_t *item;
    json_array_foreach(list, i, item) memory_bytes +=
        (uint64_t)json_integer_value(json_object_get(item, "memory_bytes"));
    return json_array_size(list) < settings->most && memory_bytes < settings->memory_bytes;
}

bool pin_pool_make_room(int state_dir, const struct pin_pool_settings *settings, const char *prefix) {
    struct pin_error err = {0};
    for (;;) {
        json_t *list = pin_pool_list(state_dir, &err);
        bool room = list != NULL && has_room(list, settings);
        const char *name = room ? NULL : longest_unused(list, prefix);
        bool ended = name != NULL && pin_pool_end(state_dir, name, &err);
        json_decref(list);
        if (room || !ended)
            return room;
    }
}
