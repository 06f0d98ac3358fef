#include "runtime/tool/deps_key.h"

#include <stdlib.h>
#include <string.h>

#include <jansson.h>

#include "base/cleanup.h"
#include "base/sha256.h"

#define LAYOUT 1 /* of a layer: another one has other keys */

static json_t *wanted_object(const struct pin_deps_wanted *wanted) {
    json_t *list = json_array();
    for (size_t i = 0; i < wanted->requirements->count; i++)
        (void)json_array_append_new(list, json_string(wanted->requirements->items[i].text));
    return json_pack("{s:i, s:s, s:s, s:s, s:s?, s:o}", "layout", LAYOUT, "installer",
                     pin_installer_name(wanted->installer), "image", wanted->image, "interpreter",
                     wanted->interpreter, "index", wanted->index, "requirements", list);
}

bool pin_deps_key(const struct pin_deps_wanted *wanted, char key[PIN_DEPS_KEY_TEXT]) {
    json_t *object = wanted_object(wanted);
    PIN_FREE char *text = object == NULL ? NULL : json_dumps(object, JSON_COMPACT);
    uint8_t digest[PIN_SHA256_SIZE];
    char printed[PIN_DIGEST_TEXT];
    json_decref(object);
    if (text == NULL)
        return false;
    pin_sha256(text, strlen(text), digest);
    memcpy(key, pin_digest_print(printed, digest) + strlen("sha256:"), PIN_DEPS_KEY_TEXT);
    return true;
}

char *pin_deps_facts(const struct pin_deps_wanted *wanted, const char *lock, long long bytes,
                     long long entries, long long made_s) {
    json_t *object = wanted_object(wanted);
    if (object == NULL)
        return NULL;
    (void)json_object_set_new(object, "lock", json_string(lock));
    (void)json_object_set_new(object, "bytes", json_integer(bytes));
    (void)json_object_set_new(object, "entries", json_integer(entries));
    (void)json_object_set_new(object, "made", json_integer(made_s));
    char *text = json_dumps(object, JSON_COMPACT);
    json_decref(object);
    return text;
}
