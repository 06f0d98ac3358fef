#include "runtime/tool/args.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/names.h"
#include "runtime/tool/args_parts.h"

static const char *const type_names[] = {"null",   "boolean", "integer", "number",
                                         "string", "array",   "object",  NULL};

static bool mode_fail(struct pin_args_walk *walk, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

static bool mode_fail(struct pin_args_walk *walk, const char *format, ...) {
    char text[240];
    va_list list;
    va_start(list, format);
    (void)vsnprintf(text, sizeof(text), format, list);
    va_end(list);
    return pin_args_fault(walk, PIN_ERROR_INVALID, text);
}

bool pin_args_fault(struct pin_args_walk *walk, enum pin_error_kind kind, const char *text) {
    if (walk->trials == 0)
        (void)pin_find(walk->found, kind, walk->path, NULL, "%s", text);
    return false;
}

size_t pin_args_enter(struct pin_args_walk *walk, const char *key) {
    size_t before = walk->length, at = before;
    if (at + 1 < sizeof(walk->path))
        walk->path[at++] = '/';
    for (; *key != '\0' && at + 3 < sizeof(walk->path); key++) { /* RFC 6901 */
        if (*key == '~' || *key == '/') {
            walk->path[at++] = '~';
            walk->path[at++] = *key == '~' ? '0' : '1';
        } else {
            walk->path[at++] = *key;
        }
    }
    walk->path[at] = '\0';
    walk->length = at;
    return before;
}

void pin_args_leave(struct pin_args_walk *walk, size_t before) {
    walk->length = before;
    walk->path[before] = '\0';
}

static bool is_type(const json_t *value, const char *type) {
    if (strcmp(type, "number") == 0)
        return json_is_number(value);
    if (strcmp(type, "boolean") == 0)
        return json_is_boolean(value);
    static const struct {
        const char *name;
        json_type type;
    } others[] = {
        {"null",    JSON_NULL   },
        {"integer", JSON_INTEGER},
        {"string",  JSON_STRING },
        {"array",   JSON_ARRAY  },
        {"object",  JSON_OBJECT }
    };
    for (size_t i = 0; i < PIN_COUNT(others); i++)
        if (strcmp(type, others[i].name) == 0)
            return json_typeof(value) == others[i].type;
    return false;
}

static json_t *number_of_text(const json_t *value) {
    const char *text = json_string_value(value);
    size_t size = json_string_length(value);
    if (size == 0 || strlen(text) != size || strspn(text, "+-0123456789.eE") != size)
        return NULL;
    char *end = NULL;
    errno = 0;
    long long whole = strtoll(text, &end, 10);
    if (errno == 0 && *end == '\0' && end != text)
        return json_integer(whole);
    errno = 0;
    double real = strtod(text, &end); /* the "C" locale: no program of ours sets another */
    return errno == 0 && *end == '\0' && end != text && isfinite(real) ? json_real(real) : NULL;
}

static json_t *to_number(const json_t *value) {
    return json_is_string(value) ? number_of_text(value) : NULL;
}

static json_t *whole_of_real(const json_t *value) {
    double real = json_real_value(value);
    bool whole = real >= -9007199254740992.0 && real <= 9007199254740992.0 && floor(real) == real;
    return whole ? json_integer((json_int_t)real) : NULL;
}

static json_t *to_integer(const json_t *value) {
    if (json_is_real(value))
        return whole_of_real(value);
    json_t *number = to_number(value);
    if (number == NULL || json_is_integer(number))
        return number;
    json_t *whole = whole_of_real(number);
    json_decref(number);
    return whole;
}

static json_t *to_boolean(const json_t *value) {
    const char *text = json_string_value(value);
    static const char *const words[] = {"true", "True", "TRUE", "false", "False", "FALSE"};
    for (size_t i = 0; text != NULL && i < PIN_COUNT(words); i++)
        if (strcmp(text, words[i]) == 0)
            return json_boolean(i < 3);
    return NULL;
}

static json_t *to_string(const json_t *value) {
    char text[32];
    if (json_is_integer(value)) {
        (void)snprintf(text, sizeof(text), "%" JSON_INTEGER_FORMAT, json_integer_value(value));
        return json_string(text);
    }
    if (!json_is_real(value))
        return NULL;
    (void)snprintf(text, sizeof(text), "%.17g", json_real_value(value));
    return json_string(text);
}

static json_t *of_json_text(const json_t *value, json_type type) {
    if (!json_is_string(value))
        return NULL;
    json_t *read =
        json_loadb(json_string_value(value), json_string_length(value), JSON_REJECT_DUPLICATES, NULL);
    if (read != NULL && json_typeof(read) == type)
        return read;
    json_decref(read);
    return NULL;
}

/* A new value of the type, or NULL: the value can't be read as one. */
static json_t *convert_to(const json_t *value, const char *type) {
    if (strcmp(type, "integer") == 0)
        return to_integer(value);
    if (strcmp(type, "number") == 0)
        return to_number(value);
    if (strcmp(type, "boolean") == 0)
        return to_boolean(value);
    if (strcmp(type, "string") == 0)
        return to_string(value);
    if (strcmp(type, "array") == 0)
        return of_json_text(value, JSON_ARRAY);
    return strcmp(type, "object") == 0 ? of_json_text(value, JSON_OBJECT) : NULL;
}

static const char *name_of(const json_t *value) {
    static const char *const names[] = {
        [JSON_OBJECT] = "an object",   [JSON_ARRAY] = "an array", [JSON_STRING] = "a string",
        [JSON_INTEGER] = "an integer", [JSON_REAL] = "a number",  [JSON_TRUE] = "a boolean",
        [JSON_FALSE] = "a boolean",    [JSON_NULL] = "null",
    };
    return names[json_typeof(value)];
}

/* Calls with one type after the other, of "type": "a" or ["a", "b"]. */
static const char *type_at(const json_t *type, size_t index) {
    if (json_is_string(type))
        return index == 0 ? json_string_value(type) : NULL;
    return json_string_value(json_array_get(type, index));
}

static bool check_type_names(struct pin_args_walk *walk, const json_t *type) {
    size_t count = json_is_array(type) ? json_array_size(type) : 1;
    for (size_t i = 0; i < count; i++) {
        const char *name = type_at(type, i);
        if (name == NULL || pin_name_find(type_names, PIN_COUNT(type_names) - 1, name) < 0)
            return mode_fail(walk, "the schema's type '%.40s' is none of JSON Schema's",
                             name != NULL ? name : "");
    }
    return true;
}

/* What the types make of the value: itself, or another that stands for it. */
static json_t *match_type(struct pin_args_walk *walk, json_t *schema, json_t *value) {
    const json_t *type = json_object_get(schema, "type");
    if (type == NULL)
        return json_incref(value);
    if (!check_type_names(walk, type))
        return NULL;
    if (json_is_null(value) && json_is_true(json_object_get(schema, "nullable"))) /* of OpenAPI 3.0 */
        return json_incref(value);
    for (size_t i = 0; type_at(type, i) != NULL; i++)
        if (is_type(value, type_at(type, i)))
            return json_incref(value);
    for (size_t i = 0; !walk->exact && type_at(type, i) != NULL; i++) {
        json_t *converted = convert_to(value, type_at(type, i));
        if (converted != NULL)
            return converted;
    }
    (void)mode_fail(walk, "the argument must be of type '%s'%s, not %s", type_at(type, 0),
                    json_is_array(type) && json_array_size(type) > 1 ? " or another that is listed" : "",
                    name_of(value));
    return NULL;
}

/* "#/$defs/NAME" and "#/definitions/NAME" */
static json_t *follow_reference(const struct pin_args_walk *walk, const char *reference) {
    static const char *const folders[] = {"$defs", "definitions"};
    for (size_t i = 0; reference != NULL && i < PIN_COUNT(folders); i++) {
        size_t length = strlen(folders[i]);
        if (strncmp(reference, "#/", 2) == 0 && strncmp(reference + 2, folders[i], length) == 0 &&
            reference[2 + length] == '/') {
            json_t *folder = json_object_get(walk->root, folders[i]);
            if (folder == NULL)
                folder = json_object_get(walk->given, folders[i]);
            return json_object_get(folder, reference + 3 + length);
        }
    }
    return NULL;
}

static json_t *convert_reference(struct pin_args_walk *walk, json_t *schema, json_t *value) {
    const char *reference = json_string_value(json_object_get(schema, "$ref"));
    json_t *target = follow_reference(walk, reference);
    if (target != NULL)
        return pin_args_value(walk, target, value);
    (void)mode_fail(walk, "the schema refers to '%.80s', which isn't in it",
                    reference != NULL ? reference : "");
    return NULL;
}

/* The first that the value fits as it is, else the first that it can be made to fit. */
static json_t *convert_choice(struct pin_args_walk *walk, json_t *choices, json_t *value) {
    json_t *chosen = NULL;
    bool exact = walk->exact;
    walk->trials++;
    for (int lenient = 0; chosen == NULL && lenient <= !exact; lenient++) {
        walk->exact = !lenient;
        for (size_t i = 0; chosen == NULL && i < json_array_size(choices); i++)
            chosen = pin_args_value(walk, json_array_get(choices, i), value);
    }
    walk->exact = exact;
    walk->trials--;
    if (chosen == NULL)
        (void)mode_fail(walk, "the argument fits none of the schema's %zu alternatives",
                        json_array_size(choices));
    return chosen;
}

static json_t *convert_all(struct pin_args_walk *walk, const json_t *parts, json_t *value) {
    json_t *now = json_incref(value);
    for (size_t i = 0; now != NULL && i < json_array_size(parts); i++) {
        json_t *next = pin_args_value(walk, json_array_get(parts, i), now);
        json_decref(now);
        now = next;
    }
    return now;
}

/* What other schemas say of the value: a step each, in which it may be converted. */
static json_t *apply_others(struct pin_args_walk *walk, json_t *schema, json_t *value) {
    static const char *const choices[] = {"anyOf", "oneOf"};
    json_t *now = json_incref(value);
    for (size_t i = 0; now != NULL && i < PIN_COUNT(choices); i++) {
        json_t *list = json_object_get(schema, choices[i]);
        json_t *next = list == NULL ? json_incref(now) : convert_choice(walk, list, now);
        json_decref(now);
        now = next;
    }
    const json_t *all = json_object_get(schema, "allOf");
    if (now != NULL && all != NULL) {
        json_t *next = convert_all(walk, all, now);
        json_decref(now);
        now = next;
    }
    if (now != NULL && json_object_get(schema, "$ref") != NULL) {
        json_t *next = convert_reference(walk, schema, now);
        json_decref(now);
        now = next;
    }
    return now;
}

static json_t *apply_parts(struct pin_args_walk *walk, json_t *schema, json_t *value) {
    if (json_is_object(value))
        return pin_args_object(walk, schema, value);
    return json_is_array(value) ? pin_args_array(walk, schema, value) : json_incref(value);
}

static json_t *apply_schema(struct pin_args_walk *walk, json_t *schema, json_t *value) {
    if (!pin_args_known_keywords(walk, schema))
        return NULL;
    json_t *typed = match_type(walk, schema, value);
    json_t *whole = typed == NULL ? NULL : apply_parts(walk, schema, typed);
    json_decref(typed);
    json_t *result = whole == NULL ? NULL : apply_others(walk, schema, whole);
    json_decref(whole);
    if (result != NULL && !pin_args_check(walk, schema, result)) {
        json_decref(result);
        return NULL;
    }
    return result;
}

json_t *pin_args_value(struct pin_args_walk *walk, json_t *schema, json_t *value) {
    if (json_is_true(schema)) /* anything */
        return json_incref(value);
    if (!json_is_object(schema)) {
        (void)mode_fail(walk, json_is_false(schema) ? "the schema allows no value here"
                                                    : "the schema of this argument is no object");
        return NULL;
    }
    if (walk->depth >= PIN_ARGS_DEPTH_MAX || walk->steps >= PIN_ARGS_STEPS_MAX) {
        (void)mode_fail(walk, "the argument, or its schema, is too deep or too large to check");
        return NULL;
    }
    walk->depth++;
    walk->steps++;
    json_t *result = apply_schema(walk, schema, value);
    walk->depth--;
    return result;
}

json_t *pin_tool_schema_of(json_t *given) {
    json_t *function = json_object_get(given, "function");
    json_t *from = json_is_object(function) ? function : given;
    json_t *parameters = json_object_get(from, "parameters");
    if (json_is_object(parameters))
        return parameters;
    bool is_schema = json_object_get(from, "properties") != NULL || json_object_get(from, "type") != NULL ||
                     json_object_get(from, "$ref") != NULL;
    return json_is_object(from) && is_schema ? from : NULL;
}

const char *pin_tool_schema_name(json_t *given) {
    json_t *function = json_object_get(given, "function");
    return json_string_value(json_object_get(json_is_object(function) ? function : given, "name"));
}

/* What one part of the schema has made of a value may be wrong for another: nothing is converted any more. */
static bool fits_as_it_is(struct pin_args_walk *walk, json_t *args) {
    walk->exact = true;
    walk->steps = 0;
    json_t *again = pin_args_value(walk, walk->root, args);
    json_decref(again);
    return again != NULL;
}

json_t *pin_tool_args_convert(json_t *given, const json_t *args, struct pin_findings *found) {
    struct pin_args_walk walk = {.given = given, .root = pin_tool_schema_of(given), .found = found};
    (void)pin_args_enter(&walk, "args");
    if (walk.root == NULL) {
        (void)pin_find(found, PIN_ERROR_INVALID, "/json_schema", "give 'parameters' with 'properties'",
                       "the schema describes no arguments");
        return NULL;
    }
    json_t *copy = json_deep_copy(args); /* its counters, not the caller's */
    json_t *result = copy == NULL ? NULL : pin_args_value(&walk, walk.root, copy);
    json_decref(copy);
    if (result != NULL && !json_is_object(result)) {
        (void)mode_fail(&walk, "the arguments must be an object");
        json_decref(result);
        result = NULL;
    }
    if (result != NULL && !fits_as_it_is(&walk, result)) {
        json_decref(result);
        result = NULL;
    }
    if (result == NULL && !pin_found_any(found))
        (void)mode_fail(&walk, "the arguments can't be checked: memory is out");
    return result;
}
