#include "runtime/tool/args_parts.h"

#include <stdio.h>
#include <string.h>

#include "base/names.h"

static bool is_required(json_t *schema, const char *key) {
    const json_t *list = json_object_get(schema, "required");
    for (size_t i = 0; i < json_array_size(list); i++) {
        const char *name = json_string_value(json_array_get(list, i));
        if (name != NULL && strcmp(name, key) == 0)
            return true;
    }
    return false;
}

/* Whether null itself is a value that the schema names; if not, null means "left out". */
static bool takes_null(struct pin_args_walk *walk, json_t *schema) {
    json_t *null = json_null();
    bool exact = walk->exact;
    walk->trials++;
    walk->exact = true;
    json_t *taken = pin_args_value(walk, schema, null);
    walk->exact = exact;
    walk->trials--;
    bool takes = taken != NULL;
    json_decref(taken);
    return takes;
}

static bool put(struct pin_args_walk *walk, json_t *object, const char *key, json_t *value) {
    if (value == NULL)
        return false;
    if (json_object_set_new(object, key, value) == 0)
        return true;
    return pin_args_fault(walk, PIN_ERROR_EXHAUSTED, "memory is out");
}

/* One property of the schema: given, defaulted, left out, or missing. */
static bool take_property(struct pin_args_walk *walk, json_t *schema, const char *key, json_t *property,
                          json_t *from, json_t *to) {
    json_t *given = json_object_get(from, key);
    json_t *preset = json_is_object(property) ? json_object_get(property, "default") : NULL;
    bool needed = is_required(schema, key);
    size_t before = pin_args_enter(walk, key);
    bool ok = true;
    if (walk->exact && given != NULL && preset != NULL && json_equal(given, preset))
        ok = put(walk, to, key, json_incref(given)); /* the schema's own word, whether it fits or not */
    else if (given != NULL && (!json_is_null(given) || needed || takes_null(walk, property)))
        ok = put(walk, to, key, pin_args_value(walk, property, given));
    else if (preset != NULL)
        ok = put(walk, to, key, json_deep_copy(preset));
    else if (needed)
        ok = pin_args_fault(walk, PIN_ERROR_INVALID, "the argument is required");
    pin_args_leave(walk, before);
    return ok;
}

static bool take_properties(struct pin_args_walk *walk, json_t *schema, json_t *from, json_t *to) {
    json_t *properties = json_object_get(schema, "properties");
    const char *key;
    json_t *property;
    bool ok = true;
    if (properties != NULL && !json_is_object(properties))
        return pin_args_fault(walk, PIN_ERROR_INVALID, "the schema's 'properties' is no object");
    json_object_foreach(properties, key, property) ok =
        take_property(walk, schema, key, property, from, to) && ok;
    return ok;
}

/* A name that the schema doesn't have: an argument of a tool can't be meant for nobody. */
static bool refuse_unknown(struct pin_args_walk *walk, json_t *properties, const char *key) {
    const char *names[64];
    size_t count = 0;
    const char *name;
    json_t *ignored;
    json_object_foreach(properties, name, ignored) if (count < PIN_COUNT(names)) names[count++] = name;
    const char *near = pin_name_suggest(names, count, key);
    char hint[128] = "";
    if (near != NULL)
        (void)snprintf(hint, sizeof(hint), "did you mean '%.60s'?", near);
    if (walk->trials == 0)
        (void)pin_find(walk->found, PIN_ERROR_INVALID, walk->path, near != NULL ? hint : NULL,
                       "the schema has no argument '%.60s'", key);
    return false;
}

static bool take_other(struct pin_args_walk *walk, json_t *schema, const char *key, json_t *value,
                       json_t *to) {
    json_t *properties = json_object_get(schema, "properties");
    json_t *more = json_object_get(schema, "additionalProperties");
    if (json_is_object(more))
        return put(walk, to, key, pin_args_value(walk, more, value));
    /* "properties" lists what there is, unless the schema says that there may be more */
    if (json_is_true(more) || (properties == NULL && more == NULL))
        return put(walk, to, key, json_incref(value));
    return refuse_unknown(walk, properties, key);
}

static bool take_others(struct pin_args_walk *walk, json_t *schema, json_t *from, json_t *to) {
    json_t *properties = json_object_get(schema, "properties");
    const char *key;
    json_t *value;
    bool ok = true;
    json_object_foreach(from, key, value) {
        if (json_object_get(properties, key) != NULL)
            continue;
        size_t before = pin_args_enter(walk, key);
        ok = take_other(walk, schema, key, value, to) && ok;
        pin_args_leave(walk, before);
    }
    return ok;
}

/* "required" may name what "properties" doesn't. */
static bool check_required(struct pin_args_walk *walk, json_t *schema, const json_t *object) {
    const json_t *list = json_object_get(schema, "required");
    json_t *properties = json_object_get(schema, "properties");
    bool ok = true;
    for (size_t i = 0; i < json_array_size(list); i++) {
        const char *name = json_string_value(json_array_get(list, i));
        if (name == NULL || json_object_get(properties, name) != NULL ||
            json_object_get(object, name) != NULL)
            continue;
        size_t before = pin_args_enter(walk, name);
        ok = pin_args_fault(walk, PIN_ERROR_INVALID, "the argument is required");
        pin_args_leave(walk, before);
    }
    return ok;
}

static bool says_members(json_t *schema) {
    static const char *const keywords[] = {"properties", "required", "additionalProperties"};
    for (size_t i = 0; i < PIN_COUNT(keywords); i++)
        if (json_object_get(schema, keywords[i]) != NULL)
            return true;
    return false;
}

json_t *pin_args_object(struct pin_args_walk *walk, json_t *schema, json_t *value) {
    if (!says_members(schema)) /* an alternative or a reference may say it */
        return json_incref(value);
    json_t *to = json_object();
    if (to == NULL)
        return NULL;
    bool ok = take_properties(walk, schema, value, to);
    ok = take_others(walk, schema, value, to) && ok;
    ok = check_required(walk, schema, to) && ok;
    if (ok)
        return to;
    json_decref(to);
    return NULL;
}

json_t *pin_args_array(struct pin_args_walk *walk, json_t *schema, json_t *value) {
    json_t *items = json_object_get(schema, "items");
    json_t *to = json_array();
    char place[24];
    bool ok = to != NULL;
    for (size_t i = 0; i < json_array_size(value) && to != NULL; i++) {
        json_t *item = json_array_get(value, i);
        (void)snprintf(place, sizeof(place), "%zu", i);
        size_t before = pin_args_enter(walk, place);
        json_t *converted = items == NULL ? json_incref(item) : pin_args_value(walk, items, item);
        pin_args_leave(walk, before);
        ok = converted != NULL && json_array_append_new(to, converted) == 0 && ok;
    }
    if (ok)
        return to;
    json_decref(to);
    return NULL;
}
